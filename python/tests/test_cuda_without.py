"""GPU code on machines without a GPU: choice of kernels, messages, and that CUDA is not required."""

import itertools
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is missing: layernorm.torch is not tested")

from torch._subclasses.fake_tensor import FakeTensorMode

import layernorm.torch as lt
from layernorm import _core
from layernorm.torch import _composed, _cuda, _cuda_sequences, _noise
from layernorm.torch._spec import Spec, core_of

QUIET = (0.0,) * 5


def spec(kind="lstm", variant="paper", projection=None, noise=QUIET, layers=1, eps=None):
    return Spec(kind, variant, 5, 32, layers, False, projection, True, eps, noise)


def test_importing_opens_nothing_of_cuda():
    code = (
        "import layernorm, layernorm.torch, torch; layernorm.torch.LayerNorm(4)(torch.zeros(2, 4));"
        "print(torch.cuda.is_initialized(), any('libnvrtc' in line for line in open('/proc/self/maps')))"
    )
    before = (
        "import torch; print(torch.cuda.is_initialized(), any('libnvrtc' in line for line in open('/proc/self/maps')))"
    )
    found = [subprocess.check_output([sys.executable, "-c", text], text=True) for text in (before, code)]
    assert found[0] == found[1]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_what_is_missing_is_said():
    norm = ("layer", 2, (1, 4, 0, 0), 1e-5)
    with pytest.raises(RuntimeError, match="no NVIDIA driver|no GPU 0|cuInit failed"):
        _core.cuda_forward((0, 0), norm, (16, 4, 4), (16, 4, 4), None, None, None, None, (0, 0))
    with pytest.raises(RuntimeError, match="no NVIDIA driver|no GPU 0|cuInit failed"):
        _core.CudaLayer(0, core_of(spec()), (0, 0), (2, 2), False, (3, 2, False, False), False)


def test_arguments_are_checked_before_the_gpu():
    norm = ("layer", 0, (1, 4, 0, 0), 1e-5)
    with pytest.raises(TypeError, match="weight: expected float16 or float32, found bfloat16"):
        _core.cuda_forward((0, 0), norm, (16, 4, 4), (16, 4, 4), (16, 1, 4), None, None, None, (0, 0))
    # Too few elements, and freed memory.
    for weight, found in (((16, 0, 3), 3), ((0, 0, 4), 0)):
        with pytest.raises(ValueError, match=f"weight: expected 4 elements, found {found}"):
            _core.cuda_forward((0, 0), norm, (16, 4, 4), (16, 4, 4), weight, None, None, None, (0, 0))
    with pytest.raises(ValueError, match="statistics: expected 3 elements, found 2"):
        _core.cuda_forward((0, 0), norm, (16, 4, 4), (16, 4, 4), None, None, (16, 2), None, (0, 0))
    with pytest.raises(ValueError, match="gradient of bias: expected 4 elements, found 5"):
        _core.cuda_backward(
            (0, 0), norm, (16, 4, 4), (16, 4, 4), None, (16, 3), None, (16, 4, 4), None, (16, 0, 5), (0, 0)
        )
    two, good, short = ("layer", 0, (2, 4, 0, 0), 1e-5), (16, 6, 10), (16, 6, 9)
    for x, y, what, found in ((short, good, "input", 9), (good, short, "output", 9), ((0, 6, 10), good, "input", 0)):
        with pytest.raises(ValueError, match=f"{what}: expected 10 elements, found {found}"):
            _core.cuda_forward((0, 0), two, x, y, None, None, None, None, (0, 0))
    for x, dy, dx, what in (
        (short, good, good, "input"),
        (good, short, good, "gradient"),
        (good, good, short, "gradient of input"),
    ):
        with pytest.raises(ValueError, match=f"^{what}: expected 10 elements, found 9"):
            _core.cuda_backward((0, 0), two, x, dy, None, (16, 6), None, dx, None, None, (0, 0))
    with pytest.raises(ValueError, match="input: expected 198 elements, found 197"):
        group = ("group", 2, (1, 6, 33, 3), 1e-5)
        _core.cuda_forward((0, 0), group, (16, 0, 197), (16, 0, 198), None, None, None, None, (0, 0))
    with pytest.raises(RuntimeError, match="kind: expected layer, rms, group or batch"):
        _core.cuda_workspace(("weight", 0, (1, 4, 0, 0), 1e-5), True)


