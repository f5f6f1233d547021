"""Norms and recurrent networks for PyTorch, with the arguments and state_dict keys of their torch.nn namesakes.

>>> import torch, layernorm.torch
>>> norm = layernorm.torch.LayerNorm(4)
>>> norm(torch.tensor([[1.0, 2.0, 3.0, 4.0]])).detach().round(decimals=3)
tensor([[-1.3420, -0.4470,  0.4470,  1.3420]])

Modules and functions run on CPUs and NVIDIA GPUs. Norms are bit-identical on both. Recurrent networks on a GPU match the
CPU's results up to rounding, and are bit-identical in every run and batch.

First- and second-order gradients, ``torch.compile(fullgraph=True)``, autocast, ``torch.func``, checkpointing and CUDA graphs work
as with torch.nn. Calls use ``torch.get_num_threads()`` threads unless ``layernorm.set_num_threads`` was called.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("layernorm.torch needs PyTorch: pip install torch") from error

from . import functional
from ._cells import GRUCell, LSTMCell, RNNCell
from ._convert import Conversion, convert
from ._cuda_sequences import check_cuda
from ._memory import cached_bytes, clear_cache, set_cache_limit
from ._modules import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    GroupNorm,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    LayerNorm,
    RMSNorm,
)
from ._recurrent import GRU, LSTM, RNN

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Conversion",
    "GRU",
    "GRUCell",
    "GroupNorm",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LSTM",
    "LSTMCell",
    "LayerNorm",
    "RMSNorm",
    "RNN",
    "RNNCell",
    "cached_bytes",
    "check_cuda",
    "clear_cache",
    "convert",
    "functional",
    "set_cache_limit",
]
