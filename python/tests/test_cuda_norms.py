"""Norms on a GPU: the same bits as on the CPU, on PyTorch's stream, compiled and captured."""

import pytest

from gpu import TYPES, graphed, needs_gpu, no_waiting, same_bits

torch = pytest.importorskip("torch", reason="PyTorch is missing: layernorm.torch is not tested")

from torch.autograd import gradgradcheck

import layernorm.torch as lt
import layernorm.torch.functional as F
from torch import nn

pytestmark = needs_gpu

# Rows shorter and longer than what a warp, a block and a cluster handle, odd lengths, few and many rows.
ROWS = [(3, 1), (7, 5), (130, 64), (65, 257), (9, 1000), (200, 1024), (3, 4097), (5, 16384), (2, 70001)]


def both(call, tensors):
    """Returns results and gradients of a call on the CPU and on the GPU: ``(cpu, gpu)``."""
    found = []
    for device in ("cpu", "cuda"):
        there = [None if t is None else t.detach().to(device).requires_grad_(t.requires_grad) for t in tensors]
        y = call(*there)
        generator = torch.Generator().manual_seed(4)
        dy = torch.randn(y.shape, generator=generator, dtype=torch.float64).to(y.dtype).to(device)
        y.backward(dy)
        found.append([y, *(t.grad for t in there if t is not None and t.requires_grad)])
    return found


def assert_same(call, tensors):
    cpu, gpu = both(call, tensors)
    assert all(t.is_cuda for t in gpu)
    for at, (a, b) in enumerate(zip(cpu, gpu)):
        assert same_bits(b, a), f"result {at} of {[list(t.shape) for t in tensors if t is not None]}"


def numbers(*shape, dtype=torch.float32):
    return (torch.randn(shape, dtype=torch.float64) * 3 + 1).to(dtype).requires_grad_()


# float16 takes the same paths as bfloat16, and bench/gpu has every type at every size: a kernel takes seconds to compile.
@pytest.mark.parametrize(
    "shape, dtype",
    [
        *((shape, dtype) for dtype in (torch.float32, torch.bfloat16) for shape in ROWS),
        *((shape, dtype) for dtype in (torch.float16, torch.float64) for shape in ROWS[3:9:2]),
    ],
    ids=str,
)
def test_rows_have_the_cpus_bits(shape, dtype):
    torch.manual_seed(1)
    n = shape[-1:]
    x, weight, bias = numbers(*shape, dtype=dtype), numbers(*n, dtype=dtype), numbers(*n, dtype=dtype)
    assert_same(lambda x, w, b: F.layer_norm(x, n, w, b), [x, weight, bias])
    if shape in ROWS[2::3]:
        assert_same(lambda x, w: F.rms_norm(x, n, w), [x, weight])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=lambda t: str(t)[6:])
def test_parameters_of_float32(dtype):
    torch.manual_seed(2)
    x, weight, bias = numbers(40, 384, dtype=dtype), numbers(384), numbers(384)
    assert_same(lambda x, w, b: F.layer_norm(x, (384,), w, b), [x, weight, bias])
    assert_same(lambda x: F.layer_norm(x, (384,)), [x])


def test_without_gradients():
    """The fast path: contiguous rows, without gradients."""
    torch.manual_seed(13)
    for dtype, parameters in ((torch.float32, torch.float32), (torch.bfloat16, torch.float32)):
        x, weight, bias = numbers(6, 7, 64, dtype=dtype), numbers(64, dtype=parameters), numbers(64, dtype=parameters)
        calls = [
            lambda x, w, b: F.layer_norm(x, (64,), w, b),
            lambda x, w, b: F.rms_norm(x, (64,), w),
            lambda x, *_: F.layer_norm(x, (7, 64)),
        ]
        with torch.no_grad():
            for call in calls:
                assert same_bits(call(x.cuda(), weight.cuda(), bias.cuda()), call(x, weight, bias))


# Every type once: a kernel takes seconds to compile.
@pytest.mark.parametrize(
    "shape, dtype",
    [
        *(((2, 6, 33, 17), dtype) for dtype in TYPES),
        *((shape, torch.float32) for shape in [(3, 8, 5), (4, 12), (2, 4, 3, 5, 7)]),
    ],
    ids=str,
)
def test_channels_have_the_cpus_bits(shape, dtype):
    torch.manual_seed(3)
    x, weight, bias = numbers(*shape, dtype=dtype), numbers(shape[1], dtype=dtype), numbers(shape[1], dtype=dtype)
    assert_same(lambda x, w, b: F.group_norm(x, 2, w, b), [x, weight, bias])
    assert_same(lambda x, w, b: F.batch_norm(x, None, None, w, b, True), [x, weight, bias])
    if len(shape) > 2:
        assert_same(lambda x, w, b: F.instance_norm(x, weight=w, bias=b), [x, weight, bias])
    mean, var = torch.randn(shape[1]), torch.rand(shape[1]) + 0.5
    assert_same(lambda x, w, b: F.batch_norm(x, mean.to(x.device), var.to(x.device), w, b), [x, weight, bias])


