"""Recurrent passes on tensors, with their gradients.

Plain tensors go through an autograd function that keeps a tape between forward and backward, ``torch.func`` through one with
``setup_context``, ``torch.compile`` and tensors without data through the operation of ``_sequence_ops.py``. The last two pass
the tape as a tensor (``_tapes.py``; on a GPU it is one). Second-order gradients, and gradients of zoneout's expectation, are
composed of PyTorch operations (``_composed.py``); on a GPU (``_cuda_sequences.py``) so is whatever its kernels lack.

Shapes: T steps, B sequences, I inputs, H hidden units, P elements of h, L layers, D directions.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import torch

from .. import _core
from . import _composed
from ._calls import flat, flats
from ._eager import has_data, refuse_tangents, same_device, together
from ._modes import dispatch_modes, function_modes, is_batched, tracing, transform
from ._readable import check_saved, check_shape, is_plain, is_stored, readable
from ._spec import TENSORS, Spec, check_parameter, core_of, names_of, shapes_of
from ._tapes import tape_of, tensor_of
from ._transforms import each
from ._types import acc_of, code_of


def _gpu():
    """Returns the module for GPUs, imported on first use."""
    from . import _cuda_sequences

    return _cuda_sequences


def _pair(what, state):
    return tuple(flat(what, t) for t in state)


def _state(t, acc):
    return None if t is None else t.to(acc).contiguous()


def _sizes(x, batch_first):
    return (x.shape[1], x.shape[0]) if batch_first else (x.shape[0], x.shape[1])


def run(spec, core, x, h, c, parameters, lengths, batch_first, training):
    """Returns y, last h, last c (or None) and the tape (or None). ``training`` is ``(seed, recompute)`` or None."""
    code_of("input", x.dtype)
    acc = acc_of(x.dtype)
    x = x.contiguous()
    steps, batch = _sizes(x, batch_first)
    make = torch.empty if lengths is None else torch.zeros
    y = make((*x.shape[:2], spec.directions * spec.output), dtype=x.dtype, device="cpu")
    last = [None if shape is None else torch.empty(shape, dtype=acc, device="cpu") for shape in spec.shapes(batch)]
    h, c = _state(h, acc), _state(c, acc)
    parameters = [p if p.is_contiguous() else p.contiguous() for p in parameters]
    tape = core.forward(
        flats("parameters", parameters),
        flat("input", x),
        (steps, batch, batch_first),
        lengths,
        _pair("state", (h, c)),
        flat("output", y),
        _pair("state", last),
        training,
        (torch.get_num_threads(), False),
    )
    last = [None if t is None else t.to(x.dtype) for t in last]
    return y, last[0], last[1], tape


def gradients(spec, tape, x, dy, dh, dc, parameters, batch_first, for_x=True):
    """Returns the gradients of x (None unless ``for_x``), h, c and the parameters. Cotangents that are None are zeros."""
    acc = acc_of(x.dtype)
    _, batch = _sizes(x, batch_first)
    if dy is None:
        dy = torch.zeros((*x.shape[:2], spec.directions * spec.output), dtype=x.dtype, device="cpu")
    dy = dy.to(x.dtype).contiguous()
    dh, dc = _state(dh, acc), _state(dc, acc)
    dx = torch.empty(x.shape, dtype=x.dtype, device="cpu") if for_x else None
    first = [None if shape is None else torch.empty(shape, dtype=acc, device="cpu") for shape in spec.shapes(batch)]
    counts = [p.numel() for p in parameters]
    whole = torch.empty(sum(counts), dtype=acc, device="cpu")
    tape.backward(
        flat("gradient of the output", dy),
        _pair("gradient of the final state", (dh, dc)),
        flat("gradient of the input", dx),
        flat("gradients of the parameters", whole),
        _pair("gradient of the state", first),
    )
    parts = [g.view(p.shape).to(p.dtype) for g, p in zip(whole.split(counts), parameters)]
    return dx, first[0], first[1], parts


class _How(NamedTuple):
    """A pass without its tensors. ``seed`` is None outside training."""

    core: _core.Recurrent
    spec: Spec
    lengths: list[int] | None
    batch_first: bool
    seed: int | None

    def _check_input(self, x):
        if x.dim() != 3 or x.shape[2] != self.spec.input:
            order = "[B, T, I]" if self.batch_first else "[T, B, I]"
            raise ValueError(f"input: expected {order} with I = {self.spec.input}, found shape {list(x.shape)}")

    def _read(self, x, h, c, parameters):
        """Checks the shapes of a pass and returns its tensors as the extension module can read them."""
        self._check_input(x)
        same_device(x, h, c, *parameters)
        for name, t, shape in zip("hc", (h, c), self.spec.shapes(_sizes(x, self.batch_first)[1])):
            if t is not None:
                check_shape(f"state {name}", t, (0,) if shape is None else shape)
        names = names_of(self.core)
        if len(parameters) != len(names):
            raise ValueError(f"parameters: expected {len(names)} tensors, found {len(parameters)}")
        found = []
        for name, shape, p in zip(names, shapes_of(self.core), parameters):
            # The common case, with few checks.
            if type(p) in TENSORS and p.shape == shape and is_stored(p) and (at := p.data_ptr()) and not at & 7:
                found.append(p)
                continue
            check_parameter(name, shape, p)
            found.append(readable(name, p))
        return readable("input", x), readable("state h", h), readable("state c", c), found

    def _read_cotangents(self, x, cotangents):
        """The same for the gradients of y, last h and last c."""
        shapes = self.spec.shapes(_sizes(x, self.batch_first)[1])
        shapes = ((*x.shape[:2], self.spec.directions * self.spec.output), *shapes)
        for t, shape in zip(cotangents, shapes):
            if t is not None and shape is not None:
                check_shape("gradient of the output or state", t, shape)
        same_device(x, *cotangents)
        return [readable("gradient of the output or state", t) for t in cotangents]

    def check_saved(self, tensors, cotangents):
        """Raises for saved tensors that were freed or replaced, before PyTorch's operations read them."""
        if all(t is None or has_data(t) for t in (*tensors, *cotangents)):
            x, *_ = self._read(*tensors[:3], tensors[3:])
            self._read_cotangents(x, cotangents)
        else:
            check_saved(*tensors, *cotangents)

    def run(self, x, h, c, parameters, record):
        """Returns y, last h, last c (or None) and the tape (or None)."""
        x, h, c, parameters = self._read(x, h, c, parameters)
        if x.is_cuda:
            stack = _gpu().stack_of(self, x, parameters, record)
            if stack is None:
                return *self.composed(x, h, c, parameters), None
            return _gpu().run(self, stack, x, h, c, parameters)
        noisy = self.seed is not None and any(self.spec.noise)
        mode = (self.seed or 0, False) if record or noisy else None
        return run(self.spec, self.core, x, h, c, parameters, self.lengths, self.batch_first, mode)

    def gradients(self, tape, tensors, cotangents, for_x=True):
        """Returns the gradients of ``tensors = (x, h, c, *parameters)``; None where there is no tensor."""
        x, h, c, *parameters = tensors
        if x.is_cuda:
            x, h, c, parameters = self._read(x, h, c, parameters)
            cotangents = self._read_cotangents(x, cotangents)
            return _gpu().gradients(self, tape, x, h, c, parameters, cotangents, for_x)
        # The tape holds the numbers, so only shapes and types of saved tensors matter; hooks may return other tensors.
        self._check_input(x)
        for name, shape, p in zip(names_of(self.core), shapes_of(self.core), parameters):
            if p.shape != shape:
                check_shape(name, p, shape)
        cotangents = self._read_cotangents(x, cotangents)
        dx, dh, dc, parts = gradients(self.spec, tape, x, *cotangents, parameters, self.batch_first, for_x)
        state = [None if t is None else g.to(t.dtype) for t, g in ((h, dh), (c, dc))]
        return dx, *state, *parts

    def composed(self, x, h, c, parameters):
        """Returns y, last h and last c (or None), computed with PyTorch operations."""
        return _composed.composed(self.core, self.spec, x, h, c, parameters, self.lengths, self.batch_first, self.seed)

    def composes(self, x, parameters, record=True):
        """Returns whether this pass is on a GPU whose kernels do not support it."""
        return x.is_cuda and _gpu().stack_of(self, x, parameters, record) is None

    @property
    def expectation(self):
        """Whether the expectation of zoneout is used, for which the extension module has no gradients."""
        return self.seed is None and any(self.spec.noise[3:])


