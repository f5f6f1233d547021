"""Replaces the norms of an existing model."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import nn

from ._modules import GroupNorm, LayerNorm, RMSNorm

_OURS = {nn.LayerNorm: LayerNorm, nn.RMSNorm: RMSNorm, nn.GroupNorm: GroupNorm}


@dataclass
class Conversion:
    """The changes that :func:`convert` made. ``print`` it for a summary."""

    changed: dict[str, str] = field(default_factory=dict)
    """Names of the converted modules, with their ``repr``."""
    left: dict[str, str] = field(default_factory=dict)
    """Names of modules that look like norms and were not converted, with their class."""
    unfused: list[str] = field(default_factory=list)
    """Names of nn.TransformerEncoderLayer modules whose fused inference path, which has its own norms, was disabled."""

    def __str__(self) -> str:
        noun = "norm" if len(self.changed) == 1 else "norms"
        lines = [f"{len(self.changed)} {noun} converted, {len(self.left)} left unchanged"]
        lines += [f"  {name or '(the model)'}: {what}" for name, what in self.changed.items()]
        lines += [f"  {name or '(the model)'}: {what}, not converted" for name, what in self.left.items()]
        lines += [f"  {name or '(the model)'}: fused inference path disabled" for name in self.unfused]
        return "\n".join(lines)


def _is_norm(module: nn.Module) -> bool:
    return isinstance(module, tuple(_OURS)) or "norm" in type(module).__name__.lower()


def convert(model: nn.Module) -> Conversion:
    """Converts every nn.LayerNorm, nn.RMSNorm and nn.GroupNorm of a model to the classes of this package, in place.

    Modules remain the same objects: parameters, hooks, training mode and optimizers are not affected. Subclasses of these
    classes, norms of other libraries and modules with a replaced ``forward`` may compute something else; they are listed in the
    result and not converted.

    At inference, nn.TransformerEncoderLayer has a fused path that reads the parameters of its norms without calling them.
    This path is disabled for layers with converted norms. Padded positions of the output are then not zero, as in training.

    Args:
        model: the model, or a single norm.

    Returns:
        :class:`Conversion`, which lists the converted modules and the ones that look like norms and were not converted.

    Example:
        >>> import torch, layernorm.torch
        >>> model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.LayerNorm(4))
        >>> print(layernorm.torch.convert(model))
        1 norm converted, 0 left unchanged
          1: LayerNorm((4,), eps=1e-05, elementwise_affine=True, bias=True)
    """
    done = Conversion()
    for name, module in model.named_modules():
        ours = _OURS.get(type(module))
        if ours is not None and "forward" in vars(module):
            # The replaced forward would be called instead.
            done.left[name] = f"{type(module).__name__} with its own forward"
        elif ours is not None:
            module.__class__ = ours
            done.changed[name] = repr(module)
        elif type(module) not in _OURS.values() and _is_norm(module):
            done.left[name] = type(module).__name__
    done.unfused = _unfuse(model)
    return done


def _unfuse(model: nn.Module) -> list[str]:
    """Disables fused paths that would bypass the converted norms, and returns the names of their modules."""
    found = []
    for name, module in model.named_modules():
        if isinstance(module, nn.TransformerEncoderLayer) and isinstance(module.norm1, LayerNorm):
            # 0 means an activation without a fused path.
            if module.activation_relu_or_gelu:
                module.activation_relu_or_gelu = 0
                found.append(name)
        elif isinstance(module, nn.TransformerEncoder) and any(isinstance(m, LayerNorm) for m in module.modules()):
            # Only the fused path supports nested tensors.
            module.use_nested_tensor = False
    return found
