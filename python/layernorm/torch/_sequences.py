"""Recurrent passes on tensors, with their gradients.

Plain tensors go through an autograd function that keeps a tape between forward and backward. ``torch.compile`` and tensors
without data go through the operation ``torch.ops.layernorm.recurrent``; an operation gives nothing but tensors, so there is no
tape, and its backward runs forward again.

Letters: T steps, B sequences, I inputs, H hidden units, P the numbers of h, L layers, D directions.
"""

from __future__ import annotations

import ast
import functools
from typing import NamedTuple, Optional

import torch
from torch import Tensor

from .. import _core
from ._calls import CODES, acc_of
from ._eager import _dispatch_modes, _function_modes, _plain


class Spec(NamedTuple):
    """What a network is. As text it can be an argument of an operation."""

    kind: str
    variant: str
    input: int
    hidden: int
    layers: int
    bidirectional: bool
    projection: Optional[int]
    bias: bool
    eps: Optional[float]
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

    def quiet(self) -> "Spec":
        """The same without noise."""
        return self._replace(noise=(0.0,) * 5)

    def shapes(self, batch):
        """Of h and c; None where there is no c."""
        cells = self.layers * self.directions
        return (cells, batch, self.output), ((cells, batch, self.hidden) if self.kind == "lstm" else None)


@functools.lru_cache(maxsize=256)
def core_of(spec: Spec) -> _core.Recurrent:
    """The network of a description; the same one for the same description, with the memory that it keeps."""
    return _core.Recurrent(*spec)


@functools.lru_cache(maxsize=256)
def spec_of(text: str) -> Spec:
    return Spec(*ast.literal_eval(text))


def _address(t):
    return 0 if t is None else t.data_ptr()


def _state(t, acc):
    return None if t is None else t.detach().to(acc).contiguous()


def _sizes(x, batch_first):
    return (x.shape[1], x.shape[0]) if batch_first else (x.shape[0], x.shape[1])


def run(spec, core, x, h, c, parameters, lengths, batch_first, training):
    """y, last h, last c (or None) and the tape (or None). ``training`` is ``(seed, recompute)`` or None."""
    acc = acc_of(x.dtype)
    x = x.detach().contiguous()
    steps, batch = _sizes(x, batch_first)
    make = torch.empty if lengths is None else torch.zeros
    y = make((*x.shape[:2], spec.directions * spec.output), dtype=x.dtype)
    last = [None if shape is None else torch.empty(shape, dtype=acc) for shape in spec.shapes(batch)]
    h, c = _state(h, acc), _state(c, acc)
    parameters = [p.detach().contiguous() for p in parameters]
    tape = core.forward(
        [(p.data_ptr(), CODES[p.dtype]) for p in parameters],
        CODES[x.dtype],
        x.data_ptr(),
        (steps, batch, batch_first),
        lengths,
        (_address(h), _address(c)),
        y.data_ptr(),
        tuple(map(_address, last)),
        training,
        (torch.get_num_threads(), False),
    )
    last = [None if t is None else t.to(x.dtype) for t in last]
    return y, last[0], last[1], tape


def gradients(spec, tape, x, dy, dh, dc, parameters, batch_first):
    """Of x, h, c and the parameters."""
    acc = acc_of(x.dtype)
    _, batch = _sizes(x, batch_first)
    dy = dy.to(x.dtype).contiguous()
    dh, dc = _state(dh, acc), _state(dc, acc)
    dx = torch.empty(x.shape, dtype=x.dtype)
    first = [None if shape is None else torch.empty(shape, dtype=acc) for shape in spec.shapes(batch)]
    counts = [p.numel() for p in parameters]
    flat = torch.empty(sum(counts), dtype=acc)
    tape.backward(
        dy.data_ptr(), (_address(dh), _address(dc)), dx.data_ptr(), flat.data_ptr(), tuple(map(_address, first))
    )
    parts = [g.view(p.shape).to(p.dtype) for g, p in zip(flat.split(counts), parameters)]
    return dx, first[0], first[1], parts


class _Recurrent(torch.autograd.Function):
    @staticmethod
    def forward(ctx, spec, core, x, h, c, lengths, batch_first, training, *parameters):
        y, last_h, last_c, tape = run(spec, core, x, h, c, parameters, lengths, batch_first, training)
        ctx.spec, ctx.tape, ctx.batch_first = spec, tape, batch_first
        ctx.types = [None if t is None else t.dtype for t in (h, c)]
        ctx.like, ctx.parameters = x.detach(), [p.detach() for p in parameters]
        return y, last_h, last_c

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, dy, dh, dc):
        dx, dh, dc, parts = gradients(ctx.spec, ctx.tape, ctx.like, dy, dh, dc, ctx.parameters, ctx.batch_first)
        wanted = ctx.needs_input_grad
        state = [None if t is None or k is None else t.to(k) for t, k in zip((dh, dc), ctx.types)]
        parts = [g if w else None for g, w in zip(parts, wanted[8:])]
        return (None, None, dx if wanted[2] else None, *state, None, None, None, *parts)


