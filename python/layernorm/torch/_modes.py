"""What PyTorch is doing around a call: modes, transformations and tracers that want to see operations.

PyTorch has no public names for it. Where a private one is missing, nothing can be said, and calls take the longer way through the
dispatcher, which asks for none of this.
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
    """Whether tensors may have tangents."""
    return getattr(forward_ad, "_current_level", 0) >= 0


def is_batched(t):
    """Whether a tensor stands for several at once, as gradients do with ``is_grads_batched`` or under ``torch.vmap``."""
    if transform() is not None:
        return True
    try:
        t.untyped_storage()
    except NotImplementedError:
        return True
    return False


def apply_of(function):
    """``function.apply`` without what ``torch.autograd.Function`` does before: about transformations, which are ruled out."""
    return getattr(super(torch.autograd.Function, function), "apply", function.apply)
