"""Layer norm with mistakes: which of them explain a wrong result?

A recipe is layer norm in float64 with some of its parts replaced by typical mistakes. A result is compared with the recipes of one
mistake, then of two and of three; the first that reproduces it names what is wrong.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from ._types import Finding

# A recipe explains a result that differs by less than this, relative to the largest element.
MATCH = 1e-4
MOST_MISTAKES = 3
DEFAULT_EPS = 1e-5

Axes = tuple[int, ...]


@dataclass(frozen=True)
class Recipe:
    """How each part of layer norm is computed; the defaults are right."""

    axes: str = "right"
    center: str = "mean"
    count: str = "N"
    scale: str = "root"
    eps: str = "inside"
    affine: str = "both"


@dataclass(frozen=True)
class Mistake:
    """One replaced part of a recipe."""

    part: str
    value: str
    finding: Finding


def mistake(part: str, value: str, name: str, message: str) -> Mistake:
    return Mistake(part, value, Finding(name, message))


MISTAKES = (
    mistake(
        "count",
        "N-1",
        "unbiased-variance",
        "The variance divides by N - 1. Layer norm divides by N (the biased variance): x.var(axis=-1), NumPy's default; torch.var "
        "needs correction=0.",
    ),
    mistake(
        "eps",
        "outside",
        "eps-outside-root",
        "ε is added to the standard deviation: (x - mean)/(sqrt(var) + ε). It belongs inside the root: (x - mean)/sqrt(var + ε).",
    ),
    mistake(
        "eps",
        "none",
        "no-eps",
        "ε has no effect. Divide by sqrt(var + ε): without ε, a row of equal numbers is 0/0.",
    ),
    mistake(
        "eps",
        "default",
        "eps-ignored",
        "The argument eps has no effect: a fixed 1e-5 is used instead. Use the eps that the caller passes.",
    ),
    mistake(
        "eps",
        "floor",
        "eps-as-floor",
        "ε is a lower limit: max(var, ε). Layer norm adds it: sqrt(var + ε), for every row.",
    ),
    mistake(
        "eps",
        "root-floor",
        "eps-as-floor",
        "ε is a lower limit: max(σ, ε). Layer norm adds it: sqrt(var + ε), for every row.",
    ),
    mistake(
        "scale",
        "variance",
        "variance-not-root",
        "x - mean is divided by the variance. Divide by the standard deviation, its square root: sqrt(var + ε).",
    ),
    mistake("scale", "none", "not-divided", "Only the mean is subtracted. Divide by sqrt(var + ε) as well."),
    mistake(
        "scale",
        "sum",
        "sum-of-squares",
        "The squares of x - mean are summed, not averaged. The variance is their mean: divide the sum by N.",
    ),
    mistake(
        "scale",
        "deviation",
        "mean-absolute-deviation",
        "x - mean is divided by the mean of |x - mean|. Divide by sqrt(var + ε), with var the mean of (x - mean)².",
    ),
    mistake("center", "none", "mean-not-subtracted", "The mean is not subtracted from x: the numerator is x - mean."),
    mistake(
        "center",
        "rms",
        "rms-norm",
        "This is RMS norm, x/sqrt(mean(x²) + ε): neither the numerator nor the variance subtracts the mean. Subtract it from x first.",
    ),
    mistake(
        "affine",
        "none",
        "no-gamma-no-beta",
        "γ and β have no effect. The result is γ·x̂ + β, with x̂ = (x - mean)/sqrt(var + ε).",
    ),
    mistake("affine", "gamma", "no-beta", "β has no effect. The result is γ·x̂ + β."),
    mistake("affine", "beta", "no-gamma", "γ has no effect. The result is γ·x̂ + β."),
    mistake(
        "affine",
        "beta-first",
        "beta-before-gamma",
        "β is added before the multiplication: γ·(x̂ + β). The result is γ·x̂ + β.",
    ),
    mistake(
        "affine", "swapped", "gamma-beta-swapped", "γ and β have each other's roles: β·x̂ + γ. The result is γ·x̂ + β."
    ),
)


def normalized(recipe: Recipe, x: np.ndarray, eps: float, axes: Axes) -> np.ndarray:
    """x̂, by the recipe, over these axes."""
    mean = x.mean(axes, keepdims=True)
    d = x if recipe.center == "rms" else x - mean
    count = float(np.prod([x.shape[axis] for axis in axes]))
    squares = (d * d).sum(axes, keepdims=True)
    var = squares / {"N": count, "N-1": max(count - 1, 1)}[recipe.count]
    var = squares if recipe.scale == "sum" else var
    fixed = {"none": 0.0, "default": DEFAULT_EPS}.get(recipe.eps, eps)
    if recipe.scale == "deviation":
        scale = np.abs(d).mean(axes, keepdims=True) + fixed
    elif recipe.scale == "none":
        scale = np.ones_like(var)
    elif recipe.scale == "variance":
        scale = var + fixed
    elif recipe.eps == "outside":
        scale = np.sqrt(var) + eps
    elif recipe.eps == "floor":
        scale = np.sqrt(np.maximum(var, eps))
    elif recipe.eps == "root-floor":
        scale = np.maximum(np.sqrt(var), eps)
    else:
        scale = np.sqrt(var + fixed)
    return (x if recipe.center in ("none", "rms") else d) / scale


def applied(recipe: Recipe, z: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """γ and β, by the recipe."""
    results = {
        "both": gamma * z + beta,
        "none": z,
        "gamma": gamma * z,
        "beta": z + beta,
        "beta-first": gamma * (z + beta),
        "swapped": beta * z + gamma,
    }
    return results[recipe.affine]


@dataclass(frozen=True)
class Case:
    """One input, and the axes that layer norm (and mistakes about axes) uses on it."""

    x: np.ndarray
    gamma: np.ndarray
    beta: np.ndarray
    eps: float
    axes: Mapping[str, Axes]
    """The axes by what a recipe calls them; ``right`` are those of layer norm."""
    wrong_axes: tuple[Mistake, ...] = ()

    def result(self, recipe: Recipe) -> np.ndarray:
        x = self.x.astype(np.float64)
        with np.errstate(all="ignore"):
            z = normalized(recipe, x, self.eps, self.axes[recipe.axes])
            return applied(recipe, z, self.gamma.astype(np.float64), self.beta.astype(np.float64))

    @property
    def expected(self) -> np.ndarray:
        return self.result(Recipe())

    def mistaken(self, parts: frozenset[str]) -> Iterator[tuple[Recipe, tuple[Finding, ...]]]:
        """All recipes with mistakes in these parts, those with the fewest first."""
        candidates = [each for each in (*self.wrong_axes, *MISTAKES) if each.part in parts]
        for count in range(1, MOST_MISTAKES + 1):
            for some in itertools.combinations(candidates, count):
                if len({each.part for each in some}) == count:
                    changes = {each.part: each.value for each in some}
                    yield replace(Recipe(), **changes), tuple(each.finding for each in some)


ALL_PARTS = frozenset({"axes", "center", "count", "scale", "eps", "affine"})
WITHOUT_AFFINE = ALL_PARTS - {"affine"}


def distance(y: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, relative to the largest expected element; infinite if only one of two elements is finite."""
    if not np.array_equal(np.isfinite(y), np.isfinite(expected)):
        return np.inf
    finite = np.isfinite(expected)
    if not finite.any():
        return 0.0
    return float(np.abs(y - expected)[finite].max() / max(np.abs(expected[finite]).max(), 1e-300))


