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
from proof import Wrong, same_bits
from recurrent_cells import gradients

TOLERANCE = 2e-5


def prove(name, problem, variant, ours):
    """Returns {result: (our largest error, that of PyTorch in f32, largest number)}, with absolute errors, or raises Wrong."""
    module = problem.module(variant)
    exact = run(module.double(), problem.x.double(), problem.dy.double())
    # `double` may have changed the module in place.
    theirs = run(problem.module(variant), problem.x, problem.dy)
    found = results(problem, ours)
    errors = {}
    for key, expected in exact.items():
        largest = expected.abs().max().item()
        error, peer = ((part[key].double() - expected).abs().max().item() for part in (found, theirs))
        if not error <= TOLERANCE * largest:
            raise Wrong(f"{name} {variant}: {key} is off by {error:.3g} of {largest:.3g}, PyTorch in f32 by {peer:.3g}")
        errors[key] = error, peer, largest
    return errors


def prove_steps(name, problem, variant, ours, steps=20):
    """The same for single steps with the same x; returns the errors of y after that many steps."""
    y = torch.full((1, problem.size.hidden), float("nan"))
    ours.reset()
    call = ours.step(y)
    with torch.no_grad():
        exact, theirs = problem.module(variant).double().stepper(), problem.module(variant).stepper()
        for _ in range(steps):
            call()
            expected, other = exact(problem.x[0].double()), theirs(problem.x[0])
    error, peer = ((part.double() - expected).abs().max().item() for part in (y, other))
    largest = expected.abs().max().item()
    if not error <= TOLERANCE * largest:
        raise Wrong(f"{name} {variant}: a step is off by {error:.3g} of {largest:.3g}, PyTorch in f32 by {peer:.3g}")
    return {"y": (error, peer, largest)}


def run(module, x, dy):
    y, (dx, *dparams) = gradients(module, x.clone().requires_grad_(), dy)
    return {"y": y.detach(), "dx": dx} | {f"d {name}": d for name, d in zip(module.named, dparams)}


def results(problem, ours):
    """Returns our results; every kind of call must give the same bits."""
    shape = (*problem.x.shape[:2], problem.size.hidden)
    y, trained = torch.full(shape, float("nan")), torch.full(shape, float("nan"))
    ours.forward(y)()
    ours.train(trained)()
    dx, dparams = ours.gradients()
    others = [trained]
    for call in (ours.forward(), ours.train()):
        call()
        others.append(ours.output())
    again, dparams_again = ours.gradients()
    same = all(same_bits(y, other) for other in others) and same_bits(dx, again)
    if not same or not all(same_bits(dparams[name], dparams_again[name]) for name in dparams):
        raise Wrong(f"{problem.kind} {problem.size}: other bits in another call")
    return {"y": y, "dx": dx} | {f"d {name}": d for name, d in dparams.items()}
