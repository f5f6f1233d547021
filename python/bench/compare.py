"""Compares the speed of the package with PyTorch and NumPy, in one process. Calls alternate, and the best time counts.

    python bench/compare.py norms [--threads 1 2] [--seconds 1.0]
    python bench/compare.py recurrent [--threads 1 2]
    python bench/compare.py numpy
    python bench/compare.py import

Every comparison first checks that both sides compute the same. Times are of whole calls, including the allocation of results
and, in a training step, the gradients of input, weight and bias. A ratio above 1 means that the package is faster.
"""

import argparse
import math
import platform
import subprocess
import sys
import time

import layernorm

SHAPES = [(64, 128), (4096, 64), (1024, 768), (8192, 1024), (4096, 4096), (512, 16384), (64, 262144), (65536, 256)]


def race(sides, seconds):
    """Returns the best time of each side in seconds. They take turns, in batches of at least 200 microseconds."""
    lots = {}
    for name, call in sides.items():
        call()
        start = time.perf_counter()
        call()
        lots[name] = max(1, int(2e-4 / max(time.perf_counter() - start, 1e-7)))
    best = dict.fromkeys(sides, math.inf)
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < 5 or time.perf_counter() < end:
        for name, call in sides.items():
            start = time.perf_counter()
            for _ in range(lots[name]):
                call()
            best[name] = min(best[name], (time.perf_counter() - start) / lots[name])
        rounds += 1
    return best


