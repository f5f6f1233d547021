"""The extension module. Private: it trusts the addresses that it receives. Use ``layernorm`` and ``layernorm.torch``."""

from collections.abc import Sequence
from typing import Any, final

# (address, type, shape, strides in elements); types: 0 float16, 1 bfloat16, 2 float32, 3 float64.
_Tensor = tuple[int, int, Sequence[int], Sequence[int]]
# ("layer" | "rms", trailing axes or axes), ("group", groups), ("batch", None).
_Op = tuple[str, int | tuple[int, ...] | None]
# (address, type, count) of a contiguous array.
_Flat = tuple[int, int, int]
# m, δ and 1/σ of all rows: [3, rows].
_Stats = _Flat
# Running mean and variance.
_Running = tuple[_Flat, _Flat]
# (threads or 0, whether outputs were just allocated).
_How = tuple[int, bool]
# h and c.
_Pair = tuple[_Flat | None, _Flat | None]

def forward(
    op: _Op,
    x: _Tensor,
    y: _Tensor,
    weight: _Tensor | None,
    bias: _Tensor | None,
    zero_centered: bool,
    eps: float,
    stats: _Stats | None,
    residual: tuple[_Tensor, _Tensor] | None,
    how: _How,
    /,
) -> None: ...
def backward(
    op: _Op,
    x: _Tensor,
    dy: _Tensor,
    dh: _Tensor | None,
    weight: _Tensor | None,
    zero_centered: bool,
    eps: float,
    stats: _Stats,
    dx: _Tensor | None,
    dweight: _Tensor | None,
    dbias: _Tensor | None,
    how: _How,
    /,
) -> None: ...
def batch_running(
    x: _Tensor,
    y: _Tensor,
    weight: _Tensor | None,
    bias: _Tensor | None,
    eps: float,
    stats: _Stats,
    running: _Running,
    momentum: float | None,
    batches: int,
    how: _How,
    /,
) -> None: ...
def batch_infer(
    x: _Tensor,
    y: _Tensor,
    weight: _Tensor | None,
    bias: _Tensor | None,
    eps: float,
    running: _Running,
    how: _How,
    /,
) -> None: ...
def batch_infer_backward(
    x: _Tensor,
    dy: _Tensor,
    weight: _Tensor | None,
    eps: float,
    running: _Running,
    dx: _Tensor | None,
    dweight: _Tensor | None,
    dbias: _Tensor | None,
    how: _How,
    /,
) -> None: ...

# The fast path for contiguous rows. Only `layernorm.torch._eager` calls it.
def rows_forward(*arguments: Any) -> Any: ...
def rows_backward(*arguments: Any) -> Any: ...

@final
class Saved: ...

def settings() -> tuple[int, str, list[str]]: ...
def set_num_threads(threads: int | None, /) -> None: ...
def set_isa(name: str | None, /) -> None: ...

@final
class Recurrent:
    def __new__(
        cls,
        kind: str,
        variant: str,
        input: int,
        hidden: int,
        layers: int,
        bidirectional: bool,
        projection: int | None,
        bias: bool,
        eps: float | None,
        noise: tuple[float, float, float, float, float],
        /,
    ) -> Recurrent: ...
    @staticmethod
    def from_tensors(
        kind: str,
        variant: str,
        format: str,
        tensors: Sequence[tuple[str, Sequence[int], _Flat]],
        eps: float | None,
        noise_of_layers: float,
        /,
    ) -> tuple[Recurrent, list[float]]: ...
    @staticmethod
    def variants(kind: str) -> list[str]: ...
    def sizes(self) -> tuple[int, int, int, int, int | None]: ...
    def has_bias(self) -> bool: ...
    def places(self) -> list[tuple[int, int, str, list[int], int]]: ...
    def start(self, seed: int) -> list[float]: ...
    def start_into(self, seed: int, to: _Flat, /) -> None: ...
    def forward(
        self,
        parameters: Sequence[_Flat],
        x: _Flat,
        sizes: tuple[int, int, bool],
        lengths: Sequence[int] | None,
        state: _Pair,
        y: _Flat,
        last: _Pair,
        training: tuple[int, bool] | None,
        how: _How,
        /,
    ) -> Tape | None: ...

@final
class Tape:
    def backward(
        self, dy: _Flat, dlast: _Pair, dx: _Flat | None, dparameters: _Flat | None, dfirst: _Pair, /
    ) -> None: ...

def describe(network: Recurrent, /) -> dict[str, Any]: ...
def noise_hits(network: Recurrent, what: str, seed: int, layer: int, direction: int, count: int, /) -> list[bool]: ...

# (device, stream handle).
_Place = tuple[int, int]
# (kind, type, (rows, n, 0, 0) or (N, C, places, groups), eps).
_CudaNorm = tuple[str, int, tuple[int, int, int, int], float]
# (address, type, elements).
_Vector = tuple[int, int, int] | None
# (address of the mean, address of the variance, elements of each, momentum).
_Moments = tuple[int, int, int, float]
# (address, elements from that address).
_Memory = tuple[int, int]
# (address, elements between rows, elements from that address).
_Matrix = tuple[int, int, int]
# (address, type, elements).
_CudaParameter = tuple[int, int, int]
_CudaPair = tuple[_Memory, _Memory]

def cuda_use_nvrtc(path: str, /) -> bool: ...
def cuda_workspace(norm: _CudaNorm, gradients: bool, /) -> int: ...
def cuda_forward(
    place: _Place,
    norm: _CudaNorm,
    x: _Matrix,
    y: _Matrix,
    weight: _Vector,
    bias: _Vector,
    stats: _Memory | None,
    running: _Moments | None,
    workspace: tuple[int, int],
    /,
) -> None: ...
def cuda_backward(
    place: _Place,
    norm: _CudaNorm,
    x: _Matrix,
    dy: _Matrix,
    weight: _Vector,
    stats: _Memory | None,
    running: _Moments | None,
    dx: _Matrix,
    dweight: _Vector,
    dbias: _Vector,
    workspace: tuple[int, int],
    /,
) -> None: ...
def cuda_lacks(network: Recurrent, /) -> str | None: ...
def cuda_check(device: int, wait: bool, /) -> None: ...

@final
class CudaLayer:
    def __new__(
        cls,
        device: int,
        network: Recurrent,
        place: tuple[int, int],
        types: tuple[int, int],
        tf32: bool,
        shape: tuple[int, int, bool, bool],
        training: bool,
        /,
    ) -> CudaLayer: ...
    def bytes(self) -> tuple[int, int]: ...
    def forward(
        self,
        stream: int,
        parameters: Sequence[_CudaParameter],
        x: _Memory,
        y: _Matrix,
        first: _CudaPair,
        last: _CudaPair,
        lengths: _Memory,
        tape: _Memory,
        workspace: _Memory,
        /,
    ) -> None: ...
    def backward(
        self,
        stream: int,
        parameters: Sequence[_CudaParameter],
        x: _Memory,
        dy: _Matrix,
        dlast: _CudaPair,
        lengths: _Memory,
        tape: _Memory,
        workspace: _Memory,
        dparameters: Sequence[_CudaParameter],
        dx: tuple[_Memory, bool],
        dfirst: _CudaPair,
        /,
    ) -> None: ...

def use_openmp_of(library: bytes, /) -> bool: ...
