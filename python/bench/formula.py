"""The package for NumPy: layer_norm against the formula, and the time of its import."""

import platform
import subprocess
import sys

import numpy as np

import layernorm
from options import Unusable
from race import race

SHAPES = ((64, 128), (1024, 768), (4096, 4096))
# f32, numbers below 8 and sums in another order: both sides are this close to the exact result.
TOLERANCE = 1e-4
IMPORTS = 10


def compare(options):
    rng = np.random.default_rng(0)
    info = layernorm.info()
    versions = (
        f"NumPy {np.__version__}, layernorm {layernorm.__version__} ({info.isa}), Python {platform.python_version()}"
    )
    print(f"layer_norm of f32 with weight and bias, {versions}; microseconds, best of all rounds")
    print(f"{'shape':>12} {'formula':>10} {'ours':>10} {'ratio':>6}")
    for shape in SHAPES:
        x = rng.standard_normal(shape).astype(np.float32)
        weight, bias = (rng.standard_normal(shape[1]).astype(np.float32) for _ in range(2))

        def formula():
            mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
            return (x - mean) / np.sqrt(var + 1e-5) * weight + bias

        def ours():
            return layernorm.layer_norm(x, shape[1], weight, bias)

        if not (error := np.abs(formula() - ours()).max()) <= TOLERANCE:
            raise Unusable(f"{shape}: ours differs from the formula by {error:.3g}")
        found = race({"formula": formula, "ours": ours}, options.seconds, 5, info.threads)
        theirs, best = found["formula"].best, found["ours"].best
        print(f"{shape[0]:>6}×{shape[1]:<5} {theirs:10.1f} {best:10.1f} {theirs / best:6.2f}", flush=True)


def import_time(options):
    def best(before):
        code = f"{before}import time; start = time.perf_counter(); import layernorm; print(time.perf_counter() - start)"
        return min(float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(IMPORTS)) * 1e3

    print(f"import layernorm: {best('import numpy; '):.1f} ms after NumPy's import, {best(''):.1f} ms including it")