def test_workspaces():
    # At least two float32 sums per column for every 64 rows.
    assert _core.cuda_workspace(("layer", 1, (130, 100, 0, 0), 1e-5), True) >= 2 * 3 * 100 * 4
    assert _core.cuda_workspace(("rms", 1, (130, 100, 0, 0), 1e-5), False) == 0
    assert _core.cuda_workspace(("group", 3, (2, 6, 33, 3), 1e-5), True) >= 2 * 2 * 6 * 8
    assert _core.cuda_workspace(("batch", 2, (2, 6, 33, 0), 1e-5), False) > 0


@pytest.mark.parametrize(
    "view, distance, same",
    [
        (lambda t: t, 40, True),
        (lambda t: t[..., 8:32], 40, True),
        (lambda t: t[:, :1], 200, True),
        (lambda t: t[:1, ::2], 80, True),
        (lambda t: t[:, ::2], 40, False),
        (lambda t: t.transpose(0, 1), 40, False),
        (lambda t: t[..., ::2], 20, False),
        (lambda t: t[2, 3], 40, True),
        (lambda t: t[..., :1], 40, True),
        (lambda t: t[:1, :1].expand(6, 5, 40), 0, True),
    ],
)
def test_rows_that_kernels_can_read(view, distance, same):
    x = view(torch.arange(6 * 5 * 40.0).view(6, 5, 40))
    rows, stride = _cuda.rows_of(x, 1)
    assert (rows is x) == same and stride == distance
    n = x.shape[-1]
    count = x.numel() // n
    seen = torch.as_strided(rows, (count, n), (stride, 1))
    assert torch.equal(seen, x.reshape(count, n))


def test_rows_of_two_axes():
    x = torch.arange(3 * 6 * 5 * 4.0).view(3, 6, 5, 4)
    assert _cuda.rows_of(x[:, 1:3], 2)[1] == 20 and _cuda.rows_of(x[:, 1:3], 3)[1] == 120
    assert _cuda.rows_of(x[:, 1:3], 3)[0].is_contiguous() is False
    assert _cuda.rows_of(x[..., 1:3], 2)[0].is_contiguous()


def test_networks_that_the_kernels_have():
    types = [torch.float32]
    for kind, variant in [("lstm", v) for v in ("paper", "fastrnns", "torchaudio", "keras", "haste", "none")] + [
        ("gru", v) for v in ("paper", "haste", "dreamer", "none")
    ]:
        found = spec(kind, variant)
        assert _cuda_sequences.lacks(found, core_of(found), torch.bfloat16, types, (3, 2)) is None, variant
    dropout = spec(layers=2, noise=(0.3, 0.0, 0.0, 0.0, 0.0))
    assert _cuda_sequences.lacks(dropout, core_of(dropout), torch.float32, types, (3, 2)) is None


@pytest.mark.parametrize(
    "found, dtype, types, sizes, words",
    [
        (spec("rnn"), torch.float32, [torch.float32], (3, 2), "simple RNN"),
        (spec("lstm", "tflite"), torch.float32, [torch.float32], (3, 2), "peepholes|clip|bias"),
        (spec("gru", "theano"), torch.float32, [torch.float32], (3, 2), "bias inside a norm"),
        (spec(projection=3), torch.float32, [torch.float32], (3, 2), "projection"),
        (spec(noise=(0.0, 0.0, 0.0, 0.1, 0.0)), torch.float32, [torch.float32], (3, 2), "noise other than dropout"),
        (spec(eps=0.0), torch.float32, [torch.float32], (3, 2), "squares may underflow"),
        (spec("gru", "dreamer", eps=5e-20), torch.float32, [torch.float32], (3, 2), "squares may underflow"),
        (spec(), torch.float64, [torch.float64], (3, 2), "float64"),
        (spec(), torch.float16, [torch.bfloat16], (3, 2), "input's type"),
        (spec(), torch.float16, [torch.float16, torch.float32], (3, 2), "input's type"),
        (spec(), torch.float32, [torch.float32], (3, 0), "no sequences"),
    ],
)
def test_networks_that_they_lack(found, dtype, types, sizes, words):
    reason = _cuda_sequences.lacks(found, core_of(found), dtype, types, sizes)
    assert reason is not None and any(word in reason for word in words.split("|")), reason


