"""Exercise 5: the speed of implementations."""

from __future__ import annotations

import ast
import inspect
import textwrap
import time
from typing import Any

import numpy as np

import layernorm
from layernorm.implementations import race

from ._call import Learner, TimedOut, bounded, explained
from ._cases import ROW_AXES, SINGLE, draw, find_torch, judge, judge_dtype, parameters, rows_case
from ._recipes import Case, distance
from ._solutions import fast_layer_norm
from ._types import Exercise, Notes, Solution, Stop

TASK = """
Write layer norm for float32 x [rows, features] that is as fast as you can make it, with NumPy or PyTorch but without this package. It must
be right, and take at most 6 times as long as the formula in NumPy for 2048 rows of 64 features. The check times, on the same input: yours,
the formula in NumPy, layernorm.layer_norm and, where it is installed, PyTorch. A loop in Python takes about 100 times as long.
"""
TEMPLATE = '''
def fast_layer_norm(x, gamma, beta, eps=1e-5):
    """Layer norm of the rows of x [rows, features], without a loop in Python."""
    raise NotImplementedError
'''.lstrip()
HINTS = (
    "NumPy's own loops run over whole arrays: one expression for all rows, with axis=-1 and keepdims=True.",
    "np.vectorize and np.apply_along_axis are loops in Python, too.",
    "Every expression makes a new array and reads the old one. y -= mean on an array of your own saves one; np.einsum('ij,ij->i', d, d) "
    "sums squares without an array for them.",
    "float64 constants or parameters turn everything into float64, which takes twice the memory.",
)
ROWS, FEATURES = 2048, 64
# A right answer with twice the memory traffic takes 3 times as long; a loop over rows 100 times.
LIMIT = 6.0
RACE_SECONDS, RACE_LIMIT_SECONDS = 0.5, 20.0
# Above this for 1/16 of the rows, the whole input would only waste time.
PATIENCE_SECONDS = 1.0
LOOPS = (ast.For, ast.While, ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)
HIDDEN_LOOPS = {"vectorize", "apply_along_axis", "apply_over_axes", "frompyfunc", "fromiter"}


def check(function: Any, notes: Notes) -> None:
    learner = Learner(notes)
    case = rows_case(5, 7)
    y = learner.array("fast_layer_norm", function, case.x, case.gamma, case.beta, case.eps, shape=case.x.shape)
    judge(y, case, notes, within=SINGLE)
    large = large_case(ROWS)
    few = large_case(ROWS // 16)
    if time_of_few(learner, function, few) > PATIENCE_SECONDS:
        raise slow(function, notes, "128 rows of 64 features take over a second.")
    y = learner.array("fast_layer_norm", function, large.x, large.gamma, large.beta, large.eps, shape=large.x.shape)
    judge_dtype(y, large.x, notes)
    far = distance(y.astype(np.float64), large.expected)
    if far > SINGLE:
        notes.wrong(
            "precision", f"For float32 input, the result differs by {far:.1g}, relative to its largest element."
        )
    if uses_package(function):
        notes.wrong("uses-the-package", "The function calls this package. Write it with NumPy or PyTorch.")
    judge_times(times(function, large, notes), function, notes)


def large_case(rows: int) -> Case:
    gamma, beta = (array.astype(np.float32) for array in parameters(31, FEATURES))
    return Case(draw(32, rows, FEATURES).astype(np.float32), gamma, beta, 1e-5, ROW_AXES)


def time_of_few(learner: Learner, function: Any, few: Case) -> float:
    """The time of one call in seconds, which is bounded."""
    start = time.perf_counter()
    learner.call("fast_layer_norm", function, few.x, few.gamma, few.beta, few.eps)
    return time.perf_counter() - start


def times(function: Any, case: Case, notes: Notes) -> dict[str, float]:
    """The best times per call in seconds, by name. They take turns, so that noise affects all of them alike."""
    x, gamma, beta, eps = case.x, case.gamma, case.beta, case.eps

    def formula() -> Any:
        return gamma * (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + np.float32(eps)) + beta

    norms = {
        "yours": lambda: function(x, gamma, beta, eps),
        "the formula in NumPy": formula,
        "layernorm.layer_norm": lambda: layernorm.layer_norm(x, FEATURES, gamma, beta, eps),
    }
    torch = find_torch()
    if torch is not None:
        tensors = [torch.from_numpy(array) for array in (x, gamma, beta)]
        norms["torch.nn.functional.layer_norm"] = lambda: torch.nn.functional.layer_norm(
            tensors[0], (FEATURES,), tensors[1], tensors[2], eps
        )
    try:
        found = bounded(lambda: race(norms, RACE_SECONDS), RACE_LIMIT_SECONDS)
    except TimedOut:
        raise slow(
            function, notes, f"A few calls with 2048 rows did not end within {RACE_LIMIT_SECONDS:.0f} s."
        ) from None
    except Exception as error:
        notes.add(explained(error, "fast_layer_norm(float32 [2048, 64], …)"))
        raise Stop from None
    best: dict[str, float] = found
    return best


def judge_times(best: dict[str, float], function: Any, notes: Notes) -> None:
    formula = best["the formula in NumPy"]
    notes.details.append(f"best times for {ROWS} rows of {FEATURES} features, float32:")
    for name, seconds in best.items():
        notes.details.append(f"  {name:31} {1e3 * seconds:9.3f} ms   {seconds / formula:7.2f} times the formula's")
    ratio = best["yours"] / formula
    if ratio > LIMIT:
        slow(
            function,
            notes,
            f"It takes {ratio:.0f} times as long as the formula in NumPy; at most {LIMIT:.0f} are allowed.",
        )


def slow(function: Any, notes: Notes, measured: str) -> Stop:
    """Notes that a function is slow, and the loop in its source if there is one."""
    line, what = loop_of(function)
    if what:
        return notes.stop(
            "python-loop",
            f"{measured} Replace the loop in Python ({what}) by expressions over all rows: axis=-1.",
            line,
        )
    return notes.stop(
        "slow", f"{measured} No loop is in its own source; look at what it calls, and at copies and conversions."
    )


def tree_of(function: Any) -> tuple[ast.AST | None, int]:
    """The syntax tree of a function and the line before its first one; None if there is no source."""
    try:
        lines, first = inspect.getsourcelines(function)
        return ast.parse(textwrap.dedent("".join(lines))), first - 1
    except (OSError, TypeError, SyntaxError):
        return None, 0


def loop_of(function: Any) -> tuple[int | None, str]:
    """The line of the first loop in a function, and what kind it is."""
    tree, before = tree_of(function)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, LOOPS):
            kind = {"For": "for", "While": "while"}.get(type(node).__name__, "a comprehension")
            return before + node.lineno, kind
        if isinstance(node, ast.Attribute) and node.attr in HIDDEN_LOOPS:
            return before + node.lineno, f"np.{node.attr}"
    return None, ""


def uses_package(function: Any) -> bool:
    """Whether a function's source names this package."""
    tree, _ = tree_of(function)
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} if tree is not None else set()
    return "layernorm" in names


EXERCISE = Exercise(
    5, "Speed of implementations", "fast_layer_norm", TASK, TEMPLATE, HINTS, check, Solution(fast_layer_norm)
)
