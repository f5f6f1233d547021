"""Layer norm by NumPy, PyTorch and this package, compared: ``python -m layernorm.implementations``.

For every shape, the error on inputs whose mean is near and far from 0, and the time per element on one thread. PyTorch is compared if
it is installed (``pip install 'layernorm[torch]'``). The inputs are those of the laboratory's study ``implementations``, which runs
this module with ``--json`` and adds the results to its report.

Errors are the largest of a shape, in units in the last place of float32: for each element, of the larger of ``|y|`` and a tenth of its
row's largest ``|y|``. The reference is computed in float64, whose own error is below 0.01 units on these inputs.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import math
import platform
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import layernorm

Norm = Callable[[], Any]

# Rows and elements per row; mean and standard deviation of the inputs. The study passes its own.
SHAPES = "512x64,64x1024,16x8192"
INPUTS = "0:1,1:1,10:1,100:1,1000:1,10000:1,100000:1,1000000:1,100:0.01,0:1e20,0.1:0"
# A few rows are enough to find the largest errors.
ERROR_ROWS = 16
# Shorter calls are repeated within one timed interval.
STRETCH_S = 50e-6
LEAST_ROUNDS = 3


def mix(bits: np.ndarray) -> np.ndarray:
    """The finalizer of SplitMix64, which wraps at 64 bits."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def normals(seed: int, stream: int, count: int) -> np.ndarray:
    """The study's nearly normal numbers: each is the sum of twelve uniform ones, from SplitMix64, minus 6."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    start = mix(mix(np.array([seed], np.uint64) + golden) + np.uint64(stream))
    numbers = mix(start + golden * np.arange(1, 12 * count + 1, dtype=np.uint64))
    uniform = ((numbers >> np.uint64(11)) * 2.0**-53).reshape(count, 12)
    total = np.zeros(count)
    # In order, as the study adds them: another order would round differently.
    for term in uniform.T:
        total += term
    return total - 6.0


def reference(x: np.ndarray, eps: float) -> np.ndarray:
    """The norm of rows in float64; the mean's rounding error is removed by a second mean."""
    d = x.astype(np.float64)
    d -= d.mean(-1, keepdims=True)
    d -= d.mean(-1, keepdims=True)
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + float(np.float32(eps)))


def largest_error(y: np.ndarray, expected: np.ndarray) -> tuple[float | None, str | None]:
    """The largest error in units in the last place, or None and how a row is completely wrong."""
    largest = np.abs(expected).max(-1, keepdims=True)
    failures = [
        ("no number", ~np.isfinite(y).all(-1)),
        ("all 0", (y == 0).all(-1) & (largest[:, 0] != 0)),
        ("not 0", (y != 0).any(-1) & (largest[:, 0] == 0)),
    ]
    for failure, rows in failures:
        if rows.any():
            return None, failure
    size = np.maximum(np.abs(expected), largest / 10)
    # frexp gives size = m·2^e with m from 0.5 to 1; float32 has 24 digits.
    unit = np.ldexp(1.0, np.maximum(np.frexp(size)[1] - 1, -126) - 23)
    return float((np.abs(y - expected) / unit).max()), None


def contestants(x: np.ndarray, eps: float, torch: Any) -> dict[str, Norm]:
    """The packages by name, as functions that normalize the rows of x."""

    def numpy_formula() -> np.ndarray:
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)

    norms: dict[str, Norm] = {"layernorm": lambda: layernorm.layer_norm(x, eps=eps), "numpy": numpy_formula}
    if torch is not None:
        rows, shape = torch.from_numpy(x), (x.shape[-1],)
        norms["torch"] = lambda: torch.nn.functional.layer_norm(rows, shape, eps=eps)
    return norms


