"""Types of the public names. Arrays are of float16, bfloat16 (of ml_dtypes), float32 or float64."""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from numpy import ndarray
from numpy.typing import ArrayLike, DTypeLike

__version__: str
__all__: list[str]

class Stats(NamedTuple):
    m: ndarray
    delta: ndarray
    rstd: ndarray
    @property
    def mean(self) -> ndarray: ...

class Gradients(NamedTuple):
    x: ndarray
    weight: ndarray | None
    bias: ndarray | None

class RecurrentGradients(NamedTuple):
    x: ndarray
    parameters: dict[str, ndarray]
    state: ndarray | tuple[ndarray, ndarray]

class Info(NamedTuple):
    threads: int
    isa: str
    available: tuple[str, ...]

def info() -> Info: ...
def set_num_threads(threads: int | None, /) -> None: ...
def set_isa(name: str | None, /) -> None: ...

# One array; with a residual, return_stats or both, a tuple: (y[, h][, stats]).
def layer_norm(
    x: ArrayLike,
    normalized_shape: int | Sequence[int] | None = None,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    eps: float = 1e-5,
    *,
    axis: int | Sequence[int] | None = None,
    residual: ArrayLike | None = None,
    out: ndarray | None = None,
    return_stats: bool = False,
    zero_centered: bool = False,
) -> Any: ...
def rms_norm(
    x: ArrayLike,
    normalized_shape: int | Sequence[int] | None = None,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    eps: float = 1e-5,
    *,
    axis: int | Sequence[int] | None = None,
    residual: ArrayLike | None = None,
    out: ndarray | None = None,
    return_stats: bool = False,
    zero_centered: bool = False,
) -> Any: ...
def layer_norm_backward(
    dy: ArrayLike,
    x: ArrayLike,
    normalized_shape: int | Sequence[int] | None = None,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    eps: float = 1e-5,
    *,
    axis: int | Sequence[int] | None = None,
    stats: Stats | None = None,
    dh: ArrayLike | None = None,
    zero_centered: bool = False,
) -> Gradients: ...
def rms_norm_backward(
    dy: ArrayLike,
    x: ArrayLike,
    normalized_shape: int | Sequence[int] | None = None,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    eps: float = 1e-5,
    *,
    axis: int | Sequence[int] | None = None,
    stats: Stats | None = None,
    dh: ArrayLike | None = None,
    zero_centered: bool = False,
) -> Gradients: ...
def group_norm(
    x: ArrayLike,
    num_groups: int,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    eps: float = 1e-5,
    *,
    out: ndarray | None = None,
    return_stats: bool = False,
) -> Any: ...
def group_norm_backward(
    dy: ArrayLike,
    x: ArrayLike,
    num_groups: int,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    eps: float = 1e-5,
    *,
    stats: Stats | None = None,
) -> Gradients: ...
def instance_norm(
    x: ArrayLike,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    eps: float = 1e-5,
    *,
    out: ndarray | None = None,
    return_stats: bool = False,
) -> Any: ...
def instance_norm_backward(
    dy: ArrayLike,
    x: ArrayLike,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    eps: float = 1e-5,
    *,
    stats: Stats | None = None,
) -> Gradients: ...
def batch_norm(
    x: ArrayLike,
    running_mean: ndarray | None = None,
    running_var: ndarray | None = None,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    training: bool = False,
    momentum: float | None = 0.1,
    eps: float = 1e-5,
    *,
    out: ndarray | None = None,
    return_stats: bool = False,
    num_batches_tracked: int = 0,
) -> Any: ...
def batch_norm_backward(
    dy: ArrayLike,
    x: ArrayLike,
    running_mean: ArrayLike | None = None,
    running_var: ArrayLike | None = None,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    training: bool = False,
    eps: float = 1e-5,
    *,
    stats: Stats | None = None,
) -> Gradients: ...

# h, or (h, c) of an LSTM.
_State = ndarray | tuple[ndarray, ndarray]

class _Tape:
    def backward(self, dy: ArrayLike, dstate: _State | None = None) -> RecurrentGradients: ...

class _Recurrent:
    variant: str
    batch_first: bool
    parameters: dict[str, ndarray]
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        variant: str = "paper",
        *,
        num_layers: int = 1,
        bidirectional: bool = False,
        batch_first: bool = False,
        bias: bool = True,
        proj_size: int = 0,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        drop_connect: float = 0.0,
        zoneout: float = 0.0,
        zoneout_cell: float = 0.0,
        eps: float | None = None,
        dtype: DTypeLike = ...,
        seed: int = 0,
    ) -> None: ...
    @classmethod
    def variants(cls) -> list[str]: ...
    def forward(
        self, x: ArrayLike, state: _State | None = None, lengths: Sequence[int] | None = None
    ) -> tuple[ndarray, _State]: ...
    def __call__(
        self, x: ArrayLike, state: _State | None = None, lengths: Sequence[int] | None = None
    ) -> tuple[ndarray, _State]: ...
    def train(
        self,
        x: ArrayLike,
        state: _State | None = None,
        lengths: Sequence[int] | None = None,
        *,
        seed: int = 0,
        recompute: bool = False,
    ) -> tuple[ndarray, _State, _Tape]: ...
    def step(self, x: ArrayLike, state: _State | None = None) -> tuple[ndarray, _State]: ...

class LSTM(_Recurrent):
    _kind: ClassVar[str]

class GRU(_Recurrent):
    _kind: ClassVar[str]

class RNN(_Recurrent):
    _kind: ClassVar[str]