@pytest.mark.parametrize(
    "make", [lambda: lt.BatchNorm2d(6), lambda: lt.InstanceNorm2d(6, affine=True, track_running_stats=True)]
)
def test_running_statistics(make):
    torch.manual_seed(4)
    x = torch.randn(4, 6, 5, 7)
    cpu, gpu = make(), make().cuda()
    gpu.load_state_dict(cpu.state_dict())
    for _ in range(2):
        assert same_bits(gpu(x.cuda()), cpu(x))
    for name, t in cpu.state_dict().items():
        if t.is_floating_point() and "Instance" not in type(cpu).__name__:
            assert same_bits(gpu.state_dict()[name], t), name
        else:
            # PyTorch computes the average over the samples, and sums in another order on a GPU.
            torch.testing.assert_close(gpu.state_dict()[name].cpu(), t)
    assert same_bits(gpu.eval()(x.cuda()), cpu.eval()(x)) or "Instance" in type(cpu).__name__


def test_strides():
    torch.manual_seed(5)
    wide = numbers(6, 5, 40)
    weight, bias = numbers(24), numbers(24)
    # Rows with gaps; rows of two axes with gaps; swapped axes; every second number.
    views = [
        lambda t: t[..., 8:32],
        lambda t: t[:, 1:4, :24],
        lambda t: t[..., :24].transpose(0, 1),
        lambda t: t[:, ::2, :24],
    ]
    for view in views:
        assert_same(lambda x, w, b: F.layer_norm(view(x), (24,), w, b), [wide, weight, bias])
    gain = numbers(12)
    assert_same(lambda x, w: F.layer_norm(x[..., :12], (12,), w), [numbers(6, 24), gain])
    # An address that is not aligned to a vector.
    assert_same(lambda x, w: F.rms_norm(x.flatten()[1:25].view(2, 12), (12,), w), [numbers(5, 5), gain])


def test_memory_formats_are_kept():
    torch.manual_seed(6)
    x = numbers(2, 8, 5, 6).detach().to(memory_format=torch.channels_last).requires_grad_()
    weight, bias = numbers(8), numbers(8)
    for call in (lambda x, w, b: F.group_norm(x, 4, w, b), lambda x, w, b: F.batch_norm(x, None, None, w, b, True)):
        cpu, gpu = both(call, [x, weight, bias])
        assert all(same_bits(b, a) for a, b in zip(cpu, gpu))
        assert [t.stride() for t in cpu] == [t.stride() for t in gpu]


def test_empty_and_hard_inputs():
    for shape in [(0, 8), (3, 0)]:
        y = F.layer_norm(torch.empty(shape, device="cuda"), shape[1:])
        assert y.shape == shape
    weight = torch.ones(8, device="cuda", requires_grad=True)
    F.layer_norm(torch.empty(0, 8, device="cuda"), (8,), weight).sum().backward()
    assert not weight.grad.any()
    hard = torch.tensor(
        [[3e38, -3e38, 1.0, 2.0], [1e-45, 0.0, -1e-45, 0.0], [1e20, 1e20, 1e20, 1e20], [float("nan"), 1, 2, 3]]
    )
    assert_same(lambda x: F.layer_norm(x, (4,)), [hard.requires_grad_()])


def test_on_the_current_stream_without_waiting():
    torch.manual_seed(7)
    norm, x = lt.LayerNorm(512).cuda(), torch.randn(64, 512, device="cuda", requires_grad=True)
    expected = norm(x.detach())
    norm(x).sum().backward()
    stream = torch.cuda.Stream()
    late = torch.zeros_like(x)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream), no_waiting():
        # The norm must come after these on the same stream, or it sees zeros.
        torch.cuda._sleep(20_000_000)
        late.copy_(x.detach())
        y = norm(late)
        norm(x).sum().backward()
    torch.cuda.current_stream().wait_stream(stream)
    assert same_bits(y, expected)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled(dynamic):
    torch.manual_seed(8)
    torch._dynamo.reset()
    net = nn.Sequential(nn.Linear(32, 32), lt.LayerNorm(32), nn.GELU(), lt.RMSNorm(32)).cuda()
    compiled = torch.compile(net, fullgraph=True, dynamic=dynamic)
    for rows in (4, 9):
        x = torch.randn(rows, 32, device="cuda", requires_grad=True)
        expected = net(x)
        y = compiled(x)
        torch.testing.assert_close(y, expected)
        wanted = torch.autograd.grad(expected.square().sum(), [x, *net.parameters()])
        found = torch.autograd.grad(y.square().sum(), [x, *net.parameters()])
        # GELU and the sums of PyTorch's compiler round differently; gradients are of magnitude 10.
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


