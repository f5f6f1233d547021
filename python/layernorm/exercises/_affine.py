"""Exercise 3: γ and β at the start and in training."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

import layernorm

from ._call import Learner, as_array
from ._cases import MATCHES_IN_SINGLE, draw, judge, parameters, rows_case
from ._recipes import WITHOUT_AFFINE, Case, distance
from ._solutions import LayerNorm
from ._types import Exercise, Notes, Solution, Stop

TASK = """
Write layer norm as a layer that can be trained, in float64:

    LayerNorm(features)   has the attributes gamma and beta [features], with the values a new layer has
    forward(x)            returns y = γ x̂ + β for x [rows, features], with x̂ = (x - μ)/√(σ² + ε)
    backward(dy)          takes ∂L/∂y of the last forward pass, returns ∂L/∂x, and sets dgamma = ∂L/∂γ and dbeta = ∂L/∂β [features]
    step(learning_rate)   makes one step of gradient descent on γ and β

At the start the layer must not change the distribution of x̂. μ and σ² depend on x, so ∂L/∂x has three terms. Derive it, or
see the hints. The check compares the gradients with float64 formulas and with layernorm.layer_norm_backward.
"""
TEMPLATE = '''
class LayerNorm:
    def __init__(self, features, eps=1e-5):
        raise NotImplementedError

    def forward(self, x):
        """Returns y [rows, features] and keeps what backward needs."""
        raise NotImplementedError

    def backward(self, dy):
        """Returns dx [rows, features]; sets self.dgamma and self.dbeta [features]."""
        raise NotImplementedError

    def step(self, learning_rate):
        """One step of gradient descent."""
        raise NotImplementedError
'''.lstrip()
HINTS = (
    "At the start, γ = 1 and β = 0: y is x̂.",
    "γ and β are shared by all rows, so their gradients are sums over the rows: dbeta = Σ dy, dgamma = Σ dy·x̂.",
    "With g = dy·γ: if μ and σ² were constants, ∂L/∂x would be g/σ. Each xᵢ also moves μ, and σ².",
    "∂L/∂x = (g - mean(g) - x̂·mean(g·x̂))/√(σ² + ε), with means over the features of each row.",
)
ROWS, FEATURES = 5, 7


@dataclass(frozen=True)
class Truth:
    """One forward and backward pass in float64."""

    case: Case
    dy: np.ndarray

    @property
    def rstd(self) -> np.ndarray:
        return 1 / np.sqrt(self.case.x.var(-1, keepdims=True) + self.case.eps)

    @property
    def normalized(self) -> np.ndarray:
        return (self.case.x - self.case.x.mean(-1, keepdims=True)) * self.rstd

    def dx(
        self, mean: bool = True, var: bool = True, gamma: bool = True, rstd: bool = True, axis: int = -1
    ) -> np.ndarray:
        """The gradient of x; an argument that is False leaves that part out."""
        g = self.dy * self.case.gamma if gamma else self.dy
        d = g.copy()
        if mean:
            d = d - g.mean(axis, keepdims=True)
        if var:
            d = d - self.normalized * (g * self.normalized).mean(axis, keepdims=True)
        return d * self.rstd if rstd else d


# What an argument of Truth.dx that is False means.
DX_MISTAKES = {
    "mean": (
        "no-mean-gradient",
        "∂L/∂x lacks the path through the mean: every xᵢ moves μ, which gives the term - mean(g), with g = dy·γ.",
    ),
    "var": (
        "no-variance-gradient",
        "∂L/∂x lacks the path through the variance: every xᵢ moves σ², which gives the term - x̂·mean(g·x̂), with g = dy·γ.",
    ),
    "gamma": ("gradient-without-gamma", "∂L/∂x lacks γ: the gradient that reaches x̂ is g = dy·γ."),
    "rstd": ("gradient-not-divided", "∂L/∂x lacks the division by √(σ² + ε)."),
}


def check(function: Any, notes: Notes) -> None:
    learner = Learner(notes)
    layer = learner.call("LayerNorm", function, FEATURES, 0.1)
    check_methods(layer, notes)
    check_start(learner, function, layer, notes)
    truth = check_forward(learner, layer, notes)
    check_backward(learner, layer, truth, notes)
    check_step(learner, layer, notes)
    if notes.clean:
        check_training(learner, function, notes)


def check_methods(layer: Any, notes: Notes) -> None:
    missing = [name for name in ("forward", "backward", "step") if not callable(getattr(layer, name, None))]
    missing += [name for name in ("gamma", "beta") if not hasattr(layer, name)]
    if missing:
        raise notes.stop(
            "missing-attributes", f"LayerNorm(7) of type {type(layer).__name__} lacks {', '.join(missing)}."
        )


def parameter(layer: Any, name: str, notes: Notes) -> np.ndarray:
    return as_array(getattr(layer, name, None), f"the attribute {name} is", (FEATURES,), notes)


def check_start(learner: Learner, function: Any, layer: Any, notes: Notes) -> None:
    gamma, beta = parameter(layer, "gamma", notes), parameter(layer, "beta", notes)
    if not np.array_equal(gamma, np.ones(FEATURES)):
        effect = (
            "every output is 0, and no gradient reaches x" if not gamma.any() else "the outputs do not have variance 1"
        )
        notes.wrong(
            "gamma-start", f"γ starts as {brief(gamma)}; expected 1 for every feature. With these values, {effect}."
        )
    if not np.array_equal(beta, np.zeros(FEATURES)):
        notes.wrong("beta-start", f"β starts as {brief(beta)}; expected 0 for every feature, so that y has mean 0.")
    other = learner.call("LayerNorm", function, FEATURES, 0.1)
    if any(np.shares_memory(getattr(other, name), getattr(layer, name)) for name in ("gamma", "beta")):
        notes.wrong(
            "shared-parameters",
            "Two layers share one array of parameters. Create γ and β in __init__, as self.gamma and self.beta.",
        )
    if not notes.clean:
        raise Stop


def brief(array: np.ndarray) -> str:
    """The values of an array, or the one value that all have."""
    if (array == array.flat[0]).all():
        return f"{array.flat[0]:.4g}"
    return np.array2string(array, precision=3, threshold=4, edgeitems=2)


def set_parameters(layer: Any, gamma: np.ndarray, beta: np.ndarray, notes: Notes) -> None:
    try:
        layer.gamma, layer.beta = gamma.copy(), beta.copy()
    except AttributeError as error:
        raise notes.stop("read-only", f"gamma and beta of a layer cannot be set: {error}") from None


def check_forward(learner: Learner, layer: Any, notes: Notes) -> Truth:
    start = rows_case(ROWS, FEATURES, affine=False)
    y = learner.array("forward", layer.forward, start.x, shape=start.x.shape)
    judge(y, start, notes, WITHOUT_AFFINE)
    case = rows_case(ROWS, FEATURES)
    set_parameters(layer, case.gamma, case.beta, notes)
    y = learner.array("forward", layer.forward, case.x, shape=case.x.shape)
    judge(y, case, notes)
    return Truth(case, draw(11, ROWS, FEATURES))


def check_backward(learner: Learner, layer: Any, truth: Truth, notes: Notes) -> None:
    dx = learner.array("backward", layer.backward, truth.dy, shape=truth.dy.shape)
    judge_dx(dx, truth, notes)
    found = {}
    for name in ("dgamma", "dbeta"):
        value = getattr(layer, name, None)
        if isinstance(value, np.ndarray) and value.shape == truth.dy.shape:
            notes.wrong(
                f"{name}-not-summed",
                f"{name} has shape {list(value.shape)}. All rows share the parameter: sum over the rows, axis=0, to [{FEATURES}].",
            )
            continue
        found[name] = as_array(value, f"after backward, the attribute {name} is", (FEATURES,), notes).copy()
        judge_parameter(name, found[name], truth, notes)
    learner.call("backward", layer.backward, truth.dy)
    for name, once in found.items():
        if not np.allclose(getattr(layer, name), once):
            notes.wrong(
                "gradients-accumulate",
                f"A second call of backward changes {name}: set it, instead of adding to its old value.",
            )


def judge_dx(dx: np.ndarray, truth: Truth, notes: Notes) -> None:
    if distance(dx, truth.dx()) <= MATCHES_IN_SINGLE:
        return
    for count in range(1, len(DX_MISTAKES) + 1):
        for parts in itertools.combinations(DX_MISTAKES, count):
            if distance(dx, truth.dx(**dict.fromkeys(parts, False))) < MATCHES_IN_SINGLE:
                for part in parts:
                    notes.wrong(*DX_MISTAKES[part])
                return
    if distance(dx, truth.dx(axis=0)) < MATCHES_IN_SINGLE:
        notes.wrong(
            "gradient-wrong-axis",
            "The means in ∂L/∂x are over the rows. They are over the features of each row: axis=-1.",
        )
    elif distance(dx, -truth.dx()) < MATCHES_IN_SINGLE:
        notes.wrong("gradient-sign", "∂L/∂x has the wrong sign.")
    else:
        expected = truth.dx()
        where = tuple(map(int, np.unravel_index(np.argmax(np.abs(dx - expected)), dx.shape)))
        notes.wrong(
            "wrong-gradient",
            f"∂L/∂x is wrong, in a way that this check does not know: found {dx[where]:.6g} at {list(where)}, expected "
            f"{expected[where]:.6g}. Its rows must have mean 0, because adding a number to a row of x does not change y; "
            f"yours have means of up to {np.abs(dx.mean(-1)).max():.3g}.",
        )


def judge_parameter(name: str, found: np.ndarray, truth: Truth, notes: Notes) -> None:
    """Notes what is wrong with dgamma or dbeta."""
    dy, normalized = truth.dy, truth.normalized
    terms = dy * normalized if name == "dgamma" else dy
    formula = "Σ dy·x̂ over the rows" if name == "dgamma" else "Σ dy over the rows"
    if distance(found, terms.sum(0)) <= MATCHES_IN_SINGLE:
        return
    suspects = [
        ("averaged", "is the mean over the rows, not the sum", terms.mean(0)),
        ("with-gamma", "contains the factor γ, which belongs only to ∂L/∂x", (terms * truth.case.gamma).sum(0)),
        ("sign", "has the wrong sign", -terms.sum(0)),
    ]
    if name == "dgamma":
        y = truth.case.expected
        suspects += [
            ("without-x-hat", "lacks x̂: ∂y/∂γ is x̂", dy.sum(0)),
            ("with-x", "uses x: ∂y/∂γ is x̂, the normalized x", (dy * truth.case.x).sum(0)),
            ("with-y", "uses y: ∂y/∂γ is x̂, without γ and β", (dy * y).sum(0)),
        ]
    for suffix, message, value in suspects:
        if distance(found, value) < MATCHES_IN_SINGLE:
            notes.wrong(f"{name}-{suffix}", f"{name} {message}. Expected {formula}.")
            return
    notes.wrong(f"{name}-wrong", f"{name} starts with {found[0]:.6g}, expected {terms.sum(0)[0]:.6g}: {formula}.")


def check_step(learner: Learner, layer: Any, notes: Notes) -> None:
    if not notes.clean:
        raise Stop
    rate = 0.1
    before = {name: parameter(layer, name, notes).copy() for name in ("gamma", "beta")}
    learner.call("step", layer.step, rate)
    for name, old in before.items():
        gradient = getattr(layer, f"d{name}")
        change = parameter(layer, name, notes) - old
        if np.allclose(change, -rate * gradient, rtol=1e-6, atol=1e-9):
            continue
        if not change.any():
            notes.wrong(f"{name}-not-trained", f"step does not change {name}: {name} -= learning_rate * d{name}.")
        elif np.allclose(change, rate * gradient, rtol=1e-6, atol=1e-9):
            notes.wrong("ascent", f"step adds the gradient to {name}, which increases the loss. Subtract it.")
        else:
            notes.wrong(
                "wrong-step",
                f"step({rate}) changes {name}[0] by {change[0]:.4g}, expected {-rate * gradient[0]:.4g}: -learning_rate·d{name}.",
            )


def check_training(learner: Learner, function: Any, notes: Notes) -> None:
    """Training γ and β alone to given outputs, and the library's gradients."""
    x, dy = draw(12, 64, FEATURES), draw(13, 64, FEATURES)
    layer = learner.call("LayerNorm", function, FEATURES)
    goal = Case(x, *parameters(14, FEATURES), 1e-5, {"right": (1,)}).expected
    losses = []
    for _ in range(60):
        error = learner.array("forward", layer.forward, x, shape=x.shape) - goal
        losses.append(float((error * error).mean()))
        learner.call("backward", layer.backward, 2 * error / len(x))
        learner.call("step", layer.step, 0.2)
    notes.details.append(f"training γ and β: the loss falls from {losses[0]:.3g} to {losses[-1]:.3g} in 60 steps")
    if losses[-1] > 1e-3 * losses[0]:
        notes.wrong(
            "does-not-learn",
            f"In 60 steps, the loss goes from {losses[0]:.3g} to {losses[-1]:.3g}; expected less than 0.1 % of it.",
        )
        return
    learner.call("forward", layer.forward, x)
    dx = learner.call("backward", layer.backward, dy)
    ours = layernorm.layer_norm_backward(dy, x, None, layer.gamma, layer.beta)
    far = max(
        np.abs(dx - ours.x).max(), np.abs(layer.dgamma - ours.weight).max(), np.abs(layer.dbeta - ours.bias).max()
    )
    notes.details.append(f"largest difference of the gradients from layernorm.layer_norm_backward: {far:.1g}")


EXERCISE = Exercise(
    3, "γ and β at the start and in training", "LayerNorm", TASK, TEMPLATE, HINTS, check, Solution(LayerNorm)
)
