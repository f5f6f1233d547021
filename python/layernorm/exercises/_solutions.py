"""The solutions, as the guide shows them."""

from __future__ import annotations

import numpy as np


def layer_norm(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, eps: float = 1e-5) -> np.ndarray:
    """Layer norm of the rows of x [rows, features]; gamma and beta are [features]."""
    mean = x.mean(axis=-1, keepdims=True)
    var = x.var(axis=-1, keepdims=True)
    normalized = (x - mean) / np.sqrt(var + eps)
    return (gamma * normalized + beta).astype(x.dtype)


def stable_layer_norm(x: np.ndarray, eps: float = 1e-5) -> np.ndarray:
    """Layer norm of the rows of x [rows, features], accurate on hard inputs."""
    d = x.astype(np.float64)
    d -= d.mean(axis=-1, keepdims=True)
    # What rounding left of the mean.
    d -= d.mean(axis=-1, keepdims=True)
    var = (d * d).mean(axis=-1, keepdims=True)
    return (d / np.sqrt(var + eps)).astype(x.dtype)


class LayerNorm:
    """Layer norm with parameters: forward, backward and a step of gradient descent."""

    def __init__(self, features: int, eps: float = 1e-5) -> None:
        self.gamma = np.ones(features)
        self.beta = np.zeros(features)
        self.eps = eps

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Returns y [rows, features] and keeps what backward needs."""
        mean = x.mean(axis=-1, keepdims=True)
        self.rstd = 1 / np.sqrt(x.var(axis=-1, keepdims=True) + self.eps)
        self.normalized = (x - mean) * self.rstd
        return self.gamma * self.normalized + self.beta

    def backward(self, dy: np.ndarray) -> np.ndarray:
        """Returns dx [rows, features]; sets self.dgamma and self.dbeta [features]."""
        self.dgamma = (dy * self.normalized).sum(axis=0)
        self.dbeta = dy.sum(axis=0)
        g = dy * self.gamma
        through_mean = g.mean(axis=-1, keepdims=True)
        through_var = self.normalized * (g * self.normalized).mean(axis=-1, keepdims=True)
        return self.rstd * (g - through_mean - through_var)

    def step(self, learning_rate: float) -> None:
        """One step of gradient descent."""
        self.gamma = self.gamma - learning_rate * self.dgamma
        self.beta = self.beta - learning_rate * self.dbeta


def layer_norm_axes(
    x: np.ndarray, normalized_shape: tuple[int, ...], gamma: np.ndarray, beta: np.ndarray, eps: float = 1e-5
) -> np.ndarray:
    """Layer norm over the trailing axes of x, whose shape is normalized_shape, as are those of gamma and beta."""
    axes = tuple(range(x.ndim - len(normalized_shape), x.ndim))
    mean = x.mean(axis=axes, keepdims=True)
    var = x.var(axis=axes, keepdims=True)
    return (gamma * (x - mean) / np.sqrt(var + eps) + beta).astype(x.dtype)


def fast_layer_norm(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, eps: float = 1e-5) -> np.ndarray:
    """Layer norm of the rows of x [rows, features], without a loop in Python."""
    y = x - x.mean(axis=-1, keepdims=True)
    # The sum of squares of each row, without an array for the squares.
    var = np.einsum("ij,ij->i", y, y)[:, None] / x.dtype.type(x.shape[-1])
    y /= np.sqrt(var + x.dtype.type(eps))
    y *= gamma
    y += beta
    return y
