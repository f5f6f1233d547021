"""Our recurrent networks, through the C interface of src/recurrent.rs."""

import ctypes

import torch
from ours import TEXT_BYTES

KINDS = {"lstm": 0, "gru": 1}
VARIANTS = {"none": 0, "paper": 1}
Y, DX, DPARAMS = 0, 1, 2

_POINTER, _SIZE, _CODE = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int32


class Pass(ctypes.Structure):
    """`Pass` of src/recurrent.rs."""

    _fields_ = [("steps", _SIZE), ("batch", _SIZE), ("x", _POINTER), ("dy", _POINTER), ("y", _POINTER)]


def declare(library):
    """Declares the argument types of the functions to ctypes."""
    for name, arguments in {
        "create": [_CODE, _CODE, _SIZE, _SIZE, _SIZE, ctypes.POINTER(_POINTER)],
        "destroy": [_POINTER],
        "layout": [_POINTER, ctypes.c_char_p, _SIZE],
        "load": [_POINTER, _POINTER, _SIZE],
        "read": [_POINTER, _CODE, _POINTER, _SIZE],
        "forward": [_POINTER, ctypes.POINTER(Pass)],
        "train": [_POINTER, ctypes.POINTER(Pass)],
        "reset": [_POINTER],
        "step": [_POINTER, _POINTER, _POINTER],
    }.items():
        function = library[f"recurrent_{name}"]
        function.argtypes, function.restype = arguments, ctypes.c_int32


class Network:
    """One of our networks. `forward`, `train` and `step` prepare everything and return a function without arguments that
    makes the call."""

    def __init__(self, library, problem, variant, threads):
        self._library, self._problem = library, problem
        size, parameters = problem.size, problem.parameters[variant]
        self._network = _POINTER()
        codes = KINDS[problem.kind], VARIANTS[variant]
        self._call("create", *codes, size.input, size.hidden, threads, ctypes.byref(self._network))
        text = ctypes.create_string_buffer(TEXT_BYTES)
        self._call("layout", self._network, text, TEXT_BYTES)
        lines = [line.split() for line in text.value.decode().splitlines()]
        self._names = [name for name, *_ in lines]
        if set(self._names) != set(parameters):
            raise ValueError(f"the network has the parameters {self._names}, PyTorch {list(parameters)}")
        flat = torch.cat([parameters[name].flatten() for name in self._names])
        self._call("load", self._network, flat.data_ptr(), flat.numel())

    def close(self):
        self._call("destroy", self._network)
        self._network = None

    def _call(self, name, *arguments):
        if self._library[f"recurrent_{name}"](*arguments):
            raise self._library.failure()

    def forward(self, y=None):
        """Writes to y `[T, B, H]`; without y, every call allocates its results."""
        return self._prepared("forward", y)

    def train(self, y=None):
        """Forward and backward, with gradients starting from 0; weights are packed again, as after an optimizer step."""
        return self._prepared("train", y)

    def _prepared(self, name, y):
        p = self._problem
        call = Pass(p.size.steps, p.size.batch, p.x.data_ptr(), p.dy.data_ptr(), None if y is None else y.data_ptr())
        run, network, reference = self._library[f"recurrent_{name}"], self._network, ctypes.byref(call)
        failure = self._library.failure

        def pass_():
            if run(network, reference):
                raise failure()

        pass_.memory = p, call, y  # type: ignore[attr-defined]
        return pass_

    def step(self, y):
        """One step of one sequence from x `[1, I]` into y `[1, H]`; the state is kept."""
        run, network, x = self._library["recurrent_step"], self._network, self._problem.x[0]
        start, to, failure = x.data_ptr(), y.data_ptr(), self._library.failure

        def step_():
            if run(network, start, to):
                raise failure()

        step_.memory = x, y  # type: ignore[attr-defined]
        return step_

    def reset(self):
        self._call("reset", self._network)

    def output(self):
        """Returns y of the last call that allocated it."""
        return self._read(Y, (*self._problem.x.shape[:2], self._problem.size.hidden))

    def gradients(self):
        """Returns the gradients of the last training step: of x, and of each parameter by name."""
        parameters = self._problem.parameters["none" if "input_bias" in self._names else "paper"]
        shapes = [parameters[name].shape for name in self._names]
        flat = self._read(DPARAMS, (sum(shape.numel() for shape in shapes),))
        parts = flat.split([shape.numel() for shape in shapes])
        named = {name: part.view(shape) for name, part, shape in zip(self._names, parts, shapes)}
        return self._read(DX, self._problem.x.shape), named

    def _read(self, what, shape):
        to = torch.full(shape, float("nan"))
        self._call("read", self._network, what, to.data_ptr(), to.numel())
        return to
