"""``layernorm.exercises`` where PyTorch is installed: results are compared with it, and answers may use it."""

import numpy as np
import pytest

import torch
from layernorm import exercises


def norm(x, gamma, beta, eps, shape=None):
    tensors = [torch.from_numpy(np.ascontiguousarray(array)) for array in (x, gamma, beta)]
    return torch.nn.functional.layer_norm(tensors[0], shape or x.shape[1:], tensors[1], tensors[2], eps).numpy()


def by_torch(x, gamma, beta, eps=1e-5):
    return norm(x, gamma, beta, eps)


def by_torch_axes(x, normalized_shape, gamma, beta, eps=1e-5):
    return norm(x, gamma, beta, eps, normalized_shape)


class ByAutograd:
    def __init__(self, features, eps=1e-5):
        self.gamma, self.beta, self.eps = np.ones(features), np.zeros(features), eps

    def forward(self, x):
        arrays = (x, self.gamma, self.beta)
        self.inputs = [torch.tensor(array, requires_grad=True) for array in arrays]
        x, gamma, beta = self.inputs
        self.y = torch.nn.functional.layer_norm(x, x.shape[1:], gamma, beta, self.eps)
        return self.y.detach().numpy()

    def backward(self, dy):
        found = torch.autograd.grad(self.y, self.inputs, torch.from_numpy(dy), retain_graph=True)
        dx, self.dgamma, self.dbeta = (each.numpy() for each in found)
        return dx

    def step(self, learning_rate):
        self.gamma = self.gamma - learning_rate * self.dgamma
        self.beta = self.beta - learning_rate * self.dbeta


@pytest.mark.parametrize("number, answer", [(1, by_torch), (3, ByAutograd), (4, by_torch_axes), (5, by_torch)])
def test_answers_may_use_pytorch(number, answer):
    result = exercises.check(number, answer)
    assert result.passed, result


@pytest.mark.parametrize("number", [1, 2, 4, 5])
def test_results_are_compared_with_pytorch(number):
    result = exercises.check(number, exercises.solution(number))
    assert any("torch.nn.functional.layer_norm" in detail for detail in result.details), result


def test_a_tensor_is_not_an_array():
    result = exercises.check(1, lambda x, gamma, beta, eps=1e-5: torch.from_numpy(by_torch(x, gamma, beta, eps)))
    (finding,) = result.findings
    assert finding.name == "not-an-array" and "torch.Tensor" in finding.message and ".numpy()" in finding.message


def test_the_variance_of_pytorch_is_unbiased():
    def unbiased(x, gamma, beta, eps=1e-5):
        t = torch.from_numpy(x)
        z = (t - t.mean(-1, keepdim=True)) / torch.sqrt(t.var(-1, keepdim=True) + eps)
        return gamma * z.numpy() + beta

    assert [finding.name for finding in exercises.check(1, unbiased).findings] == ["unbiased-variance"]