def _joined(parameters):
    """Concatenates parameters, in their common type."""
    return torch.cat([p.flatten() for p in parameters])


def _split(joined, core):
    """Splits parameters that were joined."""
    shapes = shapes_of(core)
    return [p.view(shape) for p, shape in zip(joined.split([prod(shape) for shape in shapes]), shapes)]


def mapped_gradients(text, batch_first, seed, tape, tensors, cotangents, lengths):
    """Returns the gradients of x, h, c and the parameters from batched cotangents (``is_grads_batched``)."""
    x, h, c, *parameters = tensors
    dx, dh, dc, joined = torch.ops.layernorm.recurrent_gradients(
        *cotangents, tape, x, h, c, _joined(parameters), lengths, text, batch_first, seed
    )
    state = (None if t is None else g for t, g in ((h, dh), (c, dc)))
    parts = joined.split([p.numel() for p in parameters])
    return dx, *state, *(part.reshape(p.shape).to(p.dtype) for part, p in zip(parts, parameters))


class _Recurrent(torch.autograd.Function):
    @staticmethod
    def forward(ctx, how, x, h, c, *parameters):
        y, last_h, last_c, ctx.tape = how.run(x, h, c, parameters, True)
        ctx.how = how
        ctx.save_for_backward(x, h, c, *parameters)
        # The last state rarely has a gradient.
        ctx.set_materialize_grads(False)
        ctx.shapes = [None if t is None else t.shape for t in (y, last_h, last_c)]
        return y, last_h, last_c

    @staticmethod
    def backward(ctx, *cotangents):
        tensors = ctx.saved_tensors
        batched = any(t is not None and is_batched(t) for t in cotangents)
        if batched or torch.is_grad_enabled():
            like = tensors[0]
            cotangents = [
                like.new_zeros(shape) if t is None and shape is not None else t
                for t, shape in zip(cotangents, ctx.shapes)
            ]
        if batched:
            _, spec, lengths, batch_first, seed = ctx.how
            lengths = None if lengths is None else torch.tensor(lengths, device="cpu")
            check_saved(*tensors)
            found = mapped_gradients(spec.text, batch_first, seed, tensor_of(ctx.tape), tensors, cotangents, lengths)
        elif torch.is_grad_enabled():
            found = _RecurrentBackward.apply(ctx.how, ctx.tape, *cotangents, *tensors)
        else:
            found = ctx.how.gradients(ctx.tape, tensors, cotangents, ctx.needs_input_grad[1])
        return (None, *(g if wanted else None for g, wanted in zip(found, ctx.needs_input_grad[1:])))


