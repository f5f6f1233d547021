"""Norms of layernorm.torch on a GPU: the same bits as on the CPU, and their speed compared with PyTorch."""

import functools
import os
import time
from concurrent.futures import ThreadPoolExecutor

from torch.nn import functional as F

import layernorm.torch as lt
import torch
from compare_common import TYPES, elapsed, median_ms, report
from layernorm.torch import _cuda
from torch import nn

SIZES = [64, 256, 768, 1024, 4096, 8192, 16384, 32768, 65536, 131072, 262144]
QUICK_SIZES = [64, 768, 4096, 32768]
COMPILED_SIZES = [1024, 16384, 131072]
BYTES = 512 << 20


def bits(t):
    return t.detach().cpu().contiguous().view({2: torch.int16, 4: torch.int32, 8: torch.int64}[t.element_size()])


def norm_results(norm, x, dy):
    x = x.requires_grad_()
    y = norm(x)
    return [y, *torch.autograd.grad(y, [x, *norm.parameters()], dy)]


def load_norm(op, x, dy, weight, bias):
    """Compiles the kernels of a row norm. Not through autograd, which runs all backward passes of a GPU in one thread."""
    rows = x.numel() // x.shape[-1]
    _cuda.forward(x, op, weight, bias, 1e-5, False, rows)
    _, stats = _cuda.forward(x, op, weight, bias, 1e-5, True, rows)
    _cuda.backward(x, op, dy, weight, bias, stats, 1e-5, (True, True, bias is not None))


def differing(make, shape, dtype):
    """Returns how many numbers differ from the CPU's in any bit, forward and backward."""
    cpu, gpu = make(dtype=dtype), make(dtype=dtype, device="cuda")
    with torch.no_grad():
        for parameter in cpu.parameters():
            parameter.normal_(1.0, 0.5)
    gpu.load_state_dict(cpu.state_dict())
    x, dy = (torch.randn(shape).to(dtype) for _ in range(2))
    if isinstance(gpu, (lt.LayerNorm, lt.RMSNorm)):
        op = ("layer" if isinstance(gpu, lt.LayerNorm) else "rms", 1)
        load_norm(op, x.cuda(), dy.cuda(), gpu.weight.detach(), getattr(gpu, "bias", None))
    pairs = zip(norm_results(cpu, x.clone(), dy), norm_results(gpu, x.cuda(), dy.cuda()))
    found = sum(int((bits(a) != bits(b)).sum()) for a, b in pairs)
    # Running statistics, if there are any.
    buffers = [pair for pair in zip(cpu.buffers(), gpu.buffers()) if pair[0].is_floating_point()]
    return found + sum(int((bits(a) != bits(b)).sum()) for a, b in buffers)


