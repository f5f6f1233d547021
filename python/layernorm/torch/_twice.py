"""Second-order gradients of the norms, composed of PyTorch operations, so that they can be differentiated again.

With v̄ the mean of a row, x̂ = (x − x̄)·r and P(v) = v − v̄ − x̂·mean(v·x̂) (RMS norm: x̂ = x·r, no v̄):

    dx = r·P(g), g = dy·γ        dγ = Σ dy·x̂        dβ = Σ dy

The derivative of ⟨u, dx⟩ + ⟨uγ, dγ⟩ + ⟨uβ, dβ⟩ is, as x̂ varies by r·P and r by −r²·x̂/N,

    by dy    γ·r·P(u) + uγ·x̂ + uβ
    by γ     Σ dy·r·P(u)
    by x     r·P(q) − r²·x̂·mean(u·P(g)),    q = uγ·dy − r·(u·mean(g·x̂) + g·mean(u·x̂))
"""

from __future__ import annotations

import torch

from ._types import acc_of


def _places(op, x, weight):
    """Returns x's shape with rows along ``dims``, those dims, and the shape to which γ is reshaped."""
    kind, number = op
    shape = tuple(x.shape)
    if kind == "batch":
        return shape, (0, *range(2, x.dim())), (1, shape[1]) + (1,) * (x.dim() - 2)
    if kind == "group":
        split = (shape[0], number, shape[1] // max(number, 1), *shape[2:])
        return split, tuple(range(2, len(split))), (1, *split[1:3]) + (1,) * (len(split) - 3)
    return shape, tuple(range(x.dim() - number, x.dim())), shape[x.dim() - number :]


def norm_backward_backward(op, eps, dy, x, weight, u, u_weight, u_bias):
    """Computes gradients of dy, x and weight from ``u``, ``u_weight`` and ``u_bias``, those of dx, dweight and dbias (or None)."""
    acc = acc_of(x.dtype)
    shape, dims, parameter_shape = _places(op, x, weight)
    centered = op[0] != "rms"

    def whole(t):
        return t.to(acc).reshape(shape)

    def parameter(t):
        return None if t is None else t.to(acc).reshape(parameter_shape)

    def mean(t):
        return t.mean(dims, keepdim=True)

    x_, dy_, gain, u_gain, u_shift = whole(x), whole(dy), parameter(weight), parameter(u_weight), parameter(u_bias)
    d = x_ - mean(x_) if centered else x_
    r = torch.rsqrt(mean(d * d) + eps)
    x_hat = d * r

    def p(t):
        t = t - x_hat * mean(t * x_hat)
        return t - mean(t) if centered else t

    g = dy_ if gain is None else dy_ * gain
    by_dy, by_weight, by_x, q = 0, None, 0, 0
    if u is not None:
        u_ = whole(u)
        rpu = r * p(u_)
        by_dy = rpu if gain is None else rpu * gain
        by_weight = None if gain is None else dy_ * rpu
        q = -r * (u_ * mean(g * x_hat) + g * mean(u_ * x_hat))
        by_x = -r * r * x_hat * mean(u_ * p(g))
    if u_gain is not None:
        by_dy = by_dy + u_gain * x_hat
        q = q + u_gain * dy_
    if u_shift is not None:
        by_dy = by_dy + u_shift
    if isinstance(q, torch.Tensor):
        by_x = by_x + r * p(q)

    def back(t, like):
        if not isinstance(t, torch.Tensor):
            return None
        return t.expand(shape).reshape(like.shape).to(like.dtype)

    if by_weight is not None:
        by_weight = by_weight.sum_to_size(parameter_shape).reshape(weight.shape).to(weight.dtype)
    return back(by_dy, dy), back(by_x, x), by_weight


def infer_backward_backward(eps, dy, x, weight, running_mean, running_var, u, u_weight, u_bias):
    """The same for batch norm with running statistics, where x̂ = (x − mean)·r and dx = r·dy·γ with constant r."""
    acc = acc_of(x.dtype)
    parameter_shape = (1, x.shape[1]) + (1,) * (x.dim() - 2)

    def parameter(t):
        return None if t is None else t.to(acc).reshape(parameter_shape)

    gain, u_gain, u_shift = parameter(weight), parameter(u_weight), parameter(u_bias)
    r = torch.rsqrt(parameter(running_var) + eps)
    x_hat, dy_ = (x.to(acc) - parameter(running_mean)) * r, dy.to(acc)
    by_dy, by_weight, by_x = 0, None, None
    if u is not None:
        ru = r * u.to(acc)
        by_dy = ru if gain is None else ru * gain
        by_weight = None if gain is None else (dy_ * ru).sum_to_size(parameter_shape).reshape(weight.shape)
    if u_gain is not None:
        by_dy = by_dy + u_gain * x_hat
        by_x = (u_gain * dy_ * r).to(x.dtype)
    if u_shift is not None:
        by_dy = by_dy + u_shift
    by_dy = by_dy.expand(x.shape).to(dy.dtype) if isinstance(by_dy, torch.Tensor) else None
    return by_dy, by_x, None if by_weight is None else by_weight.to(weight.dtype)
