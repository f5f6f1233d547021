"""What networks and cells have in common: a description, named parameters, and a pass over sequences."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .._core import Recurrent
from .._names import named_places
from . import _sequence_ops  # noqa: F401  (registers the operations)
from ._calls import flat
from ._readable import check_shape, check_tensor
from ._sequences import sequences
from ._spec import TENSORS, Spec, check_parameters, core_of
from ._types import CODES, code_of

# h and c; None for zeros, and for the c of a cell without one.
Pair = Sequence["Tensor | None"]

# Outside the modules, because packed weights are neither copied nor pickled.
_ENGINES: weakref.WeakKeyDictionary[nn.Module, dict[Spec, Recurrent]] = weakref.WeakKeyDictionary()


def random_seed() -> int:
    """Draws a seed from PyTorch's generator on the CPU, whatever the default device."""
    return int(torch.randint(2**62, (), device="cpu").item())


def check_state(name: str, part: Tensor, shape: Sequence[int]) -> None:
    """Checks h or c."""
    check_tensor(f"state {name}", part)
    check_shape(f"state {name}", part, tuple(shape))
    code_of(f"state {name}", part.dtype)


def check_arguments(sizes: dict[str, int], switches: dict[str, bool]) -> None:
    """Raises unless sizes are positive integers (``proj_size`` may be 0) and switches are bools."""
    for name, value in sizes.items():
        if not isinstance(value, int):
            raise TypeError(f"{name}: expected an int, found {type(value).__name__}")
        least = 0 if name == "proj_size" else 1
        if value < least:
            raise ValueError(f"{name}: expected {least} or more, found {value}")
    for name, value in switches.items():
        if not isinstance(value, bool):
            raise TypeError(f"{name}: expected a bool, found {type(value).__name__}")


class Network(nn.Module):
    """Base class of networks and cells: a description, and named parameters."""

    _kind = ""
    _suffix = True
    input_size: int
    hidden_size: int
    bias: bool
    variant: str

    def _build(self, spec: Spec, device: torch.device | str | int | None, dtype: torch.dtype | None) -> None:
        self._spec = spec
        dtype = dtype or torch.get_default_dtype()
        if dtype not in CODES:
            raise TypeError(f"dtype: expected float16, bfloat16, float32 or float64, found {str(dtype)[6:]}")
        self._names = []
        # Kept, because torch.compile cannot call the extension module for them.
        self._shapes = []
        for name, shape, _, _ in named_places(core_of(spec), self._suffix):
            self.register_parameter(name, nn.Parameter(torch.empty(shape, device=device, dtype=dtype)))
            self._names.append(name)
            self._shapes.append(tuple(shape))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initializes the parameters as the library or paper of the variant does, with PyTorch's generator."""
        if self._parameters[self._names[0]].is_meta:
            # `torch.nn.utils.skip_init` creates modules on `meta` to skip the initialization.
            return
        core = core_of(self._spec)
        count = sum(count for *_, count in named_places(core, self._suffix))
        start = torch.empty(count, dtype=torch.float64, device="cpu")
        core.start_into(random_seed(), flat("parameters", start))
        self._fill(start)

    def _fill(self, values: Tensor) -> None:
        with torch.no_grad():
            for name, shape, at, count in named_places(core_of(self._spec), self._suffix):
                self._parameters[name].copy_(values[at : at + count].view(shape))

    def _weights(self) -> list[Tensor]:
        # As attributes, where parametrizations and `torch.func.functional_call` put theirs.
        found = [getattr(self, name) for name in self._names]
        # Plain tensors of a network are checked where they are read; those of a cell have other names there.
        if torch.compiler.is_compiling() or not self._suffix or not all(type(t) in TENSORS for t in found):
            check_parameters(self._names, self._shapes, found)
        return found

    def _seed(self) -> int | None:
        """Returns the seed of the noise of a pass; None outside training."""
        if not self.training:
            return None
        if any(self._spec.noise):
            return random_seed()
        return 0

    def _pass(
        self, x: Tensor, state: Pair, lengths: Tensor | None, batch_first: bool
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        spec = self._spec
        # Outside training there is no dropout. Zoneout stays, because its expectation is used.
        if not self.training and any(spec.noise) and not any(spec.noise[3:]):
            spec = spec.quiet()
        h, c = state
        return sequences(spec, self._engine, x, h, c, self._weights(), lengths, batch_first, self._seed())

    def _engine(self, spec: Spec) -> Recurrent:
        """Returns this module's own network, so that modules of the same sizes do not repack each other's weights."""
        own = _ENGINES.setdefault(self, {})
        if spec not in own:
            own[spec] = Recurrent(*spec)
        return own[spec]


def with_nonlinearity(variant: str, nonlinearity: str) -> str:
    """Returns the name of an RNN's variant with this activation."""
    if nonlinearity not in ("tanh", "relu"):
        raise ValueError(f"nonlinearity: expected tanh or relu, found {nonlinearity!r}")
    return variant if nonlinearity == "tanh" or variant.endswith("-relu") else variant + "-relu"
