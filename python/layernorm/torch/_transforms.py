"""Autograd functions for ``torch.func`` (grad, jacrev, vmap, …), which requires ``setup_context`` and ``vmap``."""

from __future__ import annotations

import torch

from . import _calls
from ._twice import infer_backward_backward, norm_backward_backward


def each(function, info, in_dims, args):
    """Calls a function once per element of the mapped dimension and stacks the results."""

    # Arguments that are not tensors, such as tuples, are passed to every call.
    def at(arg, dim, i):
        if isinstance(dim, int):
            return arg.select(dim, i)
        return [at(*one, i) for one in zip(arg, dim)] if isinstance(arg, list) and isinstance(dim, list) else arg

    def stacked(parts):
        if isinstance(parts[0], list):
            results = [stacked(of_one) for of_one in zip(*parts)]
            return [result for result, _ in results], [dim for _, dim in results]
        return (None, None) if parts[0] is None else (torch.stack(parts), 0)

    found = [function(*(at(arg, dim, i) for arg, dim in zip(args, in_dims))) for i in range(info.batch_size)]
    results = [stacked(parts) for parts in zip(*found)]
    return tuple(result for result, _ in results), tuple(dim for _, dim in results)


def map_each(definition, operation):
    """Registers a vmap rule for an operation (``torch.vmap``, batched cotangents): one call per element."""

    def tupled(*args):
        found = operation(*args)
        return (found,) if isinstance(found, torch.Tensor) else found

    def mapped(info, in_dims, *args):
        results, dims = each(tupled, info, in_dims, args)
        return (results, dims) if len(results) > 1 else (results[0], dims[0])

    definition.register_vmap(mapped)


class Norm(torch.autograd.Function):
    """Computes y and the statistics."""

    @staticmethod
    def forward(x, weight, bias, op, eps):
        return _calls.forward(op, x, weight, bias, eps, True)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, bias, ctx.op, ctx.eps = inputs
        ctx.bias_type = None if bias is None else bias.dtype
        ctx.save_for_backward(x, weight, output[1])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, dy, _):
        x, weight, stats = ctx.saved_tensors
        found = NormBackward.apply(dy, x, weight, ctx.bias_type, stats, ctx.op, ctx.eps, ctx.needs_input_grad[:3])
        return (*found, None, None)

    @staticmethod
    def vmap(info, in_dims, *args):
        return each(Norm.apply, info, in_dims, args)


class NormBackward(torch.autograd.Function):
    """Computes dx, dweight and dbias; None where the mask is False."""

    @staticmethod
    def forward(dy, x, weight, bias_type, stats, op, eps, mask):
        return _calls.backward(op, dy, x, weight, bias_type, stats, eps, mask)

    @staticmethod
    def setup_context(ctx, inputs, output):
        dy, x, weight, _, _, ctx.op, ctx.eps, _ = inputs
        ctx.save_for_backward(dy, x, weight)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, *u):
        return (*norm_backward_backward(ctx.op, ctx.eps, *ctx.saved_tensors, *u), None, None, None, None, None)

    @staticmethod
    def vmap(info, in_dims, *args):
        return each(NormBackward.apply, info, in_dims, args)


class Infer(torch.autograd.Function):
    """Batch norm with running statistics; returns ``(y,)``."""

    @staticmethod
    def forward(x, weight, bias, running_mean, running_var, eps):
        return (_calls.batch_infer(x, weight, bias, running_mean, running_var, eps),)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, bias, mean, var, ctx.eps = inputs
        ctx.bias_type = None if bias is None else bias.dtype
        ctx.save_for_backward(x, weight, mean, var)

    @staticmethod
    def backward(ctx, dy):
        x, weight, mean, var = ctx.saved_tensors
        found = InferBackward.apply(dy, x, weight, ctx.bias_type, mean, var, ctx.eps, ctx.needs_input_grad[:3])
        return (*found, None, None, None)

    @staticmethod
    def vmap(info, in_dims, *args):
        return each(Infer.apply, info, in_dims, args)


class InferBackward(torch.autograd.Function):
    """Computes dx, dweight and dbias; None where the mask is False."""

    @staticmethod
    def forward(dy, x, weight, bias_type, running_mean, running_var, eps, mask):
        return _calls.batch_infer_backward(dy, x, weight, bias_type, running_mean, running_var, eps, mask)

    @staticmethod
    def setup_context(ctx, inputs, output):
        dy, x, weight, _, mean, var, ctx.eps, _ = inputs
        ctx.save_for_backward(dy, x, weight, mean, var)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, *u):
        return (*infer_backward_backward(ctx.eps, *ctx.saved_tensors, *u), None, None, None, None, None)

    @staticmethod
    def vmap(info, in_dims, *args):
        return each(InferBackward.apply, info, in_dims, args)