@pytest.mark.parametrize("to_deviation", [False, True])
@pytest.mark.parametrize("eps", [0.0, 1e-30])
def test_composed_norms_of_small_rows(eps, to_deviation):
    """Composed passes do not underflow in squares: values and gradients are as in float64."""
    t = torch.tensor([[1e-25, 2e-25, 4e-25, -3e-25], [1.0, 2.0, 4.0, -3.0], [0.0, 0.0, 0.0, 1e-38]])
    found, expected = (_composed._norm(("all", eps, to_deviation), a, None, None, 1) for a in (t, t.double()))
    # Six roundings in all: of the mean, the differences, their squares and the square root.
    torch.testing.assert_close(found.double(), expected, rtol=6 * 2**-23, atol=0)
    once, twice = ([] for _ in range(2))
    for a in (t[:2].clone(), t[:2].double()):
        a.requires_grad_()
        y = _composed._norm(("all", eps, to_deviation), a, None, None, 1)
        (d,) = torch.autograd.grad((y * y * y).sum(), a, create_graph=True)
        once.append((d * t[:2].abs().amax(-1, keepdim=True)).double())
        twice.append(torch.autograd.grad(d[1].square().sum(), a)[0][1].double())
    # 32 roundings of terms up to 70 (r·(g + mean g + x̂·mean(g·x̂)) with |x̂| ≤ √3 and g = 3x̂²); the second gradient is a
    # product with such a term.
    torch.testing.assert_close(once[0], once[1], rtol=0, atol=32 * 2**-24 * 70)
    torch.testing.assert_close(twice[0], twice[1], rtol=32 * 2**-24, atol=32 * 2**-24 * 70)


def test_composed_gradients_of_constant_rows():
    """With ε beside the deviation, and a deviation of 0, gradients are those of the extension module, not NaN."""
    network = lt.LSTM(3, 4, variant="draw")
    with torch.no_grad():
        network.bias_gates_l0.zero_()
    x, weights = torch.zeros(1, 1, 3, requires_grad=True), torch.tensor([1.0, -2.0, 3.0, 5.0])
    (expected,) = torch.autograd.grad((network(x)[0] * weights).sum(), x)
    parameters = list(network.parameters())
    y, *_ = _composed.composed(core_of(network._spec), network._spec, x, None, None, parameters, None, False, None)
    (found,) = torch.autograd.grad((y * weights).sum(), x, create_graph=True)
    # Sums of 16 products, and fewer than 16 roundings beside them.
    torch.testing.assert_close(found, expected, rtol=0, atol=32 * 2**-24 * float(expected.abs().max()))
    assert expected.abs().sum() > 0 and torch.autograd.grad(found.sum(), x)[0].isfinite().all()


