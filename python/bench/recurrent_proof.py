"""Checks our results, before they are timed, against PyTorch's network in float64 with the same parameters.

The error of each result (y, dx and the gradient of every parameter) must be at most TOLERANCE times the largest number of
PyTorch's result. Derivation: the error of a sum of I + H products in f32 is about sqrt(I + H) u of its terms, u = 2^-24,
because roundings go up as often as down: 1.7e-6 at 768. The parameters are chosen so that the networks forget: the error of a
step decays within a few steps, forward and backward, and does not grow with T; sums over all steps grow at least as fast as
their errors. A factor of 12 covers these few steps, the norms' division by a standard deviation below 1, and the maximum over
a million numbers. It is an estimate and not a bound, so PyTorch's own f32 error is measured as well and printed next to ours.
The error of a wrong formula is 1e-2.
"""

import torch
from norm_proof import same_bits
from options import Unusable
from recurrent_cells import gradients

TOLERANCE = 2e-5


def prove(name, problem, variant, ours, direct):
    """Returns {result: (our largest error, that of PyTorch in f32, largest number)}, with absolute errors, or raises Unusable."""
    module = problem.torch(variant)
    exact = run(module.double(), problem.x.double(), problem.dy.double())
    # `double` may have changed the module in place.
    theirs = run(problem.torch(variant), problem.x, problem.dy)
    found = results(problem, ours, direct)
    errors = {}
    for key, expected in exact.items():
        largest = expected.abs().max().item()
        error, peer = ((part[key].double() - expected).abs().max().item() for part in (found, theirs))
        if not error <= TOLERANCE * largest:
            raise Unusable(
                f"{name} {variant}: {key} is off by {error:.3g} of {largest:.3g}, PyTorch in f32 by {peer:.3g}"
            )
        errors[key] = error, peer, largest
    return errors


def prove_steps(name, problem, variant, ours, steps=20):
    """The same for single steps with the same x; returns the errors of y after that many steps."""
    x = problem.x[0]
    with torch.no_grad():
        exact, theirs = problem.torch(variant).double().stepper(), problem.torch(variant).stepper()
        step = ours.stepper()
        for _ in range(steps):
            y, expected, other = step(x), exact(x.double()), theirs(x)
    error, peer = ((part.double() - expected).abs().max().item() for part in (y, other))
    largest = expected.abs().max().item()
    if not error <= TOLERANCE * largest:
        raise Unusable(f"{name} {variant}: a step is off by {error:.3g} of {largest:.3g}, PyTorch in f32 by {peer:.3g}")
    return {"y": (error, peer, largest)}


def run(module, x, dy):
    y, (dx, *dparams) = gradients(module, x.clone().requires_grad_(), dy)
    return {"y": y.detach(), "dx": dx} | {f"d {name}": d for name, d in zip(module.named, dparams)}


def results(problem, ours, direct):
    """Returns the results of the module `ours`. Outside training, and called directly, it must give the same bits."""
    found = run(ours, problem.x, problem.dy)
    with torch.inference_mode():
        others = [{"y": ours(problem.x)}]
    for call in (direct.forward(), direct.train(lambda: None)):
        direct.y.fill_(float("nan"))
        call()
        others.append({"y": direct.y.clone()})
    others.append({"dx": direct.dx} | {f"d {name}": d for name, d in direct.gradients().items()})
    for other in others:
        for key, result in other.items():
            if not same_bits(result, found[key]):
                raise Unusable(f"{problem.kind} {problem.size}: {key} has other bits in another call")
    return found
