"""User code for mypy, which must report only the marked errors. It is never run."""

import numpy as np
from torch.nn.utils.rnn import PackedSequence, pack_sequence

import layernorm
import layernorm.torch as lt
import torch
from layernorm.torch import functional as F
from torch import Tensor, nn

x = np.zeros((2, 4), np.float32)
y = layernorm.layer_norm(x, 4)
gradients: layernorm.Gradients = layernorm.layer_norm_backward(x, x, 4)
network = layernorm.LSTM(3, 5, num_layers=2)
out, state, tape = network.train(np.zeros((7, 2, 3), np.float32))
by_name: dict[str, np.ndarray] = tape.backward(out).parameters

normed: Tensor = lt.LayerNorm(4)(torch.zeros(2, 4))
again: Tensor = F.rms_norm(normed, [4])
lstm = lt.LSTM(3, 5, variant="paper", device="cpu", dtype=torch.float64)
sequence, (h, c) = lstm(torch.zeros(7, 2, 3))
both: Tensor = sequence + h + c
packed: PackedSequence = lstm(pack_sequence([torch.zeros(3, 3)]))[0]
last: Tensor = lt.GRU(3, 5)(torch.zeros(7, 2, 3))[1]
taken: lt.LSTM = lt.LSTM.from_module(nn.LSTM(3, 5))
h1, c1 = lt.LSTMCell(3, 5)(torch.zeros(2, 3))
done: lt.Conversion = lt.convert(nn.Sequential(nn.LayerNorm(3)))
names: list[str] = list(done.changed)

lt.LSTM(3, "5")  # type: ignore[arg-type]
F.layer_norm(3, [4])  # type: ignore[arg-type]
layernorm.set_num_threads("two")  # type: ignore[arg-type]
lt.GRU(3, 5, proj_size=2)  # type: ignore[call-arg]
