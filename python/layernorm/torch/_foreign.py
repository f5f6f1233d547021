"""Reads recurrent modules of other libraries, detected by their tensor names."""

from __future__ import annotations

import torch

from .. import _core
from ._calls import flat
from ._readable import readable


def _eps_of_norms(module):
    """Returns a list with the ε of the module's norms, or an empty one. All norms must have the same ε."""
    found = {
        name: float(norm.eps)
        for name, norm in module.named_modules()
        if "norm" in type(norm).__name__.lower() and hasattr(norm, "eps")
    }
    eps = sorted(set(found.values()))
    if len(eps) > 1:
        said = ", ".join(f"{value} ({next(name for name in found if found[name] == value)})" for value in eps)
        raise ValueError(f"module: expected one eps for all of its norms, found {said}")
    return eps


def read_foreign(kind, module):
    """Returns constructor arguments, all parameters as one float64 tensor, and one tensor whose device and type to use."""
    tensors = {name: value.detach() for name, value in module.state_dict().items() if value.is_floating_point()}
    if any(name.endswith("x2g.weight") for name in tensors):
        format = "torchaudio"
    elif any(name.endswith("cell.weight_ih") for name in tensors):
        format = "fastrnns"
    else:
        raise TypeError(
            f"module: expected a network of torch.nn, torchaudio's _CustomLSTM or a layer of fastrnns, found {type(module).__name__}"
        )
    if kind != "lstm":
        raise TypeError(f"module: expected a {kind.upper()}, found {type(module).__name__}, which is an LSTM")
    eps = _eps_of_norms(module)
    wide = {name: readable(name, value).to("cpu", torch.float64).contiguous() for name, value in tensors.items()}
    named = [(name, list(value.shape), flat(name, value)) for name, value in wide.items()]
    # The norm of fastrnns has no ε.
    eps = eps[0] if eps else 0.0
    # Both libraries also have these layers without norms.
    variant = format if any("norm" in name for name in tensors) else "none"
    core, values = _core.Recurrent.from_tensors(kind, variant, format, named, eps, 0.0)
    inputs, hidden, layers, directions, projection = core.sizes()
    arguments = dict(
        input_size=inputs,
        hidden_size=hidden,
        num_layers=layers,
        bias=core.has_bias(),
        bidirectional=directions == 2,
        proj_size=projection or 0,
        variant=variant,
        eps=eps if variant == format else None,
    )
    return arguments, torch.tensor(values, dtype=torch.float64, device="cpu"), next(iter(tensors.values()))
