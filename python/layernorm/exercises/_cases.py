"""Inputs of the checks, and what several checks ask of a result."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import numpy as np

import layernorm

from ._call import Learner
from ._recipes import ALL_PARTS, Axes, Case, distance, explain, mistake, unexplained
from ._types import Notes, Stop

# float64 results on ordinary inputs: a few hundred roundings of 1e-16.
EXACT = 1e-10
# float32 results on ordinary inputs, for any order of the sums of up to 100 elements: 100 roundings of 6e-8.
SINGLE = 1e-5
# Large enough that it matters where ε is added.
EPS = 0.1

ROW_AXES: dict[str, Axes] = {"right": (1,), "columns": (0,), "all": (0, 1)}
WRONG_ROW_AXES = (
    mistake(
        "axes",
        "columns",
        "wrong-axis",
        "Mean and variance are those of the columns (axis 0): one feature over all samples, which is batch norm. Layer norm uses "
        "the features of one sample: axis=-1.",
    ),
    mistake(
        "axes",
        "all",
        "whole-array",
        "There is one mean and one variance for the whole array. Layer norm has one of each for every row: axis=-1, keepdims=True.",
    ),
)


def draw(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def parameters(seed: int, *shape: int) -> tuple[np.ndarray, np.ndarray]:
    """A γ and a β that are neither 1 and 0, nor alike."""
    return 1.5 + 0.5 * draw(seed, *shape), 1.0 + draw(seed + 1, *shape)


def rows_case(rows: int, features: int, eps: float = EPS, affine: bool = True, dtype: str = "float64") -> Case:
    """Rows with different means and spreads; one spread is so small that every way to use ε gives another result."""
    spreads = np.geomspace(0.003, 3, rows)[:, None]
    x = (np.linspace(-2, 3, rows)[:, None] + spreads * draw(1, rows, features)).astype(dtype)
    gamma, beta = parameters(2, features) if affine else (np.ones(features), np.zeros(features))
    return Case(x, gamma.astype(dtype), beta.astype(dtype), eps, ROW_AXES, WRONG_ROW_AXES)


def judge(y: np.ndarray, case: Case, notes: Notes, parts: frozenset[str] = ALL_PARTS, within: float = EXACT) -> None:
    """Notes what is wrong with a float64 result; raises Stop if something is."""
    expected = case.expected
    far = distance(y.astype(np.float64), expected)
    if far <= within:
        return
    if far < MATCHES_IN_SINGLE:
        notes.wrong(
            "precision",
            f"For float64 input, the result has only float32's accuracy: it differs by {far:.1g}, relative to its largest "
            "element. Do not convert float64 arrays to float32.",
        )
        return
    findings = explain(y, case, parts) or (unexplained(y.astype(np.float64), expected),)
    for finding in findings:
        notes.add(finding)
    raise Stop


# A float64 result with such an error was computed in float32.
MATCHES_IN_SINGLE = 2e-6


def judge_dtype(y: np.ndarray, x: np.ndarray, notes: Notes) -> None:
    """Notes a result whose type is not the input's."""
    if y.dtype != x.dtype:
        notes.wrong(
            "wrong-dtype",
            f"The result is {y.dtype} for {x.dtype} input. Somewhere {y.dtype} arrays take part: return y.astype(x.dtype).",
        )


def check_keepdims(learner: Learner, name: str, function: Any) -> None:
    """A square input: there, a mean of shape [rows] is subtracted without an error, from the wrong elements."""
    case = rows_case(6, 6)
    y = learner.array(name, function, case.x, case.gamma, case.beta, case.eps, shape=case.x.shape)
    if distance(y.astype(np.float64), case.expected) > MATCHES_IN_SINGLE:
        learner.notes.wrong(
            "keepdims",
            "Right for a [5, 7] input, wrong for a [6, 6] one: there, a mean of shape [rows] fits the columns and is subtracted from the wrong "
            "elements. Use keepdims=True, which makes it [rows, 1].",
        )
        raise Stop


def libraries(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, eps: float, count: int = 1) -> dict[str, np.ndarray]:
    """Layer norm over the last ``count`` axes by this package and, where it is installed, PyTorch."""
    shape = x.shape[x.ndim - count :]
    found = {"layernorm.layer_norm": layernorm.layer_norm(x, shape, gamma, beta, eps)}
    torch = find_torch()
    if torch is not None:
        tensors = [torch.from_numpy(np.ascontiguousarray(array)) for array in (x, gamma, beta)]
        y = torch.nn.functional.layer_norm(tensors[0], shape, tensors[1], tensors[2], eps)
        found["torch.nn.functional.layer_norm"] = y.numpy()
    return found


def find_torch() -> Any:
    """PyTorch, or None. A broken one counts as none."""
    if importlib.util.find_spec("torch") is None:
        return None
    try:
        return importlib.import_module("torch")
    except (ImportError, OSError):
        return None


def compare_libraries(y: np.ndarray, case: Case, notes: Notes, count: int = 1) -> None:
    """Adds to the details how far the result is from those of libraries."""
    others = libraries(case.x, case.gamma, case.beta, case.eps, count)
    far = [f"{name} {np.abs(y.astype(np.float64) - other).max():.1g}" for name, other in others.items()]
    notes.details.append(f"largest difference, {case.x.dtype} {list(case.x.shape)}: " + ", ".join(far))


def one_pass(x: np.ndarray, eps: float) -> np.ndarray:
    """The textbook shortcut E[x²] - E[x]², in the type of x."""
    mean = x.mean(-1, keepdims=True)
    var = (x * x).mean(-1, keepdims=True) - mean * mean
    with np.errstate(all="ignore"):
        return (x - mean) / np.sqrt(var + x.dtype.type(eps))


def error_of(y: np.ndarray, case: Case) -> float:
    """The largest absolute error, infinite if an element is not finite."""
    y = y.astype(np.float64)
    return float(np.abs(y - case.expected).max()) if np.isfinite(y).all() else np.inf
