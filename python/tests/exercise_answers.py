"""Answers: right ones, and wrong ones with the finding that names the mistake. Those to exercise 3 are in exercise_layers.py."""

import numpy as np

from exercise_layers import ByMatrices, Layer, accumulating, dx, layer, parameters, scaled_forward, sharing, start, step


def rows(normalize):
    """An answer to exercises 1 and 5 from a function of x and eps."""

    def layer_norm(x, gamma, beta, eps=1e-5):
        return (gamma * normalize(x, eps) + beta).astype(x.dtype)

    return layer_norm


def centred(x, axis=-1):
    return x - x.mean(axis, keepdims=True)


def var(x, axis=-1, ddof=0):
    return x.var(axis, ddof=ddof, keepdims=True)


right_rows = rows(lambda x, eps: centred(x) / np.sqrt(var(x) + eps))
unbiased = rows(lambda x, eps: centred(x) / np.sqrt(var(x, ddof=1) + eps))
columns = rows(lambda x, eps: centred(x, 0) / np.sqrt(var(x, 0) + eps))
whole = rows(lambda x, eps: (x - x.mean()) / np.sqrt(x.var() + eps))
outside = rows(lambda x, eps: centred(x) / (np.sqrt(var(x)) + eps))
no_eps = rows(lambda x, eps: centred(x) / np.sqrt(var(x)))
fixed_eps = rows(lambda x, eps: centred(x) / np.sqrt(var(x) + 1e-5))
floor = rows(lambda x, eps: centred(x) / np.sqrt(np.maximum(var(x), eps)))
variance = rows(lambda x, eps: centred(x) / (var(x) + eps))
only_centred = rows(lambda x, eps: centred(x))
summed = rows(lambda x, eps: centred(x) / np.sqrt((centred(x) ** 2).sum(-1, keepdims=True) + eps))
absolute = rows(lambda x, eps: centred(x) / (np.abs(centred(x)).mean(-1, keepdims=True) + eps))
uncentred = rows(lambda x, eps: x / np.sqrt(var(x) + eps))
rms = rows(lambda x, eps: x / np.sqrt((x * x).mean(-1, keepdims=True) + eps))
one_pass = rows(
    lambda x, eps: centred(x) / np.sqrt((x * x).mean(-1, keepdims=True) - x.mean(-1, keepdims=True) ** 2 + eps)
)
in_single = rows(lambda x, eps: right_rows(x.astype(np.float32), np.float32(1), np.float32(0), eps))


def squared_eps(x, gamma, beta, eps=1e-5):
    return gamma * centred(x) / np.sqrt(var(x) + eps * eps) + beta


def no_affine(x, gamma, beta, eps=1e-5):
    return centred(x) / np.sqrt(var(x) + eps)


def no_beta(x, gamma, beta, eps=1e-5):
    return gamma * no_affine(x, gamma, beta, eps)


def no_gamma(x, gamma, beta, eps=1e-5):
    return no_affine(x, gamma, beta, eps) + beta


def beta_first(x, gamma, beta, eps=1e-5):
    return gamma * (no_affine(x, gamma, beta, eps) + beta)


def swapped(x, gamma, beta, eps=1e-5):
    return right_rows(x, beta, gamma, eps)


def without_keepdims(x, gamma, beta, eps=1e-5):
    return gamma * (x - x.mean(-1)) / np.sqrt(x.var(-1) + eps) + beta


def keepdims_by_chance(x, gamma, beta, eps=1e-5):
    try:
        return without_keepdims(x, gamma, beta, eps)
    except ValueError:
        return right_rows(x, gamma, beta, eps)


def in_place(x, gamma, beta, eps=1e-5):
    x -= x.mean(-1, keepdims=True)
    x /= np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    return gamma * x + beta


def in_double(x, gamma, beta, eps=1e-5):
    x = x.astype(np.float64)
    return gamma * centred(x) / np.sqrt(var(x) + eps) + beta


def another_default(x, gamma, beta, eps=1e-3):
    return right_rows(x, gamma, beta, eps)


def returns_nothing(x, gamma, beta, eps=1e-5):
    right_rows(x, gamma, beta, eps)


def returns_a_list(x, gamma, beta, eps=1e-5):
    return right_rows(x, gamma, beta, eps).tolist()


def returns_a_row(x, gamma, beta, eps=1e-5):
    return right_rows(x, gamma, beta, eps)[0]


