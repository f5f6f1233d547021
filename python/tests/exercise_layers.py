"""Answers to exercise 3: a right layer, and layers in which a part is replaced."""

import numpy as np


def centred(x):
    return x - x.mean(-1, keepdims=True)


class Layer:
    """Right. Each wrong answer replaces a part."""

    def __init__(self, features, eps=1e-5):
        self.gamma, self.beta, self.eps = np.ones(features), np.zeros(features), eps

    def forward(self, x):
        self.x = x
        self.rstd = 1 / np.sqrt(x.var(-1, keepdims=True) + self.eps)
        self.normalized = centred(x) * self.rstd
        self.y = self.gamma * self.normalized + self.beta
        return self.y

    def backward(self, dy):
        self.parameters(dy)
        g = dy * self.gamma
        return self.rstd * (g - self.means(g) - self.normalized * self.means(g * self.normalized))

    def means(self, g):
        return g.mean(-1, keepdims=True)

    def parameters(self, dy):
        self.dgamma, self.dbeta = (dy * self.normalized).sum(0), dy.sum(0)

    def step(self, learning_rate):
        self.gamma -= learning_rate * self.dgamma
        self.beta -= learning_rate * self.dbeta


def layer(**parts):
    return type("LayerNorm", (Layer,), parts)


def start(gamma, beta):
    def __init__(self, features, eps=1e-5):
        self.gamma, self.beta, self.eps = np.full(features, gamma), np.full(features, beta), eps

    return layer(__init__=__init__)


def dx(formula):
    def backward(self, dy):
        self.parameters(dy)
        return formula(self, dy, dy * self.gamma)

    return layer(backward=backward)


def parameters(dgamma=lambda self, dy: (dy * self.normalized).sum(0), dbeta=lambda self, dy: dy.sum(0)):
    def both(self, dy):
        self.dgamma, self.dbeta = dgamma(self, dy), dbeta(self, dy)

    return layer(parameters=both)


def step(gamma, beta):
    def descend(self, learning_rate):
        self.gamma = self.gamma + gamma * learning_rate * self.dgamma
        self.beta = self.beta + beta * learning_rate * self.dbeta

    return layer(step=descend)


def scaled_forward(**changes):
    def forward(self, x):
        Layer.forward(self, x)
        gamma = self.gamma if changes.get("gamma", True) else 1
        return gamma * self.normalized * changes.get("scale", 1) + (self.beta if changes.get("beta", True) else 0)

    return layer(forward=forward)


def accumulating():
    def both(self, dy):
        self.dgamma = getattr(self, "dgamma", 0) + (dy * self.normalized).sum(0)
        self.dbeta = getattr(self, "dbeta", 0) + dy.sum(0)

    return layer(parameters=both)


ONES, ZEROS = np.ones(7), np.zeros(7)


def sharing():
    def __init__(self, features, eps=1e-5):
        self.gamma, self.beta, self.eps = ONES, ZEROS, eps

    return layer(__init__=__init__)


class ByMatrices:
    """Right: the gradient through the Jacobian of every row."""

    def __init__(self, features, eps=1e-5):
        self.gamma, self.beta, self.eps = np.ones(features), np.zeros(features), eps

    def forward(self, x):
        n = x.shape[1]
        self.normalized, self.jacobians = np.empty_like(x), []
        for i, row in enumerate(x):
            s = np.sqrt(row.var() + self.eps)
            self.normalized[i] = z = (row - row.mean()) / s
            self.jacobians.append((np.eye(n) - 1 / n - np.outer(z, z) / n) / s)
        return self.normalized * self.gamma + self.beta

    def backward(self, dy):
        self.dgamma, self.dbeta = np.einsum("ij,ij->j", dy, self.normalized), np.ones(len(dy)) @ dy
        return np.stack([jacobian @ (row * self.gamma) for jacobian, row in zip(self.jacobians, dy)])

    def step(self, learning_rate):
        self.gamma = self.gamma - learning_rate * self.dgamma
        self.beta = self.beta - learning_rate * self.dbeta
