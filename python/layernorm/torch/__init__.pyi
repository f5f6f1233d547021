"""Types of the public names. The norms are subclasses of torch.nn's, whose constructors they have."""

from typing import Any, overload

from torch.nn.utils.rnn import PackedSequence
from typing_extensions import Self

from torch import Tensor, nn
from torch import device as _Device
from torch import dtype as _Dtype

from . import functional as functional

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
    "convert",
    "functional",
]

class Conversion:
    changed: dict[str, str]
    left: dict[str, str]
    unfused: list[str]
    def __init__(self, changed: dict[str, str] = ..., left: dict[str, str] = ..., unfused: list[str] = ...) -> None: ...

def convert(model: nn.Module) -> Conversion: ...

class LayerNorm(nn.LayerNorm):
    def __call__(self, input: Tensor) -> Tensor: ...
    def forward(self, input: Tensor) -> Tensor: ...

class RMSNorm(nn.RMSNorm):
    def __call__(self, x: Tensor) -> Tensor: ...
    def forward(self, x: Tensor) -> Tensor: ...

class GroupNorm(nn.GroupNorm):
    def __call__(self, input: Tensor) -> Tensor: ...
    def forward(self, input: Tensor) -> Tensor: ...

class InstanceNorm1d(nn.InstanceNorm1d):
    def __call__(self, input: Tensor) -> Tensor: ...

class InstanceNorm2d(nn.InstanceNorm2d):
    def __call__(self, input: Tensor) -> Tensor: ...

class InstanceNorm3d(nn.InstanceNorm3d):
    def __call__(self, input: Tensor) -> Tensor: ...

class BatchNorm1d(nn.BatchNorm1d):
    def __call__(self, input: Tensor) -> Tensor: ...
    def forward(self, input: Tensor) -> Tensor: ...

class BatchNorm2d(nn.BatchNorm2d):
    def __call__(self, input: Tensor) -> Tensor: ...
    def forward(self, input: Tensor) -> Tensor: ...

class BatchNorm3d(nn.BatchNorm3d):
    def __call__(self, input: Tensor) -> Tensor: ...
    def forward(self, input: Tensor) -> Tensor: ...

class _Network(nn.Module):
    input_size: int
    hidden_size: int
    bias: bool
    variant: str
    def reset_parameters(self) -> None: ...

class _Recurrent(_Network):
    mode: str
    num_layers: int
    batch_first: bool
    dropout: float
    bidirectional: bool
    proj_size: int
    eps: float | None
    def flatten_parameters(self) -> None: ...
    @property
    def all_weights(self) -> list[list[nn.Parameter]]: ...
    @classmethod
    def from_module(cls, module: nn.Module) -> Self: ...

class LSTM(_Recurrent):
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: _Device | str | int | None = None,
        dtype: _Dtype | None = None,
        *,
        variant: str = "paper",
        eps: float | None = None,
        recurrent_dropout: float = 0.0,
        drop_connect: float = 0.0,
        zoneout: float = 0.0,
        zoneout_cell: float = 0.0,
    ) -> None: ...
    @overload
    def __call__(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]: ...
    @overload
    def __call__(
        self, input: PackedSequence, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[PackedSequence, tuple[Tensor, Tensor]]: ...
    def forward(self, input: Any, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Any, tuple[Tensor, Tensor]]: ...

class GRU(_Recurrent):
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: _Device | str | int | None = None,
        dtype: _Dtype | None = None,
        *,
        variant: str = "paper",
        eps: float | None = None,
        recurrent_dropout: float = 0.0,
        drop_connect: float = 0.0,
        zoneout: float = 0.0,
    ) -> None: ...
    @overload
    def __call__(self, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]: ...
    @overload
    def __call__(self, input: PackedSequence, hx: Tensor | None = None) -> tuple[PackedSequence, Tensor]: ...
    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]: ...

class RNN(_Recurrent):
    nonlinearity: str
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: _Device | str | int | None = None,
        dtype: _Dtype | None = None,
        *,
        variant: str = "paper",
        eps: float | None = None,
        recurrent_dropout: float = 0.0,
        drop_connect: float = 0.0,
        zoneout: float = 0.0,
    ) -> None: ...
    @overload
    def __call__(self, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]: ...
    @overload
    def __call__(self, input: PackedSequence, hx: Tensor | None = None) -> tuple[PackedSequence, Tensor]: ...
    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]: ...

class LSTMCell(_Network):
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: _Device | str | int | None = None,
        dtype: _Dtype | None = None,
        *,
        variant: str = "paper",
        eps: float | None = None,
    ) -> None: ...
    def __call__(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]: ...
    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]: ...

class GRUCell(_Network):
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: _Device | str | int | None = None,
        dtype: _Dtype | None = None,
        *,
        variant: str = "paper",
        eps: float | None = None,
    ) -> None: ...
    def __call__(self, input: Tensor, hx: Tensor | None = None) -> Tensor: ...
    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor: ...

class RNNCell(_Network):
    nonlinearity: str
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: _Device | str | int | None = None,
        dtype: _Dtype | None = None,
        *,
        variant: str = "paper",
        eps: float | None = None,
    ) -> None: ...
    def __call__(self, input: Tensor, hx: Tensor | None = None) -> Tensor: ...
    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor: ...

def set_cache_limit(limit: int) -> None: ...
def clear_cache() -> None: ...
def cached_bytes() -> int: ...
def check_cuda(device: _Device | str | int | None = None) -> None: ...