def divides_by_zero(x, gamma, beta, eps=1e-5):
    return x / (1 // int(eps > 1))


def never_ends(x, gamma, beta, eps=1e-5):
    while True:
        pass


def unbiased_without_gamma(x, gamma, beta, eps=1e-5):
    return centred(x) / (np.sqrt(var(x, ddof=1)) + eps) + beta


def nan_for_one_feature(x, gamma, beta, eps=1e-5):
    return (
        gamma * centred(x) / np.sqrt((centred(x) ** 2).sum(-1, keepdims=True) / (x.shape[1] - (x.shape[1] == 1)) + eps)
        + beta
    )


def something_else(x, gamma, beta, eps=1e-5):
    return gamma * np.tanh(x) + beta


def by_loops(x, gamma, beta, eps=1e-5):
    y = np.empty_like(x)
    for i, row in enumerate(x):
        mean = sum(float(v) for v in row) / len(row)
        spread = (sum((float(v) - mean) ** 2 for v in row) / len(row) + eps) ** 0.5
        for j, value in enumerate(row):
            y[i, j] = gamma[j] * (float(value) - mean) / spread + beta[j]
    return y


def by_transposition(x, gamma, beta, eps=1e-5):
    d = x.T - x.mean(1)
    return (d / np.sqrt((d * d).mean(0) + eps)).T * gamma + beta


def by_correlation(x, gamma, beta, eps=1e-5):
    ones = np.ones(x.shape[1], x.dtype) / x.dtype.type(x.shape[1])
    d = x - np.outer(x @ ones, np.ones(x.shape[1], x.dtype))
    return d * (1 / np.sqrt(d**2 @ ones + x.dtype.type(eps)))[:, None] * gamma + beta


def by_rows(x, gamma, beta, eps=1e-5):
    return np.stack([gamma * (row - row.mean()) / np.sqrt(row.var() + eps) + beta for row in x]).astype(x.dtype)


def by_apply(x, gamma, beta, eps=1e-5):
    return np.apply_along_axis(lambda row: gamma * (row - row.mean()) / np.sqrt(row.var() + eps) + beta, 1, x).astype(
        x.dtype
    )


def by_helper(x, gamma, beta, eps=1e-5):
    return by_rows(x, gamma, beta, eps)


def by_the_package(x, gamma, beta, eps=1e-5):
    import layernorm

    return layernorm.layer_norm(x, None, gamma, beta, eps)


# ---- Exercise 2 ----


def stable(x, eps=1e-5):
    d = x.astype(np.float64)
    d = d - d.mean(-1, keepdims=True)
    return (d / np.sqrt((d * d).mean(-1, keepdims=True) + eps)).astype(x.dtype)


def stable_in_single(x, eps=1e-5):
    """No float64: rows are scaled by a power of two, and the mean is computed twice."""
    largest = np.abs(x).max(-1, keepdims=True)
    k = x.dtype.type(2) ** np.floor(np.log2(np.maximum(largest, x.dtype.type(1))))
    d = x / k
    d = d - d.mean(-1, keepdims=True)
    d = d - d.mean(-1, keepdims=True)
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + x.dtype.type(eps) / k / k)


def stable_loops(x, eps=1e-5):
    import math

    y = np.empty_like(x)
    for i, row in enumerate(x.astype(np.float64)):
        mean = math.fsum(row) / len(row)
        spread = math.sqrt(math.fsum((row - mean) ** 2) / len(row) + eps)
        y[i] = (row - mean) / spread
    return y


def plain_formula(x, eps=1e-5):
    return (centred(x) / np.sqrt(var(x) + eps)).astype(x.dtype)


def plain_one_pass(x, eps=1e-5):
    mean = x.mean(-1, keepdims=True)
    return ((x - mean) / np.sqrt((x * x).mean(-1, keepdims=True) - mean * mean + eps)).astype(x.dtype)


def double_one_pass(x, eps=1e-5):
    return plain_one_pass(x.astype(np.float64), eps).astype(x.dtype)


def double_result(x, eps=1e-5):
    return stable(x.astype(np.float64), eps)


def without_eps(x, eps=1e-5):
    d = centred(x.astype(np.float64))
    return (d / np.sqrt((d * d).mean(-1, keepdims=True))).astype(x.dtype)


def all_in_single(x, eps=1e-5):
    return stable(x.astype(np.float32), eps).astype(x.dtype)


def corrected_without_scaling(x, eps=1e-5):
    d = centred(centred(x))
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + x.dtype.type(eps))


def nan_on_constants(x, eps=1e-5):
    y = stable(x, eps)
    y[np.ptp(x, axis=-1) == 0] = np.nan
    return y


