"""Recurrent networks on a GPU: results within a bound of the CPU's, gradients, lengths, compiled and captured."""

import pytest

from gpu import distance, graphed, needs_gpu, no_waiting, same_bits

torch = pytest.importorskip("torch", reason="PyTorch is missing: layernorm.torch is not tested")

from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence

import layernorm.torch as lt

pytestmark = needs_gpu

# Half a unit in the last place. A float32 product on tensor cores is three tf32 products, accurate to 2⁻²¹, whose sum is
# truncated.
UNIT = {torch.float32: 2.0**-20, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}


@pytest.fixture(autouse=True)
def whole_float32():
    """Disables tf32, which is PyTorch's default for recurrent layers."""
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        yield


def bound(dtype, steps, layers, backward):
    """Returns the error bound of a result relative to its norm. Each step rounds h (backward: dz) to the type once, independently,
    so the errors of T steps add up as √T, and the result is rounded once more. Backward adds the error of the forward pass in every
    gate and rounds the operands of each product again: three times as much. Each layer starts with the error of the one below.
    """
    return UNIT[dtype] * (1 + steps**0.5) * layers * (3 if backward else 1)


def pair(kind, sizes, dtype=torch.float32, parameters=None, **options):
    """Returns the same network on the CPU and on the GPU."""
    torch.manual_seed(3)
    cpu = getattr(lt, kind)(*sizes, dtype=parameters or dtype, **options)
    gpu = getattr(lt, kind)(*sizes, dtype=parameters or dtype, device="cuda", **options)
    gpu.load_state_dict(cpu.state_dict())
    return cpu, gpu


def parts(state):
    return list(state) if isinstance(state, tuple) else [state]


def passes(network, x, state, device):
    """Returns y, the last state, and gradients of x, the first state and the parameters."""
    x = x.detach().to(device).requires_grad_()
    state = [t.detach().to(device).requires_grad_() for t in state]
    given = (tuple(state) if network._kind == "lstm" else state[0]) if state else None
    y, last = network(x, given)
    results = [y, *parts(last)]
    generator = torch.Generator().manual_seed(5)
    cotangents = [torch.randn(t.shape, generator=generator).to(t.dtype).to(device) for t in results]
    found = torch.autograd.grad(results, [x, *state, *network.parameters()], cotangents)
    return results, found


def assert_close(cpu, gpu, x, state, dtype):
    (results, gradients), (found, found_gradients) = passes(cpu, x, state, "cpu"), passes(gpu, x, state, "cuda")
    steps, layers = x.shape[1 if cpu.batch_first else 0], cpu.num_layers
    for at, (a, b) in enumerate(zip(results, found)):
        assert b.is_cuda and distance(b, a) <= bound(dtype, steps, layers, False), f"result {at}"
    names = ["x", *(f"state {i}" for i in range(len(state))), *dict(cpu.named_parameters())]
    for name, a, b in zip(names, gradients, found_gradients):
        assert b.is_cuda and distance(b, a) <= bound(dtype, steps, layers, True), name


@pytest.mark.parametrize("dtype", UNIT, ids=lambda t: str(t)[6:])
@pytest.mark.parametrize(
    "kind, variant", [("LSTM", "paper"), ("GRU", "paper"), ("LSTM", "torchaudio"), ("LSTM", "none")]
)
def test_as_the_cpu(kind, variant, dtype):
    cpu, gpu = pair(kind, (20, 48), dtype, variant=variant)
    x = torch.randn(6, 5, 20).to(dtype)
    state = [torch.randn(1, 5, 48).to(dtype) for _ in range(2 if kind == "LSTM" else 1)]
    assert_close(cpu, gpu, x, state, dtype)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize("batch_first", [False, True])
def test_layers_and_directions(kind, batch_first):
    options = dict(num_layers=2, bidirectional=True, batch_first=batch_first)
    cpu, gpu = pair(kind, (20, 48), **options)
    x = torch.randn(5, 6, 20)
    state = [torch.randn(4, 5 if batch_first else 6, 48) for _ in range(2 if kind == "LSTM" else 1)]
    assert_close(cpu, gpu, x, state, torch.float32)


def test_parameters_of_float32():
    cpu, gpu = pair("LSTM", (20, 48), torch.bfloat16, torch.float32)
    assert_close(cpu, gpu, torch.randn(6, 5, 20).bfloat16(), [], torch.bfloat16)


