"""The norms as PyTorch modules, with torch.nn's arguments and state_dict keys, and as functions.

>>> import torch, layernorm.torch
>>> norm = layernorm.torch.LayerNorm(4)
>>> norm(torch.tensor([[1.0, 2.0, 3.0, 4.0]])).detach().round(decimals=3)
tensor([[-1.3420, -0.4470,  0.4470,  1.3420]])

They run on the CPU and, by kernels of their own, on NVIDIA GPUs. Autograd (also twice), ``torch.compile(fullgraph=True)``,
autocast, ``torch.func``, checkpointing and CUDA graphs work as with torch.nn's. Threads are as many as ``torch.get_num_threads()`` unless ``layernorm.set_num_threads`` says otherwise.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("layernorm.torch needs PyTorch: pip install torch") from error

from . import functional
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
from ._recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell

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