def test_tf32_is_cudnns_switch():
    """Runs in a separate process, because PyTorch's test inputs, which other tests import, freeze this setting."""
    code = """
import torch
from layernorm.torch._cuda_sequences import rounds_to_tf32

assert rounds_to_tf32(), "PyTorch's choice if nothing is said"
for allowed in (False, True):
    torch.backends.cudnn.allow_tf32 = allowed
    assert rounds_to_tf32() == allowed
# Since PyTorch 2.9 recurrent layers have their own setting.
if hasattr(torch.backends.cudnn, "rnn"):
    for precision, allowed in (("ieee", False), ("tf32", True)):
        torch.backends.cudnn.rnn.fp32_precision = precision
        assert rounds_to_tf32() == allowed
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("what", _noise.NAMES)
def test_noise_is_the_engines(what):
    noise = tuple(0.37 if name == what else 0.0 for name in _noise.NAMES)
    core = _core.Recurrent("lstm", "paper", 5, 32, 2, True, None, True, None, noise)
    for seed, layer, direction in itertools.product((0, 7, 2**62 - 1), (0, 1), (0, 1)):
        found = _noise.hits(what, 0.37, seed, layer, direction, (11, 91), "cpu")
        assert found.flatten().tolist() == _core.noise_hits(core, what, seed, layer, direction, 11 * 91)


def test_results_of_tensors_without_data():
    """Fake implementations return the device, type, shape and strides of the real results on a GPU."""
    with FakeTensorMode():
        x = torch.empty(4, 6, 5, 3, device="cuda:0", dtype=torch.bfloat16).to(memory_format=torch.channels_last)
        weight = torch.empty(6, device="cuda:0")
        y, stats = torch.ops.layernorm.norm(x, weight, None, "group", 2, 1e-5)
        assert y.device == stats.device == x.device and y.stride() == x.stride() and stats.shape == (3, 8)
        found = torch.ops.layernorm.norm_backward(y, x, weight, None, stats, "group", 2, 1e-5, [True, True, False])
        assert [t.device for t in found] == [x.device] * 3 and found[1].dtype == torch.float32
        rows = torch.empty(4, 6, device="cuda:0")
        network = spec()
        parameters = [torch.empty(shape, device="cuda:0") for _, _, _, shape, _ in core_of(network).places()]
        sequence = torch.empty(3, 4, 5, device="cuda:0")
        y, h, c, tape = torch.ops.layernorm.recurrent(
            sequence, None, None, parameters, None, network.text, False, None, False
        )
        assert y.shape == (3, 4, 32) and h.shape == c.shape == (1, 4, 32) and tape.shape == (0,)
        assert {t.device for t in (y, h, c, tape)} == {rows.device} and tape.dtype == torch.uint8


def test_tensors_on_other_devices_are_refused():
    with pytest.raises(ValueError, match="weight: expected a tensor on the CPU, where the input is, found one on meta"):
        from layernorm.torch import _calls

        _calls.forward(("layer", 1), torch.zeros(2, 4), torch.ones(4, device="meta"), None, 1e-5, False)
    with pytest.raises(ValueError, match="h: expected a tensor on cpu, where the input is, found one on meta"):
        _cuda.same_device(torch.zeros(2), h=torch.zeros(2, device="meta"))


def test_the_compiler_is_found_among_pytorchs_packages(tmp_path, monkeypatch):
    folder = tmp_path / "nvidia" / "cu13" / "lib"
    folder.mkdir(parents=True)
    for name in ("libnvrtc-builtins.so.13.0", "libnvrtc.so.13", "libnvrtc.so.12"):
        (folder / name).touch()
    (tmp_path / "nvidia" / "__init__.py").touch()
    named = []
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    spec = type("Spec", (), {"submodule_search_locations": [str(tmp_path / "nvidia")]})
    monkeypatch.setattr(_cuda.importlib.util, "find_spec", lambda _: spec)
    monkeypatch.setattr(_cuda._core, "cuda_use_nvrtc", named.append)
    _cuda._find_compiler.cache_clear()
    try:
        assert _cuda._find_compiler() == str(folder / "libnvrtc.so.13") and named == [str(folder / "libnvrtc.so.13")]
    finally:
        _cuda._find_compiler.cache_clear()


def test_packed_sequences_need_no_device_of_indices():
    # Lengths are sorted, not indexed, because on a GPU the indices are there.
    network = lt.GRU(3, 4)
    sequences = [torch.randn(length, 3) for length in (2, 4, 1)]
    packed = torch.nn.utils.rnn.pack_sequence(sequences, enforce_sorted=False)
    y, lengths = torch.nn.utils.rnn.pad_packed_sequence(network(packed)[0])
    assert lengths.tolist() == [2, 4, 1] and torch.equal(y[:2, 0], network(sequences[0].unsqueeze(1))[0].squeeze(1))


def test_what_gave_up_is_asked_of_a_gpu():
    with pytest.raises(ValueError, match="device: expected a CUDA device, found cpu"):
        lt.check_cuda("cpu")
    # No call has used this device: there is nothing to wait for, and CUDA is not loaded.
    lt.check_cuda("cuda:100" if torch.cuda.is_available() else "cuda:0")


def test_what_gave_up_is_told_when_the_program_ends(monkeypatch, capsys):
    def gave_up(device, wait):
        assert (device, wait) == (7, False)
        raise RuntimeError("a recurrent pass on GPU 7 timed out")

    registered = []
    monkeypatch.setattr(_core, "cuda_check", gave_up)
    monkeypatch.setattr(_cuda_sequences.atexit, "register", registered.append)
    _cuda_sequences._tell_at_exit.cache_clear()
    try:
        for _ in range(2):
            _cuda_sequences._tell_at_exit(7)
    finally:
        _cuda_sequences._tell_at_exit.cache_clear()
    (tell,) = registered
    tell()
    assert capsys.readouterr().err == "layernorm: a recurrent pass on GPU 7 timed out\n"
    with pytest.raises(RuntimeError, match="GPU 7 timed out"):
        monkeypatch.setattr(_core, "cuda_check", lambda device, wait: gave_up(device, False))
        lt.check_cuda(7)