class _RecurrentBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, how, tape, dy, dh, dc, *tensors):
        ctx.how = how
        ctx.save_for_backward(dy, dh, dc, *tensors)
        return how.gradients(tape, tensors, (dy, dh, dc))

    @staticmethod
    def backward(ctx, *u):
        dy, dh, dc, *tensors = ctx.saved_tensors
        ctx.how.check_saved(tensors, (dy, dh, dc))
        check_saved(*u)
        outer, inner = _composed.gradients_of_gradients(ctx.how, tensors, (dy, dh, dc), u)
        return (None, None, *outer, *inner)


class _Expected(torch.autograd.Function):
    """The expectation of zoneout: forward by the extension module, backward composed."""

    @staticmethod
    def forward(ctx, how, x, h, c, *parameters):
        ctx.how = how
        ctx.save_for_backward(x, h, c, *parameters)
        return how.run(x, h, c, parameters, False)[:3]

    @staticmethod
    def backward(ctx, *cotangents):
        ctx.how.check_saved(ctx.saved_tensors, cotangents)
        return (None, *_composed.gradients(ctx.how, ctx.saved_tensors, cotangents))


class _Transformed(torch.autograd.Function):
    """For ``torch.func``: returns y, last h, last c (or None) and the tape as a tensor."""

    @staticmethod
    def forward(how, x, h, c, *parameters):
        *found, tape = how.run(x, h, c, parameters, not how.expectation)
        return *found, tensor_of(tape)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.how, *tensors = inputs
        ctx.save_for_backward(output[3], *tensors)
        ctx.mark_non_differentiable(output[3])

    @staticmethod
    def backward(ctx, dy, dh, dc, _):
        tape, *tensors = ctx.saved_tensors
        return (None, *_TransformedBackward.apply(ctx.how, tape, dy, dh, dc, *tensors))

    @staticmethod
    def vmap(info, in_dims, *args):
        return each(_Transformed.apply, info, in_dims, args)


