"""Names of recurrent parameters: those of torch.nn where it has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._core import Recurrent

SLOTS = {
    "input_weight": "weight_ih",
    "recurrent_weight": "weight_hh",
    "input_bias": "bias_ih",
    "recurrent_bias": "bias_hh",
    "bias": "bias_gates",
    "input_norm.gain": "norm_ih_weight",
    "input_norm.bias": "norm_ih_bias",
    "recurrent_norm.gain": "norm_hh_weight",
    "recurrent_norm.bias": "norm_hh_bias",
    "sum_norm.gain": "norm_weight",
    "sum_norm.bias": "norm_bias",
    "cell_norm.gain": "norm_c_weight",
    "cell_norm.bias": "norm_c_bias",
    "peephole": "weight_c",
    "projection": "weight_hr",
    "projection_bias": "bias_hr",
}


def named_places(core: Recurrent, suffix: bool = True) -> list[tuple[str, tuple[int, ...], int, int]]:
    """Returns ``(name, shape, offset, count)`` of every parameter of a network, in the order of the extension module."""
    found = []
    for layer, direction, slot, shape, offset in core.places():
        name = SLOTS[slot]
        if suffix:
            name += f"_l{layer}" + ("_reverse" if direction else "")
        count = 1
        for dim in shape:
            count *= dim
        found.append((name, tuple(shape), offset, count))
    return found
