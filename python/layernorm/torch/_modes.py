"""Detects modes, transformations and tracers of PyTorch, which must see operations.

PyTorch has no public functions for this. If a private one is missing, calls take the slower path through the dispatcher, which
needs none of them.
"""

from __future__ import annotations

from torch.autograd import forward_ad

import torch


def _found(name):
    owner = torch._C
    for part in name.split("."):
        owner = getattr(owner, part, None)
    return owner


dispatch_modes = _found("_len_torch_dispatch_stack")
function_modes = _found("_len_torch_function_stack")
transform = _found("_functorch.peek_interpreter_stack")
tracing = _found("_get_tracing_state")

KNOWN = all((dispatch_modes, function_modes, transform, tracing)) and hasattr(forward_ad, "_current_level")
if not KNOWN:

    def dispatch_modes():
        return 1

    function_modes = dispatch_modes

    def transform():
        return None

    tracing = transform


def differentiates_forward():
    """Returns whether tensors may have tangents."""
    return getattr(forward_ad, "_current_level", 0) >= 0


def is_batched(t):
    """Returns whether a tensor is a batch, as gradients are with ``is_grads_batched`` or under ``torch.vmap``."""
    if transform() is not None:
        return True
    try:
        t.untyped_storage()
    except NotImplementedError:
        return True
    return False


def apply_of(function):
    """Returns ``function.apply`` without the handling of transformations, for callers that have ruled them out."""
    return getattr(super(torch.autograd.Function, function), "apply", function.apply)