def race(norms: dict[str, Norm], seconds: float) -> dict[str, float]:
    """The best time per call in seconds. The packages take turns, so that noise affects all of them alike."""

    def timed(norm: Norm, calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            norm()
        return (time.perf_counter() - start) / calls

    calls = {}
    for name, norm in norms.items():
        timed(norm, 1)
        calls[name] = max(1, math.ceil(STRETCH_S / max(timed(norm, 1), 1e-9)))
    best = dict.fromkeys(norms, math.inf)
    start, rounds = time.perf_counter(), 0
    while rounds < LEAST_ROUNDS or time.perf_counter() - start < seconds:
        for name, norm in norms.items():
            best[name] = min(best[name], timed(norm, calls[name]))
        rounds += 1
    return best


def compare(shape: tuple[int, int], options: argparse.Namespace, torch: Any) -> dict[str, Any]:
    """Errors and times of all packages on one shape."""
    rows, elements = shape
    z = normals(options.seed, elements, rows * elements).reshape(shape)
    errors: dict[str, list[dict[str, Any]]] = {}
    for mean, spread in options.inputs:
        x = (mean + spread * z[:ERROR_ROWS]).astype(np.float32)
        expected = reference(x, options.eps)
        # NumPy warns where numbers overflow, which is what is tested.
        with np.errstate(all="ignore"):
            for name, norm in contestants(x, options.eps, torch).items():
                units, failure = largest_error(np.asarray(norm()), expected)
                found = {"mean": mean, "spread": spread, "units": units, "failure": failure}
                errors.setdefault(name, []).append(found)
    best = race(contestants(z.astype(np.float32), options.eps, torch), options.seconds)
    packages = [
        {"package": name, "nanoseconds_per_element": 1e9 * best[name] / z.size, "errors": errors[name]} for name in best
    ]
    return {"rows": rows, "elements": elements, "packages": packages}


def table(found: dict[str, Any]) -> str:
    """The results as text."""
    versions = f"Python {found['python']}, NumPy {found['numpy']}, PyTorch {found['torch'] or 'not installed'}"
    lines = [
        f"Layer norm of float32 without weight and bias on one thread; {versions}, layernorm {found['layernorm']}",
        "error: the largest, in units in the last place of float32; x = mean + spread·z, z nearly standard normal",
        "",
    ]
    for shape in found["shapes"]:
        inputs = [f"{error['mean']:g}+{error['spread']:g}z" for error in shape["packages"][0]["errors"]]
        name = f"{shape['rows']}x{shape['elements']}"
        lines.append(f"{name:10} {'ns/element':>10} " + " ".join(f"{text:>11}" for text in inputs))
        for package in shape["packages"]:
            cells = [error["failure"] or f"{error['units']:.3g}" for error in package["errors"]]
            speed = f"{package['nanoseconds_per_element']:10.3f}"
            lines.append(f"{package['package']:10} {speed} " + " ".join(f"{cell:>11}" for cell in cells))
        lines.append("")
    return "\n".join(lines).rstrip()


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    def shapes(text: str) -> list[tuple[int, int]]:
        found = [tuple(map(int, shape.split("x"))) for shape in text.split(",")]
        if any(len(shape) != 2 or min(shape) < 1 for shape in found):
            raise ValueError
        return [(rows, elements) for rows, elements in found]

    def inputs(text: str) -> list[tuple[float, float]]:
        found = [tuple(map(float, pair.split(":"))) for pair in text.split(",")]
        return [(mean, spread) for mean, spread in found]

    parser = argparse.ArgumentParser(
        prog="python -m layernorm.implementations",
        description="Compare layer norm by NumPy, PyTorch (if installed) and this package: errors and times on one thread.",
    )
    parser.add_argument("--shapes", type=shapes, default=SHAPES, metavar="RxN,…", help=f"default: {SHAPES}")
    parser.add_argument("--inputs", type=inputs, default=INPUTS, metavar="MEAN:SPREAD,…", help=f"default: {INPUTS}")
    parser.add_argument("--eps", type=float, default=1e-5, metavar="X", help="default: 1e-5")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the inputs; default: 1")
    parser.add_argument("--seconds", type=float, default=0.15, metavar="S", help="time per shape; default: 0.15")
    parser.add_argument("--no-torch", action="store_true", help="leave PyTorch out")
    parser.add_argument(
        "--json", action="store_true", help="two lines of JSON: whether PyTorch is imported, the results"
    )
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    with_torch = not options.no_torch and importlib.util.find_spec("torch") is not None
    if options.json:
        # Whoever waits for the results knows now how long they may take.
        print(json.dumps({"torch": with_torch}), flush=True)
    torch = None
    if with_torch:
        try:
            torch = importlib.import_module("torch")
            torch.set_num_threads(1)
        except (ImportError, OSError):
            # A broken PyTorch counts as none.
            torch = None
    layernorm.set_num_threads(1)
    found = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": None if torch is None else str(torch.__version__),
        "layernorm": layernorm.__version__,
        "shapes": [compare(shape, options, torch) for shape in options.shapes],
    }
    print(json.dumps(found) if options.json else table(found), flush=True)


if __name__ == "__main__":
    main()
