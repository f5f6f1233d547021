"""Descriptions of recurrent networks, what follows from them, and checks of parameters against them."""

from __future__ import annotations

import ast
import functools
from typing import NamedTuple

import torch

from .. import _core
from .._names import named_places
from ._readable import check_shape, check_tensor


class Spec(NamedTuple):
    """Description of a network. As text it can be an argument of an operation."""

    kind: str
    variant: str
    input: int
    hidden: int
    layers: int
    bidirectional: bool
    projection: int | None
    bias: bool
    eps: float | None
    noise: tuple[float, float, float, float, float]

    @property
    def text(self) -> str:
        return repr(tuple(self))

    @property
    def directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def output(self) -> int:
        return self.projection or self.hidden

    def quiet(self) -> Spec:
        """Returns the same description without noise."""
        return self._replace(noise=(0.0,) * 5)

    def shapes(self, batch):
        """Returns the shapes of h and c; None if there is no c."""
        cells = self.layers * self.directions
        return (cells, batch, self.output), ((cells, batch, self.hidden) if self.kind == "lstm" else None)


@functools.lru_cache(maxsize=256)
def core_of(spec: Spec) -> _core.Recurrent:
    """Returns the network of a description; the same object, with its memory, for the same description."""
    return _core.Recurrent(*spec)


@functools.lru_cache(maxsize=256)
def spec_of(text: str) -> Spec:
    return Spec(*ast.literal_eval(text))


@functools.lru_cache(maxsize=256)
def shapes_of(core: _core.Recurrent) -> list[tuple[int, ...]]:
    """Returns the shapes of a network's parameters."""
    return [tuple(shape) for *_, shape, _ in core.places()]


@functools.lru_cache(maxsize=256)
def names_of(core: _core.Recurrent) -> list[str]:
    """Returns the names of a network's parameters."""
    return [name for name, *_ in named_places(core)]


TENSORS = (torch.Tensor, torch.nn.Parameter)


def check_parameter(name, shape, p):
    """Raises for a parameter that is not a tensor or has another shape."""
    check_tensor(name, p)
    check_shape(name, p, shape)


def check_parameters(names, shapes, parameters):
    """Raises for parameters that are not tensors or have other shapes."""
    for name, shape, p in zip(names, shapes, parameters):
        check_parameter(name, shape, p)