def test_compiled_with_graphs():
    torch.manual_seed(9)
    torch._dynamo.reset()
    norm = lt.LayerNorm(256).cuda()
    compiled = torch.compile(lambda x: norm(x * 2), fullgraph=True, mode="reduce-overhead")
    for _ in range(4):
        x = torch.randn(16, 256, device="cuda")
        with torch.no_grad():
            assert same_bits(compiled(x), norm(x * 2))


def test_captured_in_a_graph():
    torch.manual_seed(10)
    norms = nn.ModuleList([lt.LayerNorm(384), lt.RMSNorm(384)]).cuda()
    group, batch = lt.GroupNorm(4, 16).cuda(), lt.BatchNorm1d(16).cuda()
    x = torch.randn(32, 384, device="cuda", requires_grad=True)
    z = torch.randn(8, 16, 10, device="cuda", requires_grad=True)

    def call():
        y = norms[1](norms[0](x))
        w = batch(group(z))
        loss = (y * y).sum() + (w * w * w).sum()
        return [y, w, *torch.autograd.grad(loss, [x, z, *norms.parameters(), *group.parameters()])]

    found, replay = graphed(call)
    for _ in range(2):
        with torch.no_grad():
            x.copy_(torch.randn_like(x))
            z.copy_(torch.randn_like(z))
        replay()
        assert all(same_bits(a, b) for a, b in zip([t.clone() for t in found], call()))


def test_autocast():
    """Norms return their input's type; nn.LayerNorm would return float32 here."""
    torch.manual_seed(12)
    linear, norm = nn.Linear(64, 64).cuda(), lt.LayerNorm(64).cuda()
    x = torch.randn(8, 64, device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        z = linear(x)
        y = norm(z)
        assert y.dtype == z.dtype == torch.bfloat16 and norm(x).dtype == torch.float32
        y.float().square().sum().backward()
    assert same_bits(y, F.layer_norm(z.detach().cpu(), (64,), norm.weight.cpu(), norm.bias.cpu()))
    assert all(p.grad.dtype == torch.float32 for p in (*linear.parameters(), *norm.parameters()))


def test_gradients_of_gradients():
    torch.manual_seed(11)
    x = torch.randn(3, 6, device="cuda", dtype=torch.float64, requires_grad=True)
    weight, bias = (torch.randn(6, device="cuda", dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert gradgradcheck(lambda x, w, b: F.layer_norm(x, (6,), w, b), (x, weight, bias))
    assert gradgradcheck(lambda x, w, b: F.group_norm(x, 2, w, b), (x, weight, bias))


def test_transforms():
    cpu, gpu = lt.LayerNorm(8), lt.LayerNorm(8).cuda()
    x = torch.randn(5, 8, device="cuda")
    found = torch.func.vmap(torch.func.grad(lambda row: gpu(row).square().sum()))(x)
    expected = torch.func.vmap(torch.func.grad(lambda row: cpu(row).square().sum()))(x.cpu())
    assert same_bits(found, expected)


def test_tensors_elsewhere_are_refused():
    cpu, gpu = torch.randn(2, 4), torch.randn(2, 4, device="cuda")
    with pytest.raises(ValueError, match="expected tensors on one device, found cuda:0 and cpu"):
        F.layer_norm(gpu, (4,), torch.ones(4))
    with pytest.raises(ValueError, match="expected tensors on one device, found cpu and cuda:0"):
        F.layer_norm(cpu, (4,), torch.ones(4), torch.ones(4, device="cuda"))
    with pytest.raises(ValueError, match=r"weight: expected shape \[4\], found \[3\]"):
        F.layer_norm(gpu, (4,), torch.ones(3, device="cuda"))
    with pytest.raises(TypeError, match="weight: expected float16 or float32, found bfloat16"):
        F.layer_norm(gpu.half(), (4,), torch.ones(4, device="cuda", dtype=torch.bfloat16))
    with pytest.raises(TypeError, match="input: expected float16"):
        F.layer_norm(gpu.int(), (4,))
    with pytest.raises(ValueError, match="4 channels cannot be split into 3 groups"):
        F.group_norm(gpu, 3)
