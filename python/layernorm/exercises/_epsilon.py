"""Exercise 2: ε and numerical stability."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._call import Learner
from ._cases import ROW_AXES, compare_libraries, draw, error_of, judge, judge_dtype, one_pass, rows_case
from ._recipes import WITHOUT_AFFINE, Case
from ._solutions import stable_layer_norm
from ._types import Exercise, Notes, Solution

TASK = """
Write layer norm without γ and β for float32 and float64 rows x [rows, features], so that every result is accurate to 0.001 (float32) or
0.00001 (float64), also for

    - rows of equal numbers, which become 0,
    - rows whose variance is far below ε, which become small,
    - means that are large against the spread: 10⁶ ± 1 in float32, 10⁸ ± 1 in float64,
    - float32 numbers of 10³⁰, whose squares do not fit into a float32.

The result has x's type. Common formulas fail at least one of these; find out which, and why.
"""
TEMPLATE = '''
def stable_layer_norm(x, eps=1e-5):
    """Layer norm of the rows of x [rows, features], accurate on hard inputs."""
    raise NotImplementedError
'''.lstrip()
HINTS = (
    "E[x²] - E[x]² subtracts two numbers of size mean². float32 has 7 digits: with a mean of 1000, none of the variance is left.",
    "(1e30)² is 10⁶⁰; the largest float32 is 3.4·10³⁸, the largest float64 1.8·10³⁰⁸.",
    "Convert to float64, subtract the mean, then average the squares; convert the result to x's type.",
    "It works in float32 alone, too: subtract the mean of x - mean once more, and divide huge rows by their largest number first.",
)
# What the task promises.
FLOAT32, FLOAT64 = 1e-3, 1e-5
# float32 with a mean of 1000: rounding the mean costs 1e-4 at most; E[x²] - E[x]² costs 0.05 and more.
CANCELLED = 1e-2


def check(function: Any, notes: Notes) -> None:
    learner = Learner(notes)
    case = rows_case(5, 7, affine=False)
    y = learner.array("stable_layer_norm", function, case.x, case.eps, shape=case.x.shape)
    judge(y, case, notes, WITHOUT_AFFINE)
    if not notes.clean:
        return
    for look in (check_constant, check_small, check_large_mean, check_double, check_huge):
        look(learner, function, notes)
    if notes.clean:
        ordinary = hard(draw(6, 32, 64).astype(np.float32))
        compare_libraries(result(learner, function, ordinary), ordinary, notes)


def hard(x: np.ndarray) -> Case:
    features = x.shape[1]
    return Case(x, np.ones(features, x.dtype), np.zeros(features, x.dtype), 1e-5, ROW_AXES)


def result(learner: Learner, function: Any, case: Case) -> np.ndarray:
    return learner.array("stable_layer_norm", function, case.x, case.eps, shape=case.x.shape)


def check_constant(learner: Learner, function: Any, notes: Notes) -> None:
    values = np.array([[0.0], [0.1], [-3.7], [12345.678]], np.float32)
    case = hard(np.repeat(values, 48, axis=1))
    y = result(learner, function, case)
    judge_dtype(y, case.x, notes)
    if not np.isfinite(y).all():
        row = int(np.argwhere(~np.isfinite(y))[0][0])
        notes.wrong(
            "constant-row",
            f"A row of 48 times {values[row, 0]:.8g} becomes {y[row][~np.isfinite(y[row])][0]}. Its variance is 0: either ε is missing under the "
            "root, or the variance, computed as E[x²] - E[x]², came out below -ε.",
        )
        return
    row = int(np.abs(y).max(1).argmax())
    if np.abs(y[row]).max() > FLOAT32:
        notes.wrong(
            "constant-row",
            f"A row of 48 times {values[row, 0]:.8g} becomes {y[row, 0]:.3g}, expected 0. The rounding error of the mean was "
            "divided by √ε. Compute the mean in more digits.",
        )


def check_small(learner: Learner, function: Any, notes: Notes) -> None:
    case = hard((1e-4 * draw(7, 4, 48)).astype(np.float32))
    y = result(learner, function, case)
    if error_of(y, case) > FLOAT32 * float(np.abs(case.expected).max()):
        notes.wrong(
            "small-variance",
            f"A row with variance 10⁻⁸ becomes {np.abs(y[0]).max():.3g} at its largest, expected {np.abs(case.expected[0]).max():.3g}: "
            "with ε = 10⁻⁵, ε decides the scale.",
        )


def check_large_mean(learner: Learner, function: Any, notes: Notes) -> None:
    z = draw(8, 16, 48)
    moderate = hard((1000 + z).astype(np.float32))
    error = error_of(result(learner, function, moderate), moderate)
    if error > CANCELLED:
        naive = error_of(one_pass(moderate.x, 1e-5), moderate)
        notes.wrong(
            "cancellation",
            f"Rows with mean 1000 and standard deviation 1 are off by up to {error:.2g}; E[x²] - E[x]² in float32 is off by {naive:.2g}. It "
            "subtracts two numbers near 10⁶, whose float32 neighbours are 0.06 apart. Average (x - mean)² instead.",
        )
        return
    large = hard((1e6 + z).astype(np.float32))
    error = error_of(result(learner, function, large), large)
    if error > FLOAT32:
        notes.wrong(
            "rounded-mean",
            f"Rows with mean 10⁶ and standard deviation 1 are off by up to {error:.2g}. Near 10⁶, float32 numbers are 0.06 apart, and the "
            "mean is rounded to one of them. Compute in float64, or subtract the mean of x - mean once more.",
        )


def check_double(learner: Learner, function: Any, notes: Notes) -> None:
    case = hard(1e8 + draw(9, 16, 48))
    y = result(learner, function, case)
    judge_dtype(y, case.x, notes)
    # The reference's own mean is rounded here: its second mean is subtracted.
    d = case.x - case.x.mean(-1, keepdims=True)
    exact = hard(d - d.mean(-1, keepdims=True))
    error = error_of(y, exact)
    if error <= FLOAT64:
        return
    if error > CANCELLED:
        notes.wrong(
            "cancellation",
            f"float64 rows with mean 10⁸ and standard deviation 1 are off by up to {error:.2g}. Also in float64, E[x²] - E[x]² subtracts "
            "two numbers near 10¹⁶, whose neighbours are 2 apart. Average (x - mean)² instead.",
        )
    else:
        notes.wrong(
            "precision",
            f"float64 rows with mean 10⁸ and standard deviation 1 are off by up to {error:.2g}, more than 0.00001. Do not convert "
            "float64 arrays to float32.",
        )


def check_huge(learner: Learner, function: Any, notes: Notes) -> None:
    case = hard((1e30 * draw(10, 4, 48)).astype(np.float32))
    y = result(learner, function, case)
    if error_of(y, case) <= FLOAT32:
        return
    seen = "NaN" if np.isnan(y).any() else "all 0" if not y.any() else f"{y[0, 0]:.3g}"
    notes.wrong(
        "overflow",
        f"A float32 row of numbers near 10³⁰ becomes {seen}; expected {case.expected[0, 0]:.3g} at [0, 0]. The squares exceed 3.4·10³⁸, "
        "float32's largest number, and become infinite. Compute in float64, or divide the row by its largest number first.",
    )


EXERCISE = Exercise(
    2, "ε and stability", "stable_layer_norm", TASK, TEMPLATE, HINTS, check, Solution(stable_layer_norm)
)
