"""Recurrent passes as custom operations: ``torch.ops.layernorm.recurrent`` and its backward, with their fake implementations and
gradients. They serve ``torch.compile``, dispatch modes and tensor subclasses.
"""

from __future__ import annotations

# PyTorch 2.5 does not accept `list[…]` in the signatures of operations.
from typing import List  # noqa: UP035

import torch
from torch import Tensor

from . import _composed
from ._eager import same_device
from ._modes import is_batched
from ._readable import check_saved
from ._sequences import (
    _backward,
    _gpu,
    _How,
    _joined,
    _lengths,
    _sizes,
    _split,
    mapped_gradients,
)
from ._spec import core_of, spec_of
from ._tapes import tensor_of
from ._transforms import map_each


def _empty_if_none(t, like):
    return like.new_empty((0,)) if t is None else t


def _how_of(text, lengths, batch_first, seed):
    spec = spec_of(text)
    return _How(core_of(spec), spec, _lengths(lengths), batch_first, seed)


def _alone(t):
    """Returns a tensor with its own storage: results of an operation must not be views of one tensor."""
    return t if t.untyped_storage().nbytes() == t.nbytes else t.clone()


@torch.library.custom_op("layernorm::recurrent", mutates_args=(), device_types=("cpu", "cuda"))
def recurrent(
    x: Tensor,
    h: Tensor | None,
    c: Tensor | None,
    parameters: List[Tensor],  # noqa: UP006
    lengths: Tensor | None,
    spec: str,
    batch_first: bool,
    seed: int | None,
    record: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns y, the last h and c (empty if there is none), and the tape (empty unless ``record``)."""
    same_device(x, h, c, *parameters)
    how = _how_of(spec, lengths, batch_first, seed)
    y, last_h, last_c, tape = how.run(x, h, c, parameters, record and not how.expectation)
    if x.is_cuda:
        tape = tape.memory if record and tape is not None else x.new_empty((0,), dtype=torch.uint8)
    else:
        tape = tensor_of(tape) if record else torch.empty(0, dtype=torch.int64)
    return y, last_h, _empty_if_none(last_c, x), tape


def _fake_tape(x, parameters, lengths, spec, batch_first, seed, record):
    if x.device.type != "cuda":
        return torch.empty(1 if record else 0, dtype=torch.int64, device=x.device)
    size = 0
    if record:
        how = _How(core_of(spec), spec, None if lengths is None else [], batch_first, seed)
        fixed = all(type(size) is int for size in x.shape) and torch.cuda.is_available()
        stack = _gpu().stack_of(how, x, parameters, True) if fixed else None
        lacks = _gpu().lacks(spec, how.core, x.dtype, [p.dtype for p in parameters], (1, 1))
        if stack is not None:
            size = stack.bytes
        elif not fixed and lacks is None:
            # For symbolic shapes the size is known only after the pass.
            size = torch.library.get_ctx().new_dynamic_size()
    return x.new_empty((size,), dtype=torch.uint8)


@recurrent.register_fake
def _(x, h, c, parameters, lengths, spec, batch_first, seed, record):
    spec = spec_of(spec)
    _, batch = _sizes(x, batch_first)
    shape_h, shape_c = spec.shapes(batch)
    y = x.new_empty((*x.shape[:2], spec.directions * spec.output))
    tape = _fake_tape(x, parameters, lengths, spec, batch_first, seed, record)
    return y, x.new_empty(shape_h), x.new_empty((0,) if shape_c is None else shape_c), tape


@torch.library.custom_op("layernorm::recurrent_backward", mutates_args=(), device_types=("cpu", "cuda"))
def recurrent_backward(
    dy: Tensor,
    dh: Tensor,
    dc: Tensor | None,
    tape: Tensor,
    x: Tensor,
    h: Tensor | None,
    c: Tensor | None,
    parameters: List[Tensor],  # noqa: UP006
    lengths: Tensor | None,
    spec: str,
    batch_first: bool,
    seed: int | None,
) -> tuple[Tensor, Tensor, Tensor, List[Tensor]]:  # noqa: UP006
    """Returns the gradients of x, h and c (empty if there is none) and of the parameters."""
    same_device(x, h, c, *parameters)
    how = _how_of(spec, lengths, batch_first, seed)
    dx, dh, dc, *parts = _backward(how, tape, (x, h, c, *parameters), (dy, dh, dc))
    return dx, _empty_if_none(dh, x), _empty_if_none(dc, x), [_alone(part) for part in parts]


@recurrent_backward.register_fake
def _(dy, dh, dc, tape, x, h, c, parameters, lengths, spec, batch_first, seed):
    state = (x.new_empty((0,)) if t is None else torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in (h, c))
    return torch.empty(x.shape, dtype=x.dtype, device=x.device), *state, [torch.empty_like(p) for p in parameters]


def _setup(ctx, inputs, output):
    x, h, c, parameters, lengths, *ctx.how, _ = inputs
    ctx.save_for_backward(x, h, c, lengths, output[3], *parameters)
    ctx.mark_non_differentiable(output[3])


def _gradient(ctx, dy, dh, dc, _):
    x, h, c, lengths, tape, *parameters = ctx.saved_tensors
    dc = dc if spec_of(ctx.how[0]).kind == "lstm" else None
    if is_batched(dy) or is_batched(dh):
        found = mapped_gradients(*ctx.how, tape, (x, h, c, *parameters), (dy, dh, dc), lengths)
        return (*found[:3], list(found[3:]), None, None, None, None, None)
    dx, first_h, first_c, parts = torch.ops.layernorm.recurrent_backward(
        dy, dh, dc, tape, x, h, c, parameters, lengths, *ctx.how
    )
    state = (None if h is None else first_h, None if c is None else first_c)
    return (dx, *state, parts, None, None, None, None, None)


recurrent.register_autograd(_gradient, setup_context=_setup)


def _backward_setup(ctx, inputs, output):
    dy, dh, dc, _, x, h, c, parameters, lengths, *ctx.how = inputs
    ctx.save_for_backward(dy, dh, dc, lengths, x, h, c, *parameters)


def _twice(how, saved, u, u_h, u_c, u_parameters):
    """Returns second-order gradients, with respect to the cotangents, and to x, h, c and the parameters."""
    dy, dh, dc, lengths, *tensors = saved
    text, batch_first, seed = how
    given = (u, None if tensors[1] is None else u_h, None if tensors[2] is None else u_c, *u_parameters)
    return _composed.gradients_of_gradients(_how_of(text, lengths, batch_first, seed), tensors, (dy, dh, dc), given)


def _backward_gradient(ctx, u, u_h, u_c, u_parameters):
    check_saved(*ctx.saved_tensors)
    outer, inner = _twice(ctx.how, ctx.saved_tensors, u, u_h, u_c, u_parameters)
    return (*outer, None, *inner[:3], inner[3:], None, None, None, None)


recurrent_backward.register_autograd(_backward_gradient, setup_context=_backward_setup)


@torch.library.custom_op("layernorm::recurrent_gradients", mutates_args=(), device_types=("cpu", "cuda"))
def recurrent_gradients(
    dy: Tensor,
    dh: Tensor,
    dc: Tensor | None,
    tape: Tensor,
    x: Tensor,
    h: Tensor | None,
    c: Tensor | None,
    parameters: Tensor,
    lengths: Tensor | None,
    spec: str,
    batch_first: bool,
    seed: int | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """:func:`recurrent_backward` with the parameters joined, because vmap does not support lists of tensors."""
    how = _how_of(spec, lengths, batch_first, seed)
    parts = _split(parameters, how.core)
    dx, dh, dc, *parts = _backward(how, tape, (x, h, c, *parts), (dy, dh, dc))
    return dx, _empty_if_none(dh, x), _empty_if_none(dc, x), _joined(parts)


def _gradients_setup(ctx, inputs, output):
    dy, dh, dc, _, x, h, c, parameters, lengths, *ctx.how = inputs
    ctx.save_for_backward(dy, dh, dc, lengths, x, h, c, parameters)


def _gradients_gradient(ctx, u, u_h, u_c, u_parameters):
    *saved, parameters = ctx.saved_tensors
    core = core_of(spec_of(ctx.how[0]))
    outer, inner = _twice(ctx.how, (*saved, *_split(parameters, core)), u, u_h, u_c, _split(u_parameters, core))
    return (*outer, None, *inner[:3], _joined(inner[3:]), None, None, None, None)


recurrent_gradients.register_autograd(_gradients_gradient, setup_context=_gradients_setup)

map_each(recurrent_gradients, torch.ops.layernorm.recurrent_gradients)
map_each(recurrent, torch.ops.layernorm.recurrent)
map_each(recurrent_backward, torch.ops.layernorm.recurrent_backward)