def geometric(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def machine():
    info = layernorm.info()
    print(f"{platform.machine()}, {info.isa}, Python {platform.python_version()}", end="")


def norms(options):
    import torch
    from layernorm.torch import LayerNorm

    machine()
    print(f", PyTorch {torch.__version__}")
    print(f"{'shape':>14} {'type':>9} {'threads':>7} {'pass':>8} {'torch µs':>10} {'ours µs':>10} {'ratio':>6}")
    ratios = {}
    for threads in options.threads:
        torch.set_num_threads(threads)
        for dtype in (torch.float32, torch.bfloat16):
            for shape in SHAPES:
                sides = norm_sides(torch, LayerNorm, shape, dtype)
                for what, pair in sides.items():
                    best = race(pair, options.seconds)
                    ratio = best["torch"] / best["ours"]
                    ratios.setdefault(what, []).append(ratio)
                    name = str(dtype)[6:]
                    print(
                        f"{'×'.join(map(str, shape)):>14} {name:>9} {threads:>7} {what:>8} {best['torch'] * 1e6:10.1f} "
                        f"{best['ours'] * 1e6:10.1f} {ratio:6.2f}",
                        flush=True,
                    )
    for what, found in ratios.items():
        print(f"{what}: geometric mean {geometric(found):.2f}, least {min(found):.2f}")


def norm_sides(torch, LayerNorm, shape, dtype):
    theirs, ours = (make(shape[1], dtype=dtype) for make in (torch.nn.LayerNorm, LayerNorm))
    x = torch.randn(shape, dtype=dtype, requires_grad=True)
    dy = torch.randn(shape, dtype=dtype)
    # Both round to the type once; numbers are below 8.
    torch.testing.assert_close(ours(x), theirs(x), rtol=0, atol=16 * torch.finfo(dtype).eps)

    def forward(module):
        def call():
            with torch.no_grad():
                module(x)

        return call

    def step(module):
        def call():
            module(x).backward(dy)
            x.grad = module.weight.grad = module.bias.grad = None

        return call

    return {
        what: {"torch": make(theirs), "ours": make(ours)} for what, make in (("forward", forward), ("training", step))
    }


def recurrent(options):
    import torch.nn.functional as F

    import torch
    from layernorm.torch import LSTM

    class Eager(torch.nn.Module):
        """The LSTM of the paper as it is usually written: step by step, with LayerNorm modules."""

        def __init__(self, ours):
            super().__init__()
            self.p = {name: torch.nn.Parameter(value.detach().clone()) for name, value in ours.named_parameters()}
            for name, value in self.p.items():
                self.register_parameter(name, value)

        def forward(self, x):
            p = {name.removesuffix("_l0"): getattr(self, name) for name in self.p}
            hidden = p["weight_hh"].shape[1]
            h = c = torch.zeros(x.shape[1], hidden)
            outputs = []
            for step in x.unbind(0):
                a = F.layer_norm(F.linear(step, p["weight_ih"]), (4 * hidden,), p["norm_ih_weight"], p["norm_ih_bias"])
                a = a + F.layer_norm(F.linear(h, p["weight_hh"]), (4 * hidden,), p["norm_hh_weight"], p["norm_hh_bias"])
                i, f, g, o = (a + p["bias_gates"]).chunk(4, 1)
                c = f.sigmoid() * c + i.sigmoid() * g.tanh()
                h = o.sigmoid() * F.layer_norm(c, (hidden,), p["norm_c_weight"], p["norm_c_bias"]).tanh()
                outputs.append(h)
            return torch.stack(outputs)

    machine()
    print(f", PyTorch {torch.__version__}; milliseconds")
    print(
        f"{'B, T, I, H':>18} {'threads':>7} {'pass':>8} {'eager':>8} {'nn.LSTM':>8} {'ours':>8} {'vs eager':>8} {'vs nn.LSTM':>10}"
    )
    sizes = [(threads, *size) for threads in options.threads for size in ((64, 28, 28, 128), (1, 28, 28, 128))]
    for threads, batch, steps, inputs, hidden in sizes:
        torch.set_num_threads(threads)
        ours = LSTM(inputs, hidden)
        eager, plain = Eager(ours), torch.nn.LSTM(inputs, hidden)
        x = torch.randn(steps, batch, inputs)
        torch.testing.assert_close(ours(x)[0], eager(x), rtol=0, atol=1e-4)
        modules = {"eager": eager, "plain": lambda x: plain(x)[0], "ours": lambda x: ours(x)[0]}
        parameters = [*ours.parameters(), *eager.parameters(), *plain.parameters()]

        def forward(module):
            def call():
                with torch.no_grad():
                    module(x)

            return call

        def training(module):
            def call():
                module(x).sum().backward()
                for parameter in parameters:
                    parameter.grad = None

            return call

        for what, make in (("forward", forward), ("training", training)):
            best = race({name: make(module) for name, module in modules.items()}, max(options.seconds, 3.0))
            e, p, o = (best[name] * 1e3 for name in ("eager", "plain", "ours"))
            size = f"{batch}, {steps}, {inputs}, {hidden}"
            print(
                f"{size:>18} {threads:>7} {what:>8} {e:8.2f} {p:8.2f} {o:8.2f} {e / o:8.2f} {p / o:10.2f}", flush=True
            )


def numpy(options):
    import numpy as np

    rng = np.random.default_rng(0)
    machine()
    print(f", NumPy {np.__version__}; microseconds")
    for shape in ((64, 128), (1024, 768), (4096, 4096)):
        x = rng.standard_normal(shape).astype(np.float32)
        weight, bias = (rng.standard_normal(shape[1]).astype(np.float32) for _ in range(2))

        def formula():
            mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
            return (x - mean) / np.sqrt(var + 1e-5) * weight + bias

        sides = {"formula": formula, "ours": lambda: layernorm.layer_norm(x, shape[1], weight, bias)}
        assert np.abs(formula() - sides["ours"]()).max() < 1e-4
        best = race(sides, options.seconds)
        a, b = best["formula"] * 1e6, best["ours"] * 1e6
        print(f"{'×'.join(map(str, shape)):>12} formula {a:10.1f} ours {b:10.1f} ratio {a / b:6.2f}", flush=True)


def imports(options):
    code = "import numpy, time; start = time.perf_counter(); import layernorm; print(time.perf_counter() - start)"
    times = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(10)]
    whole = "import time; start = time.perf_counter(); import layernorm; print(time.perf_counter() - start)"
    with_numpy = [float(subprocess.check_output([sys.executable, "-c", whole])) for _ in range(10)]
    print(f"import layernorm: {min(times) * 1e3:.1f} ms without NumPy, {min(with_numpy) * 1e3:.1f} ms including NumPy")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["norms", "recurrent", "numpy", "import"])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seconds", type=float, default=1.0, help="minimum time of each comparison")
    options = parser.parse_args()
    {"norms": norms, "recurrent": recurrent, "numpy": numpy, "import": imports}[options.what](options)


if __name__ == "__main__":
    main()
