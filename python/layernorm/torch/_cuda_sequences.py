"""Recurrent passes on an NVIDIA GPU. The extension module runs one layer in one direction; this module combines them.

    x₀ = x        y_l = [forward(x_l), reverse(x_l)]        x_{l+1} = y_l, with its dropout        y = y_{L−1}

All memory is allocated by PyTorch, on its current stream. The tape is one tensor, which holds the tapes of the layers and the x_l
of all layers but the first. The types are float16, bfloat16 and float32. Features that the kernels lack are composed of PyTorch
operations (``_composed.py``), which also run on the GPU but are slow.
"""

from __future__ import annotations

import atexit
import functools
import sys

import torch

from .. import _core
from . import _noise
from ._cuda import as_current, on_device, stream_of, vector
from ._readable import readable
from ._types import CODES


def lacks(spec, core, dtype, parameter_types, sizes):
    """Returns why the kernels cannot run a network with these types and ``(steps, batch)``, or None. Needs no GPU."""
    if dtype not in (torch.float16, torch.bfloat16, torch.float32):
        return f"{str(dtype)[6:]} (supported: float16, bfloat16 and float32)"
    kinds = set(parameter_types)
    if len(kinds) != 1 or not kinds <= {dtype, torch.float32}:
        return "parameters that are neither all of the input's type nor all float32"
    if any(spec.noise[1:]):
        return "noise other than dropout between layers"
    if 0 in sizes:
        return "no steps or no sequences"
    return _lacking_cell(core)


@functools.lru_cache(maxsize=256)
def _lacking_cell(core):
    return _core.cuda_lacks(core)


def _aligned(what, t):
    """Returns t contiguous and aligned to 16 bytes, as the kernels read it."""
    t = readable(what, t.detach()).contiguous()
    return t.clone() if t.data_ptr() % 16 else t