def check_norms(pool, sizes):
    """Checks that forward and backward give the same bits as the CPU. Uses threads, so that kernels are compiled on all cores."""
    torch.manual_seed(1)
    cases = {}
    for name in ("f32", "bf16"):
        for n in sizes:
            shape = (max(3, min(130, (1 << 18) // n)), n)
            for norm in (lt.LayerNorm, lt.RMSNorm) if n in QUICK_SIZES else (lt.LayerNorm,):
                make = functools.partial(norm, n)
                cases.setdefault(f"{norm.__name__}, {name}", []).append((make, shape, TYPES[name]))
    for make in (functools.partial(lt.GroupNorm, 8, 32), functools.partial(lt.BatchNorm2d, 32)):
        cases[make.func.__name__] = [(make, (6, 32, 14, 15), torch.float32)]
    for what, found in [(what, [pool.submit(differing, *case) for case in each]) for what, each in cases.items()]:
        count = sum(each.result() for each in found)
        report(f"{what}, {len(found)} sizes, against the CPU:", count == 0, f"{count} differing numbers")


def norm_sides(n, dtype, compiles):
    rows = BYTES // dtype.itemsize // n
    x = torch.randn(rows, n, device="cuda", dtype=dtype, requires_grad=True)
    dy = torch.randn(rows, n, device="cuda", dtype=dtype)
    weight, bias = (torch.randn(n, device="cuda", dtype=dtype, requires_grad=True) for _ in range(2))
    sides = {
        "ours": lambda x: lt.functional.layer_norm(x, (n,), weight, bias),
        "torch": lambda x: F.layer_norm(x, (n,), weight, bias),
    }
    if compiles:
        torch._dynamo.reset()
        sides["compile"] = torch.compile(sides["torch"], dynamic=False)
    return x, dy, [weight, bias], sides


def time_norm(n, name, compiles):
    """Returns the milliseconds of each side, forward and backward."""
    x, dy, parameters, sides = norm_sides(n, TYPES[name], compiles)
    there, back = {}, {}
    for side, call in sides.items():
        with torch.no_grad():
            there[side] = median_ms(lambda: call(x))
        y = call(x)
        back[side] = median_ms(lambda: torch.autograd.grad(y, [x, *parameters], dy, retain_graph=True))
        y = None
    return there, back


def copy_speed():
    """Returns the bytes per second that a device copy reads and writes: the best of a few pairs of tensors, because their addresses matter."""
    found = []
    for _ in range(4):
        a = torch.randn(BYTES // 4, device="cuda")
        b = torch.empty_like(a)
        found.append(2 * BYTES / (median_ms(lambda: b.copy_(a)) * 1e-3))
        a = b = None
        torch.cuda.empty_cache()
    return max(found)


def norms(options, sizes):
    copy = copy_speed()
    print(f"\ncopy: {copy / 1e12:.2f} TB/s. Layer norm, 512 MiB per tensor, % of that and ms:\n")
    print(
        "| type | N | pass | ours % | torch % | compile % | ours ms | torch ms | compile ms |\n|---|---|---|---|---|---|---|---|---|"
    )
    for name in ("f32", "bf16"):
        for n in sizes:
            # Each size takes some seconds to compile, and the recurrent part comes after this one.
            found = time_norm(n, name, n in COMPILED_SIZES and elapsed() < options.compile_until)
            for what, tensors, times in (("forward", 2, found[0]), ("backward", 3, found[1])):
                part = {side: 100 * tensors * BYTES / (ms * 1e-3) / copy for side, ms in times.items()}
                row = [f"{part[s]:.0f}" if s in part else "–" for s in ("ours", "torch", "compile")]
                row += [f"{times[s]:.3f}" if s in times else "–" for s in ("ours", "torch", "compile")]
                print(f"| {name} | {n} | {what} | " + " | ".join(row) + " |", flush=True)
            torch.cuda.empty_cache()
    small_norm()


def small_norm():
    """64 rows of 1024, where call overhead dominates. Eager, and in a graph."""
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
            print(
                f"64×1024 forward, {name}: {eager:.1f} µs a call from Python, {median_ms(graph.replay) * 10:.2f} µs in a graph"
            )


def ready_norm(n, name):
    """Makes one call of each kind, to compile its kernels."""
    x, dy, parameters, _ = norm_sides(n, TYPES[name], False)
    load_norm(("layer", 1), x.detach(), dy, *(p.detach() for p in parameters))


def make_norms_ready(sizes):
    """Compiles all kernels. They depend on the shape, so this uses whole tensors, as many at once as fit in memory."""
    start, room = time.perf_counter(), torch.cuda.mem_get_info()[0] // (8 * BYTES)
    with ThreadPoolExecutor(max(1, min(os.cpu_count(), room))) as pool:
        for done in [pool.submit(ready_norm, n, name) for name in ("f32", "bf16") for n in sizes]:
            done.result()
    torch.cuda.empty_cache()
    print(f"kernels of {2 * len(sizes)} norms ready in {time.perf_counter() - start:.0f} s", flush=True)
