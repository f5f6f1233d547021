"""Recurrent networks: a layer-normalized LSTM learns to repeat the first number of a sequence at its end.

python python/examples/recurrent.py
"""

import layernorm
import layernorm.torch
import torch
from torch import nn

print("LSTM variants:", ", ".join(layernorm.LSTM.variants()))
torch.manual_seed(0)
network = layernorm.torch.LSTM(2, 32, variant="paper")
readout = nn.Linear(32, 1)
optimizer = torch.optim.Adam([*network.parameters(), *readout.parameters()], 1e-2)
for _ in range(150):
    x = torch.rand(15, 64, 2)  # [T, B, I]: random numbers, and a flag at the first one
    x[:, :, 1] = 0
    x[0, :, 1] = 1
    y, (h, c) = network(x)  # [T, B, H], ([1, B, H], [1, B, H])
    loss = (readout(y[-1]) - x[0, :, :1]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"mean squared error {loss.item():.4f} (guessing ½ gives {1 / 12:.4f})")
assert loss.item() < 1 / 24

# The same network on NumPy arrays, step by step as in a stream, gives the same bits.
stream = layernorm.LSTM(2, 32, variant="paper")
stream.parameters = {name: value.numpy() for name, value in network.state_dict().items()}
state, whole = None, network(x)[0].detach().numpy()
for t in range(15):
    one, state = stream.step(x[t].numpy(), state)
    assert (one == whole[t]).all()

# Convert a trained nn.LSTM.
trained = nn.LSTM(8, 16, num_layers=2, bidirectional=True)
ours = layernorm.torch.LSTM.from_module(trained)
x = torch.randn(5, 3, 8)
print("largest difference from nn.LSTM:", f"{(ours(x)[0] - trained(x)[0]).abs().max().item():.0e}")