def explain(y: np.ndarray, case: Case, parts: frozenset[str] = ALL_PARTS) -> tuple[Finding, ...]:
    """The mistakes that lead to the result y of a case; none if no recipe does."""
    for recipe, findings in case.mistaken(parts):
        if distance(y, case.result(recipe)) < MATCH:
            return findings
    return ()


def unexplained(y: np.ndarray, expected: np.ndarray) -> Finding:
    """A finding for a wrong result that no recipe explains: where it differs most, and what is known about it."""
    bad = ~np.isfinite(y)
    if bad.any():
        where = tuple(map(int, np.argwhere(bad)[0]))
        return Finding(
            "not-finite", f"The result contains {y[where]} at {list(where)}; expected {expected[where]:.6g}."
        )
    where = tuple(map(int, np.unravel_index(np.argmax(np.abs(y - expected)), y.shape)))
    means = np.abs(y.mean(-1)).max()
    return Finding(
        "wrong-values",
        f"The values are wrong, in a way that this check does not know. The largest difference is at {list(where)}: "
        f"{y[where]:.6g}, expected {expected[where]:.6g}. With γ = 1 and β = 0, every row of the result must have mean 0 and, "
        f"apart from ε, variance 1; here the means are up to {means:.3g} (with this check's γ and β). Compute one row by hand.",
    )