def _round(size):
    return -(-size // 256) * 256


class Stack:
    """The layers of a network for one batch shape, with the offsets of their memory in the tape."""

    def __init__(self, spec, core, device, types, tf32, sizes, training):
        steps, batch, _, _ = sizes
        codes = tuple(CODES[t] for t in types)
        self.dtype, self.width = types[0], spec.directions * spec.hidden
        self.layers = [
            [_core.CudaLayer(device, core, (l, d), codes, tf32, sizes, training) for d in range(spec.directions)]
            for l in range(spec.layers)
        ]
        self.slots = {}
        for index, (layer, direction, *_) in enumerate(core.places()):
            self.slots.setdefault((layer, direction), []).append(index)
        self.at, self.inputs, end, self.workspace = [], [], 0, 0
        for l, directions in enumerate(self.layers):
            if l:
                self.inputs.append(end)
                end += _round(steps * batch * self.width * self.dtype.itemsize)
            for layer in directions:
                tape, workspace = layer.bytes()
                self.at.append(end)
                end += _round(tape)
                self.workspace = max(self.workspace, workspace)
        self.bytes = end if training else 0

    def input_of(self, tape, layer, shape):
        """Returns the memory for the input of a layer other than the first."""
        count = shape[0] * shape[1] * self.width
        if not self.bytes:
            return torch.empty((*shape[:2], self.width), dtype=self.dtype, device=tape.device)
        start = self.inputs[layer - 1]
        part = tape[start : start + count * self.dtype.itemsize]
        return part.view(self.dtype).view(*shape[:2], self.width)

    def vectors(self, parameters):
        """Returns ``(address, type, elements)`` of the parameters of each layer and direction, in the order of the states."""
        return [[vector(parameters[index]) for index in of_one] for of_one in self.slots.values()]

    def places(self):
        """Returns ``(layer, direction, kernels, offset of the tape)`` in the order of the states."""
        flat = ((l, d, layer) for l, directions in enumerate(self.layers) for d, layer in enumerate(directions))
        return [(*place, at) for place, at in zip(flat, self.at)]


@functools.lru_cache(maxsize=512)
def _stack(spec, core, device, types, tf32, sizes, training):
    try:
        # Loading kernels changes the driver's current device, but not PyTorch's.
        with as_current(device):
            _tell_at_exit(device)
            return Stack(spec, core, device, types, tf32, sizes, training)
    except NotImplementedError:
        # Too many units for this GPU, or a GPU without cooperative launches.
        return None


def rounds_to_tf32():
    """Returns whether float32 products may use tf32: PyTorch's setting for cuDNN, which nn.LSTM also follows."""
    rnn = getattr(torch.backends.cudnn, "rnn", None)
    # Since PyTorch 2.9 recurrent layers have their own precision, which the old setting also sets.
    return torch.backends.cudnn.allow_tf32 if rnn is None else rnn.fp32_precision == "tf32"


def stack_of(how, x, parameters, training):
    """Loads the kernels of a pass, or returns None if it must be composed."""
    steps, batch = (x.shape[1], x.shape[0]) if how.batch_first else (x.shape[0], x.shape[1])
    if lacks(how.spec, how.core, x.dtype, [p.dtype for p in parameters], (steps, batch)) is not None:
        return None
    tf32 = x.dtype == torch.float32 and rounds_to_tf32()
    sizes = (int(steps), int(batch), how.batch_first, how.lengths is not None)
    types = (x.dtype, parameters[0].dtype)
    return _stack(how.spec.quiet(), how.core, x.device.index, types, tf32, sizes, training)


class Tape:
    """A recorded pass: its kernels and memory."""

    def __init__(self, stack, memory):
        self.stack, self.memory = stack, memory


def _lengths(how, device):
    return None if how.lengths is None else torch.tensor(how.lengths, dtype=torch.int32, device=device)


def _memory(t, at=0):
    """Returns ``(address of element at, elements from there)``; address 0 if there is no tensor."""
    return (0, 0) if t is None else (t.data_ptr() + at * t.element_size(), t.numel() - at)


def _rows(t, at, pitch):
    """Returns ``(address of element at, elements between rows, elements from there)``."""
    address, count = _memory(t, at)
    return address, pitch, count


def _states(shapes, device, wanted=(True, True)):
    return [
        torch.empty(shape, dtype=torch.float32, device=device) if shape is not None and want else None
        for shape, want in zip(shapes, wanted)
    ]


def _single(what, t):
    return None if t is None else readable(what, t.detach()).to(torch.float32).contiguous()


def _dropout(how, layer, shape, dtype, device):
    """Returns the dropout factor of a layer's input, or None. Its elements are numbered with time first."""
    rate = how.spec.noise[0]
    if how.seed is None or rate == 0.0:
        return None
    counted = (shape[1], shape[0], shape[2]) if how.batch_first else shape
    found = _noise.factor(rate, _noise.hits("dropout", rate, how.seed, layer, 0, counted, device), dtype)
    return found.transpose(0, 1) if how.batch_first else found


def check_cuda(device: torch.device | str | int | None = None) -> None:
    """Waits for a GPU and raises RuntimeError if a recurrent pass on it timed out.

    A pass times out, and its results are NaN, if its blocks could not communicate for seconds because other programs
    occupied the GPU. Every recurrent call checks earlier passes that have finished, without waiting. Call this function
    after the last one, and after replays of a CUDA graph.

    Args:
        device: a CUDA device. Default: PyTorch's current one.

    Raises:
        RuntimeError: if a recurrent pass timed out.
        ValueError: if ``device`` is not a CUDA device.
    """
    found = torch.device("cuda" if device is None else device)
    if found.type != "cuda":
        raise ValueError(f"device: expected a CUDA device, found {found}")
    _core.cuda_check(torch.cuda.current_device() if found.index is None else found.index, True)


@functools.cache
def _tell_at_exit(index):
    """Registers, once per device, a message at exit for a pass that timed out and that no later call reported."""

    def tell():
        try:
            _core.cuda_check(index, False)
        except RuntimeError as error:
            print(f"layernorm: {error}", file=sys.stderr)

    atexit.register(tell)


def _spoil(workspace, *tensors):
    """Sets results to NaN if their pass timed out, according to the first byte of the workspace, without waiting for the GPU. The next
    call and :func:`check_cuda` raise.
    """
    gave_up = workspace[:1].view(torch.bool)
    for t in tensors:
        if t is not None:
            t.masked_fill_(gave_up, float("nan"))


@on_device
def _forward(x, how, stack, h, c, parameters):
    spec, device = how.spec, x.device
    x = _aligned("input", x)
    parameters = [_aligned("parameters", p) for p in parameters]
    h, c = _single("h", h), _single("c", c)
    batch = x.shape[0 if how.batch_first else 1]
    each = batch * spec.hidden
    last = _states(spec.shapes(batch), device)
    lengths = _lengths(how, device)
    tape = torch.empty(stack.bytes, dtype=torch.uint8, device=device)
    workspace = torch.empty(stack.workspace, dtype=torch.uint8, device=device)
    stream, vectors = stream_of(device), stack.vectors(parameters)
    y = None
    for index, (layer, direction, kernels, at) in enumerate(stack.places()):
        if direction == 0:
            x, y = (x if layer == 0 else y), _output(stack, tape, layer, spec, x, lengths)
        kernels.forward(
            stream,
            vectors[index],
            _memory(x),
            _rows(y, direction * spec.hidden, stack.width),
            (_memory(h, index * each), _memory(c, index * each)),
            (_memory(last[0], index * each), _memory(last[1], index * each)),
            _memory(lengths),
            _memory(tape, at) if stack.bytes else (0, 0),
            _memory(workspace),
        )
        _spoil(workspace, y, *last)
        if direction + 1 == spec.directions and layer + 1 < spec.layers:
            factor = _dropout(how, layer + 1, y.shape, y.dtype, device)
            if factor is not None:
                y.mul_(factor)
    return y, last[0], last[1], Tape(stack, tape)


def _output(stack, tape, layer, spec, x, lengths):
    """Allocates the output of a layer. It is zeroed if there are lengths, because steps after the end are not written."""
    shape = (*x.shape[:2], stack.width)
    if layer + 1 == spec.layers:
        y = torch.empty(shape, dtype=x.dtype, device=x.device)
    else:
        y = stack.input_of(tape, layer + 1, shape)
    return y if lengths is None else y.zero_()


def run(how, stack, x, h, c, parameters):
    """Returns y, last h, last c (or None) and the tape."""
    y, last_h, last_c, tape = _forward(x, how, stack, h, c, parameters)
    return y, last_h.to(x.dtype), None if last_c is None else last_c.to(x.dtype), tape


def _parameter_gradients(parameters):
    """Allocates the gradients. Those of vectors share one tensor, so that one operation can set them to NaN."""
    counts = [p.numel() if p.dim() == 1 else 0 for p in parameters]
    flat = torch.empty(sum(counts), dtype=parameters[0].dtype, device=parameters[0].device)
    parts = flat.split(counts)
    return flat, [part if p.dim() == 1 else torch.empty_like(p) for p, part in zip(parameters, parts)]


@on_device
def _backward(x, how, stack, memory, h, c, parameters, dy, dh, dc, for_x):
    spec, device = how.spec, x.device
    x = _aligned("input", x)
    parameters = [_aligned("parameters", p) for p in parameters]
    dh, dc = _single("gradient of h", dh), _single("gradient of c", dc)
    batch = x.shape[0 if how.batch_first else 1]
    each = batch * spec.hidden
    if dy is None:
        dy = torch.zeros((*x.shape[:2], stack.width), dtype=x.dtype, device=device)
    dy = readable("gradient", dy).to(x.dtype).contiguous()
    first = _states(spec.shapes(batch), device, (h is not None, c is not None))
    flat, found = _parameter_gradients(parameters)
    lengths = _lengths(how, device)
    workspace = torch.empty(stack.workspace, dtype=torch.uint8, device=device)
    stream, vectors, to = stream_of(device), stack.vectors(parameters), stack.vectors(found)
    dx, places = None, stack.places()
    for layer in reversed(range(spec.layers)):
        read = x if layer == 0 else stack.input_of(memory, layer, x.shape)
        dx = torch.empty_like(read) if layer or for_x else None
        for direction in range(spec.directions):
            index = layer * spec.directions + direction
            _, _, kernels, at = places[index]
            kernels.backward(
                stream,
                vectors[index],
                _memory(read),
                _rows(dy, direction * spec.hidden, stack.width),
                (_memory(dh, index * each), _memory(dc, index * each)),
                _memory(lengths),
                _memory(memory, at),
                _memory(workspace),
                to[index],
                (_memory(dx), direction == 1),
                (_memory(first[0], index * each), _memory(first[1], index * each)),
            )
            matrices = [found[i] for i in stack.slots[layer, direction] if parameters[i].dim() > 1]
            _spoil(workspace, dx, flat, *matrices, *first)
        if layer:
            factor = _dropout(how, layer, dx.shape, dx.dtype, device)
            dy = dx if factor is None else dx.mul_(factor)
    return dx, first[0], first[1], found


def gradients(how, tape, x, h, c, parameters, cotangents, for_x):
    """Returns the gradients of x (None unless ``for_x``), h, c and the parameters; None where there is no tensor."""
    dx, first_h, first_c, found = _backward(x, how, tape.stack, tape.memory, h, c, parameters, *cotangents, for_x)
    state = [None if t is None else g.to(t.dtype) for t, g in ((h, first_h), (c, first_c))]
    return dx, *state, *found
