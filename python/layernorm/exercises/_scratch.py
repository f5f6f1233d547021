"""Exercise 1: layer norm from scratch, against a library."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._call import Learner
from ._cases import (
    ROW_AXES,
    SINGLE,
    check_keepdims,
    compare_libraries,
    draw,
    error_of,
    judge,
    judge_dtype,
    parameters,
    rows_case,
)
from ._recipes import Case, distance
from ._solutions import layer_norm
from ._types import Exercise, Notes, Solution

TASK = """
Write layer norm for a matrix x [rows, features]. Each row is one sample. With N features,

    μ = (1/N) Σ xᵢ        σ² = (1/N) Σ (xᵢ - μ)²        yᵢ = γᵢ (xᵢ - μ)/√(σ² + ε) + βᵢ

μ and σ² belong to one row; γ and β [features] are shared by all rows. Return a new array of x's shape and type; x keeps its values.
The check compares your results with the formula in float64, with layernorm.layer_norm and, where it is installed, with PyTorch.
"""
TEMPLATE = '''
def layer_norm(x, gamma, beta, eps=1e-5):
    """Layer norm of the rows of x [rows, features]; gamma and beta are [features]."""
    raise NotImplementedError
'''.lstrip()
HINTS = (
    "x.mean(axis=-1) averages over the features of each row. Its shape is [rows]; what shape would broadcast against [rows, features]?",
    "keepdims=True keeps the axis with length 1: x.mean(axis=-1, keepdims=True) has shape [rows, 1].",
    "x.var(axis=-1, keepdims=True) divides by N, as the formula does. ε is added to it before the root.",
)


def check(function: Any, notes: Notes) -> None:
    learner = Learner(notes)
    case = rows_case(5, 7)
    y = learner.array("layer_norm", function, case.x, case.gamma, case.beta, case.eps, shape=case.x.shape)
    judge(y, case, notes)
    check_keepdims(learner, "layer_norm", function)
    check_default_eps(learner, function, notes)
    check_edges(learner, function, notes)
    check_single(learner, function, notes)


def check_default_eps(learner: Learner, function: Any, notes: Notes) -> None:
    case = rows_case(5, 7, eps=1e-5)
    y = learner.array("layer_norm", function, case.x, case.gamma, case.beta, shape=case.x.shape)
    # Another ε changes rows with small spreads by far more.
    if distance(y.astype(np.float64), case.expected) > 1e-3:
        notes.wrong(
            "default-eps",
            "Without the argument eps, the result is not that of eps = 1e-5, the default of the signature.",
        )


def check_edges(learner: Learner, function: Any, notes: Notes) -> None:
    """A batch of one, a constant row, a single feature."""
    edges = {
        "one-row": ("a single row (a batch of one)", draw(3, 1, 7)),
        "constant-row": ("a row of equal numbers (variance 0), for which x̂ is 0 and y is β", np.full((2, 7), 2.5)),
        "one-feature": ("a single feature, for which x̂ is 0 and y is β", draw(4, 3, 1)),
    }
    for name, (what, x) in edges.items():
        gamma, beta = parameters(5, x.shape[1])
        case = Case(x, gamma, beta, 1e-5, ROW_AXES)
        y = learner.array("layer_norm", function, x, gamma, beta, 1e-5, shape=x.shape)
        if distance(y.astype(np.float64), case.expected) > SINGLE:
            notes.wrong(name, f"Wrong for {what}: found {y[0, 0]:.6g} at [0, 0], expected {case.expected[0, 0]:.6g}.")


def check_single(learner: Learner, function: Any, notes: Notes) -> None:
    """float32: the type of the result, its accuracy, and advice about large means."""
    x = draw(6, 32, 64).astype(np.float32)
    gamma, beta = (array.astype(np.float32) for array in parameters(7, 64))
    case = Case(x, gamma, beta, 1e-5, ROW_AXES)
    y = learner.array("layer_norm", function, x, gamma, beta, 1e-5, shape=x.shape)
    judge_dtype(y, x, notes)
    far = distance(y.astype(np.float64), case.expected)
    if far > SINGLE:
        notes.wrong(
            "precision", f"For float32 input, the result differs by {far:.1g}, relative to its largest element."
        )
    far_out = Case((x + np.float32(1000)).astype(np.float32), np.ones_like(gamma), np.zeros_like(beta), 1e-5, ROW_AXES)
    z = learner.array("layer_norm", function, far_out.x, far_out.gamma, far_out.beta, 1e-5, shape=x.shape)
    error = error_of(z, far_out)
    if error > 1e-2:
        notes.advice(
            "cancellation",
            f"For float32 rows with mean 1000 and standard deviation 1, the result is off by up to {error:.2g}. E[x²] - E[x]² is the "
            "difference of two large numbers and loses most digits; average (x - mean)² instead. Exercise 2 asks for this.",
        )
    if notes.clean:
        compare_libraries(y, case, notes)


EXERCISE = Exercise(1, "Layer norm from scratch", "layer_norm", TASK, TEMPLATE, HINTS, check, Solution(layer_norm))