def scaled_to_one(x, eps=1e-5):
    """Right where ε hardly matters, and where it matters a lot."""
    y = stable(x, eps)
    small = x.astype(np.float64).var(-1) < 1e-7
    y[small] = without_eps(x, eps)[small]
    return np.nan_to_num(y)


# ---- Exercise 4 ----


def axes(choose):
    """An answer to exercise 4 from the axes that it averages over."""

    def layer_norm_axes(x, normalized_shape, gamma, beta, eps=1e-5):
        over = choose(x.ndim, len(normalized_shape))
        return (gamma * centred(x, over) / np.sqrt(var(x, over) + eps) + beta).astype(x.dtype)

    return layer_norm_axes


trailing = axes(lambda ndim, count: tuple(range(ndim - count, ndim)))


def axes_by_reshape(x, normalized_shape, gamma, beta, eps=1e-5):
    flat = x.reshape(-1, gamma.size)
    return right_rows(flat, gamma.ravel(), beta.ravel(), eps).reshape(x.shape)


def axes_by_recursion(x, normalized_shape, gamma, beta, eps=1e-5):
    if x.shape == tuple(normalized_shape):
        return (gamma * (x - x.mean()) / np.sqrt(x.var() + eps) + beta).astype(x.dtype)
    return np.stack([axes_by_recursion(part, normalized_shape, gamma, beta, eps) for part in x])


def axes_wrong_reshape(x, normalized_shape, gamma, beta, eps=1e-5):
    columns = x.reshape(gamma.size, -1)
    return gamma * (centred(columns, 0) / np.sqrt(var(columns, 0) + eps)).reshape(x.shape) + beta


def axes_stays_flat(x, normalized_shape, gamma, beta, eps=1e-5):
    return right_rows(x.reshape(-1, gamma.size), gamma.ravel(), beta.ravel(), eps)


def axes_by_memory(x, normalized_shape, gamma, beta, eps=1e-5):
    """Takes the elements as they lie in memory, which is wrong for transposed views."""
    flat = x.ravel(order="K").reshape(-1, gamma.size)
    return right_rows(flat, gamma.ravel(), beta.ravel(), eps).reshape(x.shape)


def axes_by_batch(x, normalized_shape, gamma, beta, eps=1e-5):
    y = trailing(x, normalized_shape, gamma, beta, eps)
    return y if len(x) > 1 else y * 1.01


RIGHT = {
    1: [right_rows, by_loops, by_transposition, by_correlation, by_rows, by_the_package, one_pass],
    2: [stable, stable_in_single, stable_loops],
    3: [Layer, ByMatrices, layer()],
    4: [trailing, axes_by_reshape, axes_by_recursion],
    5: [right_rows, by_transposition, by_correlation],
}

