"""The way of ``torch.func`` (grad, jacrev, vmap, …), which wants gradients in a form of its own."""

from __future__ import annotations

import torch

from . import _calls
from ._twice import infer_backward_backward, norm_backward_backward


def each(function, info, in_dims, args):
    """One call for each of the mapped tensors, stacked."""

    # Of what is no tensor, a tuple among them, every call gets the whole.
    def at(arg, dim, i):
        return arg.select(dim, i) if isinstance(dim, int) else arg

    found = [function(*(at(arg, dim, i) for arg, dim in zip(args, in_dims))) for i in range(info.batch_size)]
    results = [None if part[0] is None else torch.stack(part) for part in zip(*found)]
    return tuple(results), tuple(None if result is None else 0 for result in results)


class Norm(torch.autograd.Function):
    """y and the statistics."""

    @staticmethod
    def forward(x, weight, bias, op, eps):
        return _calls.forward(op, x, weight, bias, eps, True)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, bias, ctx.op, ctx.eps = inputs
        ctx.save_for_backward(x, weight, bias, output[1])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, dy, _):
        x, weight, bias, stats = ctx.saved_tensors
        found = NormBackward.apply(dy, x, weight, bias, stats, ctx.op, ctx.eps, ctx.needs_input_grad[:3])
        return (*found, None, None)

    @staticmethod
    def vmap(info, in_dims, *args):
        return each(Norm.apply, info, in_dims, args)


class NormBackward(torch.autograd.Function):
    """dx, dweight and dbias; None where the mask is False."""

    @staticmethod
    def forward(dy, x, weight, bias, stats, op, eps, mask):
        return _calls.backward(op, dy, x, weight, bias, stats.contiguous(), eps, mask)

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
    """Batch norm by running statistics: y alone, in a tuple."""

    @staticmethod
    def forward(x, weight, bias, running_mean, running_var, eps):
        return (_calls.batch_infer(x, weight, bias, running_mean, running_var, eps),)

    @staticmethod
    def setup_context(ctx, inputs, output):
        *tensors, ctx.eps = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx, dy):
        found = InferBackward.apply(dy, *ctx.saved_tensors, ctx.eps, ctx.needs_input_grad[:3])
        return (*found, None, None, None)

    @staticmethod
    def vmap(info, in_dims, *args):
        return each(Infer.apply, info, in_dims, args)


class InferBackward(torch.autograd.Function):
    """dx, dweight and dbias; None where the mask is False."""

    @staticmethod
    def forward(dy, x, weight, bias, running_mean, running_var, eps, mask):
        return _calls.batch_infer_backward(dy, x, weight, bias, running_mean, running_var, eps, mask)

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
