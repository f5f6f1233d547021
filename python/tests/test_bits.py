"""The same input gives the same bits in NumPy, PyTorch and Rust.

The Rust results come from ``tests/rust/bits.rs``, which is built here and receives the inputs.
"""

import pathlib
import shutil
import subprocess

import numpy as np
import pytest

import layernorm as ln

try:
    import layernorm.torch as lt
    import torch
except ImportError:
    torch = None

HERE = pathlib.Path(__file__).resolve().parent
TYPES = ["float16", "bfloat16", "float32", "float64"]
NORMS = {
    "layer": (1, (70, 300)),
    "rms": (1, (70, 300)),
    "group": (3, (5, 12, 7, 11)),
    "instance": (1, (5, 12, 7, 11)),
    "batch": (1, (65, 12, 7)),
}
RECURRENT = [
    ("lstm", "paper"),
    ("lstm", "none"),
    ("lstm", "haste"),
    ("gru", "paper"),
    ("gru", "none"),
    ("rnn", "paper"),
]


@pytest.fixture(scope="module")
def rust():
    """Builds and starts the Rust program. Skips if there is no compiler, as where only a wheel is installed."""
    if shutil.which("cargo") is None or not (HERE.parent / "Cargo.toml").exists():
        pytest.skip("cargo is missing: Rust's bits are not compared")
    build = ["cargo", "build", "--release", "--example", "bits", "--manifest-path", str(HERE.parent / "Cargo.toml")]
    made = subprocess.run([*build, "--message-format=json"], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[-4000:]
    programs = [
        line.split('"executable":"')[1].split('"')[0] for line in made.stdout.splitlines() if '"executable":"' in line
    ]

    def ask(words, arrays, results):
        lines = [" ".join(map(str, words)), *(np.ascontiguousarray(a).tobytes().hex() for a in arrays)]
        answer = subprocess.run([programs[-1]], input="\n".join(lines) + "\n", capture_output=True, text=True)
        assert answer.returncode == 0, answer.stderr
        found = answer.stdout.split("\n")[:-1]
        assert len(found) == results
        return [bytes.fromhex(line) for line in found]

    return ask


def dtype_of(name):
    if name == "bfloat16":
        return pytest.importorskip("ml_dtypes", reason="ml_dtypes is missing: no bfloat16").bfloat16
    return np.dtype(name)


def to_torch(a, dtype):
    """Converts to a tensor with the same bits, because torch cannot read ml_dtypes."""
    if dtype == "bfloat16":
        return torch.from_numpy(a.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(a.copy())


def bytes_of(t):
    return t.detach().contiguous().view(torch.uint8).numpy().tobytes() if t.numel() else b""


def by_numpy(kind, groups, x, weight, bias, dy, eps=1e-5):
    if kind in ("layer", "rms"):
        more = (x.shape[-1],)
    elif kind == "group":
        more = (groups,)
    else:
        more = ()
    if kind == "batch":
        y = ln.batch_norm(x, None, None, weight, bias, True, eps=eps)
        found = ln.batch_norm_backward(dy, x, None, None, weight, bias, True, eps)
    else:
        y = getattr(ln, kind + "_norm")(x, *more, weight, bias, eps)
        found = getattr(ln, kind + "_norm_backward")(dy, x, *more, weight, bias, eps)
    return [y, found.x, found.weight, found.bias]


def by_torch(kind, groups, x, weight, bias, dy, eps=1e-5):
    x, weight, bias = (t.requires_grad_() for t in (x, weight, bias))
    F = lt.functional
    y = {
        "layer": lambda: F.layer_norm(x, x.shape[-1:], weight, bias, eps),
        "group": lambda: F.group_norm(x, groups, weight, bias, eps),
        "instance": lambda: F.instance_norm(x, None, None, weight, bias, True, 0.1, eps),
        "batch": lambda: F.batch_norm(x, None, None, weight, bias, True, 0.1, eps),
    }[kind]()
    y.backward(dy)
    return [y, x.grad, weight.grad, bias.grad]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", NORMS)
def test_norms(rust, rng, kind, dtype):
    groups, shape = NORMS[kind]
    width = shape[-1] if kind in ("layer", "rms") else shape[1]
    # A mean far from 0, where rounding errors show.
    numbers = (
        5 + rng.standard_normal(shape),
        rng.standard_normal(width),
        rng.standard_normal(width),
        rng.standard_normal(shape),
    )
    arrays = [a.astype(dtype_of(dtype)) for a in numbers]
    words = ("norm", kind, dtype, groups, 1e-5, ",".join(map(str, shape)))
    expected = rust(words, arrays, 4)
    assert len(set(expected)) == 4 and all(any(part) for part in expected)
    for what, mine, theirs in zip(("y", "dx", "dγ", "dβ"), by_numpy(kind, groups, *arrays), expected):
        assert mine.tobytes() == theirs, f"NumPy's {what}"
    if torch is None:
        pytest.skip("PyTorch is missing: its bits are not compared")
    # torch.nn.functional.rms_norm has no bias.
    if kind != "rms":
        found = by_torch(kind, groups, *(to_torch(a, dtype) for a in arrays))
        for what, mine, theirs in zip(("y", "dx", "dγ", "dβ"), found, expected):
            assert bytes_of(mine) == theirs, f"PyTorch's {what}"
    else:
        x, weight, _, dy = (to_torch(a, dtype).requires_grad_() for a in arrays)
        y = lt.functional.rms_norm(x, (width,), weight, 1e-5)
        y.backward(dy.detach())
        no_bias = rust(words, [arrays[0], arrays[1], np.full_like(arrays[2], -0.0), arrays[3]], 4)
        for what, mine, theirs in zip(("y", "dx", "dγ"), (y, x.grad, weight.grad), no_bias):
            assert bytes_of(mine) == theirs, f"PyTorch's {what}"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("kind, variant", RECURRENT)
def test_recurrent_networks(rust, rng, kind, variant, directions, dtype):
    layers, steps, batch, inputs, hidden = 2, 9, 5, 7, 16
    options = dict(num_layers=layers, bidirectional=directions == 2)
    network = getattr(ln, kind.upper())(inputs, hidden, variant, dtype=dtype, **options)
    for name, value in network.parameters.items():
        network.parameters[name] = (0.5 * rng.standard_normal(value.shape)).astype(dtype)
    x = rng.standard_normal((steps, batch, inputs)).astype(dtype)
    dy = rng.standard_normal((steps, batch, directions * hidden)).astype(dtype)
    flat = np.concatenate([p.ravel() for p in network.parameters.values()])
    words = ("rnn", kind, variant, dtype, layers, directions, steps, batch, inputs, hidden)
    expected = rust(words, [flat, x, dy], 3)
    y, _, tape = network.train(x)
    gradients = tape.backward(dy)
    by_parameter = np.concatenate([g.ravel() for g in gradients.parameters.values()])
    for what, mine, theirs in zip(("y", "dx", "dparameters"), (y, gradients.x, by_parameter), expected):
        assert mine.tobytes() == theirs, f"NumPy's {what}"
    if torch is None:
        pytest.skip("PyTorch is missing: its bits are not compared")
    ours = getattr(lt, kind.upper())(inputs, hidden, variant=variant, dtype=getattr(torch, dtype), **options)
    ours.load_state_dict({name: torch.from_numpy(value) for name, value in network.parameters.items()})
    input = torch.from_numpy(x).requires_grad_()
    y = ours(input)[0]
    y.backward(torch.from_numpy(dy))
    by_parameter = torch.cat([p.grad.flatten() for p in ours.parameters()])
    for what, mine, theirs in zip(("y", "dx", "dparameters"), (y, input.grad, by_parameter), expected):
        assert bytes_of(mine) == theirs, f"PyTorch's {what}"