WRONG = [
    (1, unbiased, ["unbiased-variance"]),
    (1, columns, ["wrong-axis"]),
    (1, whole, ["whole-array"]),
    (1, outside, ["eps-outside-root"]),
    (1, no_eps, ["no-eps"]),
    (1, fixed_eps, ["eps-ignored"]),
    (1, floor, ["eps-as-floor"]),
    (1, variance, ["variance-not-root"]),
    (1, only_centred, ["not-divided"]),
    (1, summed, ["sum-of-squares"]),
    (1, absolute, ["mean-absolute-deviation"]),
    (1, uncentred, ["mean-not-subtracted"]),
    (1, rms, ["rms-norm"]),
    (1, in_single, ["precision"]),
    (1, no_affine, ["no-gamma-no-beta"]),
    (1, no_beta, ["no-beta"]),
    (1, no_gamma, ["no-gamma"]),
    (1, beta_first, ["beta-before-gamma"]),
    (1, swapped, ["gamma-beta-swapped"]),
    (1, without_keepdims, ["broadcast"]),
    (1, keepdims_by_chance, ["keepdims"]),
    (1, in_place, ["input-changed"]),
    (1, in_double, ["wrong-dtype"]),
    (1, another_default, ["default-eps"]),
    (1, returns_nothing, ["nothing-returned"]),
    (1, returns_a_list, ["not-an-array"]),
    (1, returns_a_row, ["wrong-shape"]),
    (1, divides_by_zero, ["raises"]),
    (1, unbiased_without_gamma, ["unbiased-variance", "eps-outside-root", "no-gamma"]),
    (1, squared_eps, ["wrong-values"]),
    (1, something_else, ["wrong-values"]),
    (1, 7, ["not-a-function"]),
    (2, plain_formula, ["constant-row", "rounded-mean", "overflow"]),
    (2, plain_one_pass, ["constant-row", "cancellation", "overflow"]),
    (2, double_one_pass, ["cancellation"]),
    (2, double_result, ["wrong-dtype"]),
    (2, without_eps, ["no-eps"]),
    (2, all_in_single, ["precision"]),
    (2, corrected_without_scaling, ["overflow"]),
    (2, nan_on_constants, ["constant-row"]),
    (2, scaled_to_one, ["small-variance"]),
    (3, start(0.0, 0.0), ["gamma-start"]),
    (3, start(1.0, 1.0), ["beta-start"]),
    (3, sharing(), ["shared-parameters"]),
    (3, scaled_forward(gamma=False), ["no-gamma"]),
    (3, scaled_forward(beta=False), ["no-beta"]),
    (
        3,
        dx(lambda self, dy, g: self.rstd * (g - self.normalized * self.means(g * self.normalized))),
        ["no-mean-gradient"],
    ),
    (3, dx(lambda self, dy, g: self.rstd * (g - self.means(g))), ["no-variance-gradient"]),
    (3, dx(lambda self, dy, g: self.rstd * g), ["no-mean-gradient", "no-variance-gradient"]),
    (3, dx(lambda self, dy, g: Layer.backward(self, dy) / self.rstd), ["gradient-not-divided"]),
    (
        3,
        dx(lambda self, dy, g: Layer.backward(self, dy / self.gamma)),
        ["gradient-without-gamma", "dgamma-wrong", "dbeta-wrong"],
    ),
    (3, dx(lambda self, dy, g: -Layer.backward(self, dy)), ["gradient-sign"]),
    (3, layer(means=lambda self, g: g.mean(0)), ["gradient-wrong-axis"]),
    (
        3,
        dx(lambda self, dy, g: dy),
        ["no-mean-gradient", "no-variance-gradient", "gradient-without-gamma", "gradient-not-divided"],
    ),
    (3, dx(lambda self, dy, g: g * self.x), ["wrong-gradient"]),
    (3, parameters(dgamma=lambda self, dy: (dy * self.normalized).mean(0)), ["dgamma-averaged"]),
    (3, parameters(dgamma=lambda self, dy: dy * self.normalized), ["dgamma-not-summed"]),
    (3, parameters(dgamma=lambda self, dy: (dy * self.x).sum(0)), ["dgamma-with-x"]),
    (3, parameters(dgamma=lambda self, dy: (dy * self.y).sum(0)), ["dgamma-with-y"]),
    (3, parameters(dgamma=lambda self, dy: dy.sum(0)), ["dgamma-without-x-hat"]),
    (3, parameters(dbeta=lambda self, dy: dy.mean(0)), ["dbeta-averaged"]),
    (3, parameters(dbeta=lambda self, dy: dy.sum(1)), ["wrong-shape"]),
    (3, parameters(dbeta=lambda self, dy: None), ["nothing-returned"]),
    (3, accumulating(), ["gradients-accumulate"]),
    (3, step(1, 1), ["ascent"]),
    (3, step(0, -1), ["gamma-not-trained"]),
    (3, step(-1, 0), ["beta-not-trained"]),
    (3, step(-2, -1), ["wrong-step"]),
    (3, layer(backward=None), ["missing-attributes"]),
    (3, right_rows, ["raises"]),
    (4, axes(lambda ndim, count: -1), ["too-few-axes"]),
    (4, axes(lambda ndim, count: tuple(range(1, ndim))), ["too-many-axes"]),
    (4, axes(lambda ndim, count: None), ["whole-array"]),
    (4, axes(lambda ndim, count: 0), ["batch-axis"]),
    (4, axes(lambda ndim, count: tuple(range(ndim - 1))), ["batch-axis"]),
    (4, axes(lambda ndim, count: tuple(range(1, 1 + count))), ["wrong-axes"]),
    (4, axes_wrong_reshape, ["reshape-order"]),
    (4, axes_stays_flat, ["wrong-shape"]),
    (4, axes_by_memory, ["strides"]),
    (4, axes_by_batch, ["batch-dependence"]),
    (5, by_loops, ["python-loop"]),
    (5, by_rows, ["python-loop"]),
    (5, by_apply, ["python-loop"]),
    (5, by_helper, ["slow"]),
    (5, in_double, ["wrong-dtype"]),
    (5, by_the_package, ["uses-the-package"]),
    (5, unbiased, ["unbiased-variance"]),
]
