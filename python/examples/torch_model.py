"""PyTorch: converts the norms of an existing model and trains it.

python python/examples/torch_model.py
"""

import layernorm.torch
import torch
from torch import nn

torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
model = nn.Sequential(nn.TransformerEncoder(layer, 2), nn.Linear(32, 5))
print(layernorm.torch.convert(model))

x, target = torch.randn(16, 7, 32), torch.randint(5, (16, 7))  # [B, T, features], [B, T]
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
losses = []
for _ in range(20):
    loss = nn.functional.cross_entropy(model(x).flatten(0, 1), target.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(f"loss {losses[0]:.3f} → {losses[-1]:.3f}")
assert losses[-1] < losses[0] - 0.1

# A row gives the same bits by itself and in any batch.
norm = layernorm.torch.LayerNorm(768)
rows = torch.randn(64, 768)
assert torch.equal(norm(rows)[5], norm(rows[5]))