def _backward(how, tape, tensors, cotangents):
    """Returns gradients from the tape of a tensor, or from a new one if there is none."""
    if how.expectation or how.composes(tensors[0], tensors[3:]):
        return _composed.gradients(how, tensors, cotangents)
    if tape.is_cuda:
        stack = _gpu().stack_of(how, tensors[0], tensors[3:], True)
        return how.gradients(_gpu().Tape(stack, tape), tensors, cotangents)
    found = tape_of(tape)
    if found is None:
        found = how.run(*tensors[:3], tensors[3:], True)[3]
    return how.gradients(found, tensors, cotangents)


class _TransformedBackward(torch.autograd.Function):
    @staticmethod
    def forward(how, tape, dy, dh, dc, *tensors):
        return _backward(how, tape, tensors, (dy, dh, dc))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.how, _, *tensors = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx, *u):
        dy, dh, dc, *tensors = ctx.saved_tensors
        outer, inner = _composed.gradients_of_gradients(ctx.how, tensors, (dy, dh, dc), u)
        return (None, None, *outer, *inner)

    @staticmethod
    def vmap(info, in_dims, *args):
        return each(_TransformedBackward.apply, info, in_dims, args)


def _lengths(lengths):
    return None if lengths is None else lengths.tolist()


def _by_operation(spec, x, h, c, parameters, lengths, batch_first, seed, record):
    y, last_h, last_c, _ = torch.ops.layernorm.recurrent(
        x, h, c, parameters, lengths, spec.text, batch_first, seed, record
    )
    return y, last_h, last_c if spec.kind == "lstm" else None


def _known(*tensors):
    """Returns whether all tensors have data and are on one device, and no mode must see operations."""
    plain = not dispatch_modes() and not function_modes() and tracing() is None and all(map(is_plain, tensors))
    return plain and together(*tensors)


def sequences(spec, engine, x, h, c, parameters, lengths, batch_first, seed):
    """Returns y, last h and last c (or None). ``seed`` is None outside training; ``lengths`` is a tensor or None. ``engine(spec)``
    returns the network that keeps this module's packed weights.
    """
    record = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (x, h, c, *parameters))
    refuse_tangents(x, h, c, *parameters)
    if torch.compiler.is_compiling() or not _known(x, h, c, *parameters):
        same_device(x, h, c, *parameters)
        return _by_operation(spec, x, h, c, parameters, lengths, batch_first, seed, record)
    transformed = transform() is not None
    # On a GPU weights are not packed in advance, so all modules share one network.
    core = core_of(spec) if transformed or x.is_cuda else engine(spec)
    how = _How(core, spec, _lengths(lengths), batch_first, seed)
    if how.composes(x, parameters, record):
        return how.composed(x, h, c, parameters)
    if transformed:
        return _Transformed.apply(how, x, h, c, *parameters)[:3]
    if not record:
        return how.run(x, h, c, parameters, False)[:3]
    return (_Expected if how.expectation else _Recurrent).apply(how, x, h, c, *parameters)