@pytest.mark.parametrize("lengths", [(3, 6, 1, 6, 4), (6,)], ids=["several", "one"])
def test_packed_sequences(lengths):
    cpu, gpu = pair("LSTM", (20, 48), num_layers=2, bidirectional=True)
    sequences = [torch.randn(length, 20) for length in lengths]
    packed = pack_sequence(sequences, enforce_sorted=False)
    (y, last), (found, found_last) = cpu(packed), gpu(packed.to("cuda"))
    y, found = pad_packed_sequence(y)[0], pad_packed_sequence(found)[0]
    for a, b in zip((y, *last), (found, *found_last)):
        assert distance(b, a) <= bound(torch.float32, 6, 2, False)
    assert not found[lengths[0] :, 0].any()
    wanted = torch.autograd.grad(y.square().sum() + last[0].sum(), list(cpu.parameters()))
    gotten = torch.autograd.grad(found.square().sum() + found_last[0].sum(), list(gpu.parameters()))
    for name, a, b in zip(dict(cpu.named_parameters()), wanted, gotten):
        assert distance(b, a) <= bound(torch.float32, 6, 2, True), name


def test_same_bits_again_and_alone():
    gpu = lt.LSTM(20, 48, device="cuda")
    x = torch.randn(6, 9, 20, device="cuda")
    with torch.no_grad():
        y, (h, c) = gpu(x)
        again = gpu(x)[0]
        alone = gpu(x[:, 4:5].contiguous())[0]
    trained = gpu(x)[0]
    assert same_bits(again, y) and same_bits(alone, y[:, 4:5]) and same_bits(trained, y)
    assert same_bits(y[-1:], h)


def test_dropout_hits_the_same_numbers():
    cpu, gpu = pair("GRU", (20, 48), num_layers=2, dropout=0.4)
    x = torch.randn(6, 5, 20)
    for network in (cpu, gpu):
        network.train()
    torch.manual_seed(8)
    results, gradients = passes(cpu, x, [], "cpu")
    torch.manual_seed(8)
    found, found_gradients = passes(gpu, x, [], "cuda")
    assert all(distance(b, a) <= bound(torch.float32, 6, 2, False) for a, b in zip(results, found))
    assert all(distance(b, a) <= bound(torch.float32, 6, 2, True) for a, b in zip(gradients, found_gradients))


@pytest.mark.parametrize(
    "kind, options",
    [
        ("RNN", {}),
        ("LSTM", {"proj_size": 7}),
        ("LSTM", {"variant": "theano"}),
        ("GRU", {"zoneout": 0.2}),
        ("LSTM", {"dtype": torch.float64}),
    ],
    ids=str,
)
def test_what_the_kernels_lack_is_composed(kind, options):
    options = dict(options)
    dtype = options.pop("dtype", torch.float32)
    cpu, gpu = pair(kind, (20, 48), dtype, **options)
    x = torch.randn(4, 3, 20, dtype=dtype)
    torch.manual_seed(9)
    results, gradients = passes(cpu, x, [], "cpu")
    torch.manual_seed(9)
    found, found_gradients = passes(gpu, x, [], "cuda")
    # Ordinary float32 (or float64) sums in PyTorch's order.
    least = 2.0**-20 if dtype == torch.float32 else 2.0**-48
    for a, b in zip((*results, *gradients), (*found, *found_gradients)):
        assert b.is_cuda and distance(b, a) <= 16 * least


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_tf32_as_pytorch_says(kind):
    """float32 products use tf32 (11 bits) if cuDNN may, as in nn.LSTM."""
    cpu, gpu = pair(kind, (20, 48))
    x = torch.randn(6, 5, 20)
    (y, *_), expected = passes(cpu, x, [], "cpu")
    (whole, *_), _ = passes(gpu, x, [], "cuda")
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=True):
        (rounded, *_), found = passes(gpu, x, [], "cuda")
    unit = 2.0**-11 * (1 + 6**0.5)
    assert distance(whole, y) <= bound(torch.float32, 6, 1, False) < distance(rounded, y) <= unit
    assert all(distance(b, a) <= 3 * unit for a, b in zip(expected, found))


def test_autocast():
    """Networks compute in the type of their input, as on the CPU."""
    gpu = lt.LSTM(20, 48, device="cuda")
    x = torch.randn(6, 5, 20, device="cuda")
    expected = gpu(x)[0]
    with torch.autocast("cuda", torch.bfloat16):
        assert same_bits(gpu(x)[0], expected)
        y = gpu(torch.nn.functional.linear(x, torch.eye(20, device="cuda")))[0]
        y.float().sum().backward()
    assert y.dtype == torch.bfloat16 and gpu.weight_ih_l0.grad.dtype == torch.float32
    # The input is rounded too.
    assert distance(y, expected) <= 2 * bound(torch.bfloat16, 6, 1, False)


