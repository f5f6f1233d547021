"""layernorm.torch on a GPU beside PyTorch, torch.compile and cuDNN: first that the results are right, then one table.

    python bench/gpu/compare.py [--quick] [--only check norms recurrent] [--seconds 280] [--types bf16 f32 tf32 f16]

Norms: tensors of 512 MiB, bandwidth of the bytes that must move (forward: x and y; backward: x, dy and dx) as a part of a device
copy's. Recurrent: T = 256 steps, as many inputs as hidden units, microseconds a step, whole calls as users make them: forward
without gradients, and forward with backward (gradients of input and parameters). Medians of CUDA events. Kernels are compiled
beforehand, on all cores; --seconds is for all of it, and what no longer fits is left out and shown as a dash.
"""

import argparse
import copy
import functools
import math
import os
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import layernorm.torch as lt
import torch
from layernorm.torch import _cuda_sequences, _sequences
from torch import nn
from torch.nn import functional as F

SIZES = [64, 256, 768, 1024, 4096, 8192, 16384, 32768, 65536, 131072, 262144]
QUICK_SIZES = [64, 768, 4096, 32768]
HIDDEN, BATCHES, STEPS = [512, 1024, 2048], [1, 16, 64], 256
BYTES = 512 << 20
TYPES = {"f32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
# Half a unit of the last place, as the recurrent kernels round (docs of crates/layernorm-cuda).
UNITS = {"f32": 2.0**-20, "tf32": 2.0**-11, "f16": 2.0**-11, "bf16": 2.0**-8}
BEGUN = time.perf_counter()
FAILED = []


def elapsed():
    return time.perf_counter() - BEGUN


def median_ms(call, seconds=0.25, least=3):
    """The median time of a call, within about so many seconds and at least so often."""
    call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    count = max(least, min(20, int(seconds / max(time.perf_counter() - start, 1e-6))))
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(count)]
    for first, last in events:
        first.record()
        call()
        last.record()
    torch.cuda.synchronize()
    return statistics.median(first.elapsed_time(last) for first, last in events)


def report(what, good, words=""):
    if not good:
        FAILED.append(what)
    print(f"{'ok  ' if good else 'FAIL'} {what} {words}".rstrip(), flush=True)


# Checks


def bits(t):
    return t.detach().cpu().contiguous().view({2: torch.int16, 4: torch.int32, 8: torch.int64}[t.element_size()])


def norm_results(norm, x, dy):
    x = x.requires_grad_()
    y = norm(x)
    return [y, *torch.autograd.grad(y, [x, *norm.parameters()], dy)]


def differing(make, shape, dtype):
    """How many results of a norm differ from the CPU's in any bit, forward and backward."""
    cpu, gpu = make(dtype=dtype), make(dtype=dtype, device="cuda")
    x, dy = (torch.randn(shape).to(dtype) for _ in range(2))
    pairs = zip(norm_results(cpu, x.clone(), dy), norm_results(gpu, x.cuda(), dy.cuda()))
    return sum(int((bits(a) != bits(b)).sum()) for a, b in pairs)


