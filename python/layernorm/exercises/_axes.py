"""Exercise 4: layer norm of arrays with three and four axes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ._call import Learner
from ._cases import EPS, EXACT, compare_libraries, draw, judge, judge_dtype, parameters
from ._recipes import Axes, Case, Mistake, distance, mistake
from ._solutions import layer_norm_axes
from ._types import Exercise, Notes, Solution, Stop

TASK = """
Write layer norm for arrays with any number of axes. As in PyTorch, normalized_shape is the shape of the trailing axes that are normalized
together, and the shape of γ and β:

    text         x [batch, time, features]             normalized_shape (features,): one mean for each word
    images       x [batch, channels, height, width]    normalized_shape (channels, height, width): one mean for each image

No sample may influence another: the result for x[:1] is the first sample of the result for x.
"""
TEMPLATE = '''
def layer_norm_axes(x, normalized_shape, gamma, beta, eps=1e-5):
    """Layer norm over the trailing axes of x, whose shape is normalized_shape, as are those of gamma and beta."""
    raise NotImplementedError
'''.lstrip()
HINTS = (
    "mean and var take a tuple of axes: x.mean(axis=(-2, -1), keepdims=True).",
    "If normalized_shape has k numbers, the axes are the last k: tuple(range(x.ndim - k, x.ndim)).",
    "γ and β have the shape of the trailing axes, so they broadcast against x as they are.",
)
# Shapes of x and numbers of trailing axes. No two sizes of one shape are alike, so that no mistake broadcasts by chance.
SHAPES = (((4, 6), 1), ((2, 3, 5), 1), ((2, 4, 3), 2), ((2, 3, 4, 5), 3), ((2, 3, 4, 5), 1), ((2, 3, 5, 4), 2))


def subsets(ndim: int, right: Axes) -> tuple[dict[str, Axes], tuple[Mistake, ...]]:
    """All sets of axes by name, and each wrong one as a mistake."""
    named: dict[str, Axes] = {"right": right}
    mistakes = []
    for count in range(1, ndim + 1):
        for axes in itertools.combinations(range(ndim), count):
            if axes != right:
                named[str(axes)] = axes
                mistakes.append(mistake("axes", str(axes), *described(axes, right, ndim)))
    return named, tuple(mistakes)


def described(axes: Axes, right: Axes, ndim: int) -> tuple[str, str]:
    """The name of a mistake about axes and what to say about it."""
    where = f"With an input of {ndim} axes, mean and variance are taken over the axes {axes}; expected {right}."
    if len(axes) == ndim:
        return "whole-array", f"{where} Samples share one mean: the result of one depends on the others in its batch."
    if 0 in axes:
        return "batch-axis", f"{where} Axis 0 is the batch: averaging over it is batch norm."
    if set(axes) < set(right):
        return "too-few-axes", f"{where} All axes of normalized_shape are normalized together, not only some."
    if set(axes) > set(right):
        return "too-many-axes", f"{where} Only the axes of normalized_shape are normalized together."
    return "wrong-axes", f"{where} normalized_shape stands for the last axes of x."


def case_of(shape: tuple[int, ...], count: int, dtype: str = "float64") -> Case:
    spread = np.geomspace(0.1, 2, int(np.prod(shape[:-count]))).reshape(shape[:-count] + (1,) * count)
    x = draw(21, *shape[:-count]).reshape(spread.shape) + spread * draw(22, *shape)
    gamma, beta = parameters(23, *shape[-count:])
    axes, mistakes = subsets(len(shape), tuple(range(len(shape) - count, len(shape))))
    return Case(x.astype(dtype), gamma.astype(dtype), beta.astype(dtype), EPS, axes, mistakes)


def check(function: Any, notes: Notes) -> None:
    learner = Learner(notes)
    for shape, count in SHAPES:
        case = case_of(shape, count)
        y = call(learner, function, case, case.x)
        check_reshaped(y, case, notes)
        judge(y, case, notes)
    check_samples(learner, function, notes)
    check_strides(learner, function, notes)
    case = case_of((4, 3, 8, 6), 3, "float32")
    y = call(learner, function, case, case.x)
    judge_dtype(y, case.x, notes)
    if notes.clean:
        compare_libraries(y, case, notes, 3)


def call(learner: Learner, function: Any, case: Case, x: np.ndarray) -> np.ndarray:
    arguments = (x, case.gamma.shape, case.gamma, case.beta, case.eps)
    return learner.array("layer_norm_axes", function, *arguments, shape=x.shape)


def check_reshaped(y: np.ndarray, case: Case, notes: Notes) -> None:
    """x.reshape(N, rows), whose columns are not the rows of x."""
    columns = case.x.reshape(case.gamma.size, -1)
    with np.errstate(all="ignore"):
        z = (columns - columns.mean(0)) / np.sqrt(columns.var(0) + case.eps)
    suspect = case.gamma * z.reshape(case.x.shape) + case.beta
    if distance(y.astype(np.float64), suspect) < EXACT:
        notes.wrong(
            "reshape-order",
            "x was reshaped to [features, rows] and normalized by columns. reshape keeps the order of the elements, so a column mixes "
            "several samples. Use x.reshape(-1, features), or a tuple of axes.",
        )
        raise Stop


def check_samples(learner: Learner, function: Any, notes: Notes) -> None:
    case = case_of((2, 3, 4, 5), 3)
    whole, one = call(learner, function, case, case.x), call(learner, function, case, case.x[:1])
    if distance(one.astype(np.float64), whole[:1].astype(np.float64)) > EXACT:
        notes.wrong("batch-dependence", "The result of a sample changes when it is alone in its batch.")


def check_strides(learner: Learner, function: Any, notes: Notes) -> None:
    """A transposed view, as attention makes them."""
    case = case_of((2, 3, 5), 1)
    view = np.ascontiguousarray(case.x.transpose(2, 0, 1)).transpose(1, 2, 0)
    y = call(learner, function, case, view)
    if distance(y.astype(np.float64), case.expected) > 1e-6:
        notes.wrong(
            "strides", "Wrong for a transposed view (x.transpose(…)), although its values are the same as before."
        )


EXERCISE = Exercise(
    4, "Arrays with three and four axes", "layer_norm_axes", TASK, TEMPLATE, HINTS, check, Solution(layer_norm_axes)
)