def _lengths(lengths):
    return None if lengths is None else lengths.tolist()


def _empty_if_none(t, like):
    return like.new_empty((0,)) if t is None else t


def _stateless(text, x, h, c, parameters, lengths, batch_first, training):
    spec = spec_of(text)
    return run(spec, core_of(spec), x, h, c, parameters, _lengths(lengths), batch_first, training)


@torch.library.custom_op("layernorm::recurrent", mutates_args=(), device_types="cpu")
def recurrent(
    x: Tensor,
    h: Optional[Tensor],
    c: Optional[Tensor],
    parameters: list[Tensor],
    lengths: Optional[Tensor],
    spec: str,
    batch_first: bool,
    seed: int,
    training: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """y and the last h and c (empty where there is none)."""
    mode = (seed, False) if training else None
    y, last_h, last_c, _ = _stateless(spec, x, h, c, parameters, lengths, batch_first, mode)
    return y, last_h, _empty_if_none(last_c, x)


@recurrent.register_fake
def _(x, h, c, parameters, lengths, spec, batch_first, seed, training):
    spec = spec_of(spec)
    _, batch = _sizes(x, batch_first)
    shape_h, shape_c = spec.shapes(batch)
    y = x.new_empty((*x.shape[:2], spec.directions * spec.output))
    return y, x.new_empty(shape_h), x.new_empty((0,) if shape_c is None else shape_c)


@torch.library.custom_op("layernorm::recurrent_backward", mutates_args=(), device_types="cpu")
def recurrent_backward(
    dy: Tensor,
    dh: Tensor,
    dc: Optional[Tensor],
    x: Tensor,
    h: Optional[Tensor],
    c: Optional[Tensor],
    parameters: list[Tensor],
    lengths: Optional[Tensor],
    spec: str,
    batch_first: bool,
    seed: int,
) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
    """Gradients of x, h, c and the parameters."""
    found = spec_of(spec)
    *_, tape = _stateless(spec, x, h, c, parameters, lengths, batch_first, (seed, False))
    dx, first_h, first_c, parts = gradients(found, tape, x, dy, dh, dc, parameters, batch_first)
    first_c = x.new_empty((0,)) if first_c is None else first_c.to(x.dtype)
    return dx, first_h.to(x.dtype), first_c, [part.clone() for part in parts]


@recurrent_backward.register_fake
def _(dy, dh, dc, x, h, c, parameters, lengths, spec, batch_first, seed):
    _, batch = _sizes(x, batch_first)
    shape_h, shape_c = spec_of(spec).shapes(batch)
    state = x.new_empty(shape_h), x.new_empty((0,) if shape_c is None else shape_c)
    return torch.empty(x.shape, dtype=x.dtype, device=x.device), *state, [torch.empty_like(p) for p in parameters]


def _setup(ctx, inputs, output):
    x, h, c, parameters, lengths, ctx.spec, ctx.batch_first, ctx.seed, _ = inputs
    ctx.save_for_backward(x, h, c, lengths, *parameters)


def _gradient(ctx, dy, dh, dc):
    x, h, c, lengths, *parameters = ctx.saved_tensors
    dc = dc if spec_of(ctx.spec).kind == "lstm" else None
    dx, first_h, first_c, parts = torch.ops.layernorm.recurrent_backward(
        dy, dh, dc, x, h, c, parameters, lengths, ctx.spec, ctx.batch_first, ctx.seed
    )
    state = (None if h is None else first_h, None if c is None else first_c)
    return (dx, *state, parts, None, None, None, None, None)


recurrent.register_autograd(_gradient, setup_context=_setup)


def sequences(spec, engine, x, h, c, parameters, lengths, batch_first, seed):
    """y, last h and last c (or None). ``seed`` is None outside training; ``lengths`` is a tensor or None. ``engine(spec)`` is
    the network that keeps this module's packed weights.
    """
    short = (
        not torch.compiler.is_compiling()
        and _plain(x)
        and all(map(_plain, parameters))
        and not _dispatch_modes()
        and not _function_modes()
    )
    noisy = seed is not None and any(spec.noise)
    if not short:
        y, last_h, last_c = torch.ops.layernorm.recurrent(
            x, h, c, parameters, lengths, spec.text, batch_first, seed or 0, noisy
        )
        return y, last_h, last_c if spec.kind == "lstm" else None
    needs_grad = torch.is_grad_enabled() and any(
        t is not None and t.requires_grad for t in (x, h, c, *parameters)
    )
    if not needs_grad:
        mode = (seed, False) if noisy else None
        return run(spec, engine(spec), x, h, c, parameters, _lengths(lengths), batch_first, mode)[:3]
    return _Recurrent.apply(spec, engine(spec), x, h, c, _lengths(lengths), batch_first, (seed or 0, False), *parameters)