def test_on_the_current_stream():
    gpu = lt.GRU(20, 48, device="cuda")
    x = torch.randn(6, 5, 20, device="cuda")
    (expected,) = torch.autograd.grad(gpu(x)[0].square().sum(), gpu.weight_hh_l0)
    stream, late = torch.cuda.Stream(), torch.zeros_like(x)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        # The network must come after these on the same stream, or it sees zeros.
        torch.cuda._sleep(20_000_000)
        late.copy_(x)
        (found,) = torch.autograd.grad(gpu(late)[0].square().sum(), gpu.weight_hh_l0)
    torch.cuda.current_stream().wait_stream(stream)
    assert same_bits(found, expected)


def test_gradients_of_gradients():
    gpu = lt.LSTM(4, 32, device="cuda")
    x = torch.randn(3, 2, 4, device="cuda", requires_grad=True)
    (dx,) = torch.autograd.grad(gpu(x)[0].square().sum(), x, create_graph=True)
    found = torch.autograd.grad(dx.square().sum(), [x, *gpu.parameters()])
    cpu = lt.LSTM(4, 32)
    cpu.load_state_dict(gpu.state_dict())
    z = x.detach().cpu().requires_grad_()
    (dz,) = torch.autograd.grad(cpu(z)[0].square().sum(), z, create_graph=True)
    expected = torch.autograd.grad(dz.square().sum(), [z, *cpu.parameters()])
    for a, b in zip(expected, found):
        assert distance(b, a) <= 3 * bound(torch.float32, 3, 1, True)


def test_without_waiting():
    gpu = lt.LSTM(20, 48, device="cuda")
    x = torch.randn(6, 5, 20, device="cuda", requires_grad=True)
    gpu(x)[0].sum().backward()
    with no_waiting():
        gpu(x)[0].sum().backward()
        with torch.no_grad():
            gpu(x)


def test_compiled():
    torch._dynamo.reset()
    gpu = lt.LSTM(20, 48, num_layers=2, device="cuda")
    compiled = torch.compile(lambda x: gpu(x * 2)[0], fullgraph=True)
    for steps in (4, 4, 7):
        x = torch.randn(steps, 5, 20, device="cuda", requires_grad=True)
        y, expected = compiled(x), gpu(x * 2)[0]
        assert same_bits(y, expected)
        found = torch.autograd.grad(y.square().sum(), [x, *gpu.parameters()])
        wanted = torch.autograd.grad(expected.square().sum(), [x, *gpu.parameters()])
        assert all(same_bits(a, b) for a, b in zip(found, wanted))


@pytest.mark.parametrize(
    "kind, sizes, options, dtype",
    [
        ("GRU", (20, 48), {"bidirectional": True}, torch.float32),
        ("LSTM", (20, 48), {"num_layers": 2}, torch.float32),
        # Sizes that select the kernels for larger networks, and 16-bit types.
        ("LSTM", (512, 512), {}, torch.bfloat16),
    ],
    ids=str,
)
def test_captured_in_a_graph(kind, sizes, options, dtype):
    gpu = getattr(lt, kind)(*sizes, device="cuda", dtype=dtype, **options)
    x = torch.randn(6, 5, sizes[0], device="cuda", dtype=dtype, requires_grad=True)

    def call():
        y, h = gpu(x)
        return [y, *parts(h), *torch.autograd.grad(y.square().sum(), [x, *gpu.parameters()])]

    found, replay = graphed(call)
    for _ in range(2):
        with torch.no_grad():
            x.copy_(torch.randn_like(x))
        replay()
        assert all(same_bits(a, b) for a, b in zip([t.clone() for t in found], call()))


def test_tensors_elsewhere_are_refused():
    gpu = lt.LSTM(4, 32, device="cuda")
    with pytest.raises(ValueError, match="expected tensors on one device, found cpu and cuda:0"):
        gpu(torch.randn(3, 2, 4))
    state = (torch.zeros(1, 2, 32), torch.zeros(1, 2, 32))
    with pytest.raises(ValueError, match="expected tensors on one device, found cuda:0 and cpu"):
        gpu(torch.randn(3, 2, 4, device="cuda"), state)
