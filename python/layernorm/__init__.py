"""Layer normalization and related norms for NumPy: accurate, and bit-identical on every machine.

This module has functions and recurrent networks for NumPy arrays; :mod:`layernorm.torch` has modules and functions for PyTorch.

>>> import numpy as np, layernorm
>>> x = np.array([[1.0, 2.0, 3.0, 4.0]], dtype=np.float32)
>>> layernorm.layer_norm(x).round(3)
array([[-1.342, -0.447,  0.447,  1.342]], dtype=float32)
"""

from ._channel_norms import (
    batch_norm,
    batch_norm_backward,
    group_norm,
    group_norm_backward,
    instance_norm,
    instance_norm_backward,
)
from ._core import set_isa, set_num_threads
from ._info import Info, info
from ._norm_calls import Gradients, Stats
from ._recurrent import GRU, LSTM, RNN, RecurrentGradients
from ._row_norms import layer_norm, layer_norm_backward, rms_norm, rms_norm_backward

__version__ = "0.1.0"

__all__ = [
    "GRU",
    "Gradients",
    "Info",
    "LSTM",
    "RNN",
    "RecurrentGradients",
    "Stats",
    "batch_norm",
    "batch_norm_backward",
    "group_norm",
    "group_norm_backward",
    "info",
    "instance_norm",
    "instance_norm_backward",
    "layer_norm",
    "layer_norm_backward",
    "rms_norm",
    "rms_norm_backward",
    "set_isa",
    "set_num_threads",
]
