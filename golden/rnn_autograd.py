"""Runs a recurrent PyTorch network forward and backward and records the results."""

import torch


def leaf(array):
    return torch.from_numpy(array).clone().requires_grad_()


def set_parameters(draw, parameters):
    """Sets the parameters, in the order of their names, to random values."""
    with torch.no_grad():
        for name, parameter in sorted(parameters.items()):
            values = draw.parameter(name, tuple(parameter.shape))
            parameter.copy_(torch.from_numpy(values))


def array(tensor):
    # A copy, because NumPy would share the memory of the tensor.
    return tensor.detach().clone().numpy()


def record(draw, inputs, parameters, outputs):
    """Returns the tensors of a case, with the gradients of
    sum(y*dy) + sum(hn*dhn) + sum(cn*dcn) for random dy, dhn and dcn.

    inputs: leaves under the names x, h0, c0; outputs: under y, hn, cn.
    """
    upstream = {name: torch.from_numpy(draw.normal(t.shape)) for name, t in outputs.items()}
    leaves = {"d" + name: t for name, t in inputs.items()}
    leaves.update({"grad/" + name: t for name, t in parameters.items()})
    grads = torch.autograd.grad(list(outputs.values()), list(leaves.values()), list(upstream.values()))
    result = {name: array(t) for name, t in inputs.items()}
    result.update({"param/" + name: array(t) for name, t in parameters.items()})
    result.update({name: array(t) for name, t in outputs.items()})
    result.update({"d" + name: array(t) for name, t in upstream.items()})
    result.update({name: array(t) for name, t in zip(leaves, grads)})
    return result
