"""Our layer norm, through the C interface of src/lib.rs."""

import ctypes
import json
import pathlib
import subprocess

import torch
from problem import EPS

CRATE = pathlib.Path(__file__).resolve().parent
CODES = {"f32": 0, "bf16": 1}
TEXT_BYTES = 1000

_POINTER, _SIZE = ctypes.c_void_p, ctypes.c_size_t


class Forward(ctypes.Structure):
    """`Forward` of src/lib.rs."""

    _fields_ = [
        ("dtype", ctypes.c_int32),
        ("rows", _SIZE),
        ("n", _SIZE),
        *((name, _POINTER) for name in ("x", "gain", "bias", "y", "m", "delta", "rstd")),
        ("eps", ctypes.c_double),
    ]


class Backward(ctypes.Structure):
    """`Backward` of src/lib.rs."""

    _fields_ = [
        ("dtype", ctypes.c_int32),
        ("rows", _SIZE),
        ("n", _SIZE),
        *((name, _POINTER) for name in ("x", "dy", "gain", "m", "delta", "rstd", "dx", "dgain", "dbias")),
    ]


class Failed(Exception):
    """A call of the library failed."""


class Library:
    """The library, built from the sources next to this file."""

    def __init__(self):
        command = ["cargo", "build", "--release", "--message-format", "json-render-diagnostics"]
        output = subprocess.run(command, cwd=CRATE, check=True, stdout=subprocess.PIPE, text=True).stdout
        messages = map(json.loads, output.splitlines())
        built = {m["target"]["name"]: m for m in messages if m["reason"] == "compiler-artifact"}
        # The end of a package id is #version or #name@version.
        self.version = built["layernorm"]["package_id"].rpartition("#")[2].rpartition("@")[2]
        endings = (".so", ".dylib", ".dll")
        path = next(name for name in built["layernorm_bench"]["filenames"] if name.endswith(endings))
        self.calls = ctypes.CDLL(path)
        for name, arguments in {
            "create": [_SIZE, ctypes.c_int32, ctypes.POINTER(_POINTER)],
            "destroy": [_POINTER],
            "isa": [_POINTER, ctypes.c_char_p, _SIZE],
            "error": [ctypes.c_char_p, _SIZE],
            "forward": [_POINTER, ctypes.POINTER(Forward)],
            "backward": [_POINTER, ctypes.POINTER(Backward)],
        }.items():
            function = self[name]
            function.argtypes, function.restype = arguments, ctypes.c_int32

    def __getitem__(self, name):
        return getattr(self.calls, f"layernorm_bench_{name}")

    def failure(self):
        text = ctypes.create_string_buffer(TEXT_BYTES)
        self["error"](text, TEXT_BYTES)
        return Failed(text.value.decode(errors="replace"))


class Ours:
    """Layer norm with a number of threads.

    `forward` and `backward` prepare everything and return a function without arguments that makes the call. With `into`,
    results are written to that memory; without it, each call allocates its results, as PyTorch does.
    """

    def __init__(self, library, threads):
        self._library = library
        self._context, self._fresh = _POINTER(), _POINTER()
        for fresh, context in enumerate([self._context, self._fresh]):
            if library["create"](threads, fresh, ctypes.byref(context)):
                raise library.failure()

    def close(self):
        for context in [self._context, self._fresh]:
            self._library["destroy"](context)
        self._context = self._fresh = None

    def isa(self):
        text = ctypes.create_string_buffer(TEXT_BYTES)
        if self._library["isa"](self._context, text, TEXT_BYTES):
            raise self._library.failure()
        return text.value.decode()

    def _context_for(self, into):
        """Returns the context for results that were just allocated, and so are in the cache, or that were not."""
        return self._fresh if into is None else self._context

    def forward(self, problem, stats, into=None):
        """`stats` are m, delta and rstd, f32 [3, R], which must be initialized; `into` is y [R, N]."""
        p = problem
        call = Forward(CODES[p.dtype], p.shape.rows, p.shape.n, eps=EPS)
        _point(call, x=p.x, gain=p.gain, bias=p.bias, m=stats[0], delta=stats[1], rstd=stats[2])
        run, context, reference = self._library["forward"], self._context_for(into), ctypes.byref(call)
        failure, x, empty_like = self._library.failure, p.x, torch.empty_like

        def given():
            if run(context, reference):
                raise failure()

        def allocating():
            y = empty_like(x)
            call.y = y.data_ptr()
            if run(context, reference):
                raise failure()
            return y

        if into is None:
            return _keeping(allocating, p, stats)
        _point(call, y=into)
        return _keeping(given, p, stats, into)

    def backward(self, problem, stats, into=None):
        """`stats` are those saved by forward; `into` is dx [R, N], dgain and dbias [N]."""
        p = problem
        call = Backward(CODES[p.dtype], p.shape.rows, p.shape.n)
        _point(call, x=p.x, dy=p.dy, gain=p.gain, m=stats[0], delta=stats[1], rstd=stats[2])
        run, context, reference = self._library["backward"], self._context_for(into), ctypes.byref(call)
        failure, x, gain, empty_like = self._library.failure, p.x, p.gain, torch.empty_like

        def given():
            if run(context, reference):
                raise failure()

        def allocating():
            dx, dgain, dbias = empty_like(x), empty_like(gain), empty_like(gain)
            call.dx, call.dgain, call.dbias = dx.data_ptr(), dgain.data_ptr(), dbias.data_ptr()
            if run(context, reference):
                raise failure()
            return dx, dgain, dbias

        if into is None:
            return _keeping(allocating, p, stats)
        dx, dgain, dbias = into
        _point(call, dx=dx, dgain=dgain, dbias=dbias)
        return _keeping(given, p, stats, into)


def _point(call, **tensors):
    for name, tensor in tensors.items():
        if not tensor.is_contiguous():
            raise ValueError(f"{name} is not contiguous")
        setattr(call, name, tensor.data_ptr())


def _keeping(function, *memory):
    # The call holds only addresses, so the tensors must outlive it.
    function.memory = memory
    return function