def check_norms(pool, sizes):
    """0 differing bits against the CPU, forward and backward. In threads: kernels are compiled on all cores."""
    torch.manual_seed(1)
    cases = {}
    for name in ("f32", "bf16"):
        for n in sizes:
            shape = (max(3, min(130, (1 << 18) // n)), n)
            for norm in (lt.LayerNorm, lt.RMSNorm):
                make = functools.partial(norm, n)
                cases.setdefault(f"{norm.__name__}, {name}, {len(sizes)} sizes", []).append((make, shape, TYPES[name]))
    for make in (functools.partial(lt.GroupNorm, 8, 32), functools.partial(lt.BatchNorm2d, 32)):
        cases[make.func.__name__] = [(make, (6, 32, 14, 15), torch.float32)]
    for what, found in [(what, [pool.submit(differing, *case) for case in each]) for what, each in cases.items()]:
        count = sum(each.result() for each in found)
        report(f"{what}, against the CPU:", count == 0, f"{count} differing bits")


@functools.lru_cache(maxsize=None)
def _made(kind, h):
    # Without the variant's own starting point, which is slow to compute for many units.
    torch.manual_seed(h)
    made = nn.utils.skip_init(getattr(lt, kind), h, h)
    for name, p in made.named_parameters():
        nn.init.normal_(p, 1.0 if name.startswith("norm") and "weight" in name else 0.0, h**-0.5 if p.dim() > 1 else 0.1)
    return made


def network(kind, h, name, device):
    """A layer-normalized network of H inputs and units; the same numbers for every type."""
    return copy.deepcopy(_made(kind, h)).to(device, TYPES[name])


def precision(name):
    torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")


def distance(found, expected):
    a, b = found.detach().cpu().double(), expected.detach().cpu().double()
    return ((a - b).norm() / b.norm().clamp(min=1e-30)).item()


def check_recurrent(types, hidden):
    """Within what roundings allow (python/tests/test_cuda_recurrent.py says why), of the CPU's results."""
    steps, batch = 6, 16
    for kind in ("LSTM", "GRU"):
        for name in types:
            worst = 0.0
            for h in hidden:
                precision(name)
                cpu, gpu = network(kind, h, name, "cpu"), network(kind, h, name, "cuda")
                x, dy = (torch.randn(steps, batch, h).to(TYPES[name]) for _ in range(2))
                found = []
                for each, device in ((cpu, "cpu"), (gpu, "cuda")):
                    there = x.to(device).requires_grad_()
                    y = each(there)[0]
                    found.append([y, *torch.autograd.grad(y, [there, *each.parameters()], dy.to(device))])
                for at, (a, b) in enumerate(zip(*found)):
                    bound = UNITS[name] * (1 + steps**0.5) * (3 if at else 1)
                    gap = distance(b, a) / bound
                    worst = max(worst, math.inf if math.isnan(gap) else gap)
            report(f"LN-{kind} {name}, H = {hidden}, against the CPU:", worst <= 1, f"{worst:.2f} of the bound")


# Norms


def norm_sides(n, dtype, compiles):
    rows = BYTES // dtype.itemsize // n
    x = torch.randn(rows, n, device="cuda", dtype=dtype, requires_grad=True)
    dy = torch.randn(rows, n, device="cuda", dtype=dtype)
    weight, bias = (torch.randn(n, device="cuda", dtype=dtype, requires_grad=True) for _ in range(2))
    sides = {"ours": lambda x: lt.functional.layer_norm(x, (n,), weight, bias), "torch": lambda x: F.layer_norm(x, (n,), weight, bias)}
    if compiles:
        torch._dynamo.reset()
        sides["compile"] = torch.compile(sides["torch"], dynamic=False)
    return x, dy, [weight, bias], sides


def time_norm(n, name, compiles):
    """Milliseconds of each side, forward and backward."""
    x, dy, parameters, sides = norm_sides(n, TYPES[name], compiles)
    there, back = {}, {}
    for side, call in sides.items():
        with torch.no_grad():
            there[side] = median_ms(lambda: call(x))
        y = call(x)
        back[side] = median_ms(lambda: torch.autograd.grad(y, [x, *parameters], dy, retain_graph=True))
        del y
    return there, back


def norms(options, sizes):
    a = torch.empty(BYTES, dtype=torch.uint8, device="cuda")
    b = torch.empty_like(a)
    copy = 2 * BYTES / (median_ms(lambda: b.copy_(a)) * 1e-3)
    del a, b
    print(f"\ncopy: {copy / 1e12:.2f} TB/s. Layer norm, 512 MiB a tensor, % of that and ms:\n")
    print("| type | N | pass | ours % | torch % | compile % | ours ms | torch ms | compile ms |\n|---|---|---|---|---|---|---|---|---|")
    for name in ("f32", "bf16"):
        for n in sizes:
            # A size costs the compiler some seconds; the recurrent part comes after this one.
            found = time_norm(n, name, elapsed() < options.compile_until)
            for what, tensors, times in (("forward", 2, found[0]), ("backward", 3, found[1])):
                part = {side: 100 * tensors * BYTES / (ms * 1e-3) / copy for side, ms in times.items()}
                row = [f"{part[s]:.0f}" if s in part else "–" for s in ("ours", "torch", "compile")]
                row += [f"{times[s]:.3f}" if s in times else "–" for s in ("ours", "torch", "compile")]
                print(f"| {name} | {n} | {what} | " + " | ".join(row) + " |", flush=True)
            torch.cuda.empty_cache()
    small_norm()


def small_norm():
    """64 rows of 1024: where the call costs more than the numbers. Eager, and in a graph."""
    x = torch.randn(64, 1024, device="cuda")
    ours, theirs = lt.LayerNorm(1024).cuda(), nn.LayerNorm(1024).cuda()
    for name, norm in (("ours", ours), ("torch", theirs)):
        with torch.no_grad():
            norm(x)
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(1000):
                norm(x)
            eager = (time.perf_counter() - start) * 1e3
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for _ in range(100):
                    norm(x)
            print(f"64×1024 forward, {name}: {eager:.1f} µs a call from Python, {median_ms(graph.replay) * 10:.2f} µs in a graph")


# Recurrent


class EagerLstm(nn.Module):
    """The paper's layer-normalized LSTM as it is written in PyTorch."""

    def __init__(self, like):
        super().__init__()
        self.w, self.u, self.b = (getattr(like, name) for name in like._names if _plain_name(name))
        self.norms = [like._parameters[name] for name in like._names if not _plain_name(name)]
        self.hidden = like.hidden_size

    def forward(self, x):
        gx, bx, gh, bh, gc, bc = self.norms
        h = c = x.new_zeros(x.shape[1], self.hidden)
        wide, ys = (4 * self.hidden,), []
        for step in x.unbind(0):
            gates = F.layer_norm(step @ self.w.t(), wide, gx, bx) + F.layer_norm(h @ self.u.t(), wide, gh, bh) + self.b
            i, f, g, o = gates.chunk(4, -1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * F.layer_norm(c, (self.hidden,), gc, bc).tanh()
            ys.append(h)
        return torch.stack(ys), None


def _plain_name(name):
    return "norm" not in name


def cases(types, hidden, batches):
    return [(kind, name, h, b) for kind in ("LSTM", "GRU") for name in types for h in hidden for b in batches]


def ready_norm(n, name):
    """One call of each kind, so that its kernels are compiled."""
    x, dy, parameters, sides = norm_sides(n, TYPES[name], False)
    with torch.no_grad():
        sides["ours"](x)
    torch.autograd.grad(sides["ours"](x), [x, *parameters], dy)


def make_norms_ready(sizes):
    """Kernels depend on the shape: whole tensors, as many at once as there is memory for."""
    start, room = time.perf_counter(), torch.cuda.mem_get_info()[0] // (8 * BYTES)
    with ThreadPoolExecutor(max(1, min(os.cpu_count(), room))) as pool:
        for done in [pool.submit(ready_norm, n, name) for name in ("f32", "bf16") for n in sizes]:
            done.result()
    torch.cuda.empty_cache()
    print(f"kernels of {2 * len(sizes)} norms ready in {time.perf_counter() - start:.0f} s", flush=True)


def make_ready(pool, found):
    """Compiles and loads the kernels of all cases, on all cores; those that are on disk are read."""
    start = time.perf_counter()

    def load(case):
        kind, name, h, b = case
        spec = _sequences.Spec(kind.lower(), "paper", h, h, 1, False, None, True, None, (0.0,) * 5)
        core = _sequences.core_of(spec)
        for training in (True, False):
            types, sizes = (TYPES[name], TYPES[name]), (STEPS, b, False, False)
            stack = _cuda_sequences._stack(spec, core, 0, types, name == "tf32", sizes, training)
            assert stack is not None, case

    for case, done in [(case, pool.submit(load, case)) for case in found]:
        try:
            done.result()
        except Exception as error:  # noqa: BLE001  (the others go on)
            report(f"kernels of {case}", False, str(error))
    print(f"kernels of {len(found)} recurrent cases ready in {time.perf_counter() - start:.0f} s", flush=True)


def step_times(layer, x, dy):
    """Microseconds a step: forward, and forward with backward."""
    with torch.no_grad():
        there = median_ms(lambda: layer(x)[0], 0.12)
    given = [x, *layer.parameters()]
    both = median_ms(lambda: torch.autograd.grad(layer(x)[0], given, dy), 0.12)
    return there * 1e3 / STEPS, both * 1e3 / STEPS


def recurrent(options, found):
    print(f"\nRecurrent layers, T = {STEPS}, µs a step (cuDNN's are plain; its float32 is tf32):\n")
    print("| cell | type | H | B | fwd ours | cuDNN | eager LN | fwd+bwd ours | cuDNN | eager LN |\n|---|---|---|---|---|---|---|---|---|---|")
    for kind, name, h, b in found:
        if elapsed() > options.seconds:
            print(f"| {kind} {name} {h}×{b} and the rest: no time left |")
            return
        precision(name)
        torch.backends.cudnn.allow_tf32 = True
        dtype = TYPES[name]
        x = torch.randn(STEPS, b, h, device="cuda", dtype=dtype, requires_grad=True)
        dy = torch.randn(STEPS, b, h, device="cuda", dtype=dtype)
        ours = network(kind, h, name, "cuda")
        plain = getattr(nn, kind)(h, h, device="cuda", dtype=dtype)
        plain.flatten_parameters()
        try:
            rows = [step_times(ours, x, dy), step_times(plain, x, dy)]
        except Exception as error:  # noqa: BLE001  (the other rows go on)
            report(f"{kind} {name} {h}×{b}", False, str(error)[:200])
            continue
        with torch.no_grad():
            if not ours(x)[0].isfinite().all():
                report(f"{kind} {name} {h}×{b}: all results are numbers", False)
        if kind == "LSTM" and name == "bf16":
            eager = EagerLstm(ours)
            with torch.no_grad():
                gap = distance(eager(x[:8])[0], ours(x[:8])[0])
            if not gap <= UNITS[name] * 16:
                report(f"eager LN-LSTM {h}×{b} is the same network", False, f"{gap:.1e}")
            rows.append(step_times(eager, x, dy))
        cells = [[f"{row[at]:.2f}" for row in rows] + ["–"] * (3 - len(rows)) for at in (0, 1)]
        print(f"| {kind} | {name} | {h} | {b} | " + " | ".join([*cells[0], *cells[1]]) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few sizes, bf16 and f32")
    parser.add_argument("--only", nargs="+", default=["check", "norms", "recurrent"], choices=["check", "norms", "recurrent", "ready"])
    parser.add_argument("--types", nargs="+", default=None, choices=list(TYPES), help="of the recurrent part")
    parser.add_argument("--seconds", type=float, default=280.0)
    parser.add_argument("--compile-until", type=float, default=None, help="seconds after which torch.compile is left out")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("skipped: no NVIDIA GPU that PyTorch can use")
        return 0
    options.compile_until = options.seconds / 2 if options.compile_until is None else options.compile_until
    sizes = QUICK_SIZES if options.quick else SIZES
    types = options.types or (["bf16", "f32"] if options.quick else ["bf16", "f32", "tf32", "f16"])
    hidden, batches = ([512, 1024], [16]) if options.quick else (HIDDEN, BATCHES)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}")
    found = cases(types, hidden, batches)
    # A first call: the compiler of kernels is found, and the device is there for all threads.
    lt.functional.layer_norm(torch.ones(1, 4, device="cuda"), (4,))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        if {"check", "recurrent", "ready"} & {*options.only}:
            make_ready(pool, found)
        if "check" in options.only:
            check_norms(pool, sizes)
            check_recurrent(types, hidden)
    if {"norms", "ready"} & {*options.only}:
        make_norms_ready(sizes)
    if "norms" in options.only:
        norms(options, sizes)
    if "recurrent" in options.only:
        recurrent(options, found)
    print(f"\n{elapsed():.0f} s; {'failed: ' + '; '.join(FAILED) if FAILED else 'all checks hold'}")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
