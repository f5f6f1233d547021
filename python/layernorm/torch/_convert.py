"""An existing model with our norms in place of torch.nn's."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import nn

from ._modules import GroupNorm, LayerNorm, RMSNorm

_OURS = {nn.LayerNorm: LayerNorm, nn.RMSNorm: RMSNorm, nn.GroupNorm: GroupNorm}


@dataclass
class Conversion:
    """What :func:`convert` did."""

    changed: dict[str, str] = field(default_factory=dict)
    """Names of modules that are ours now, with their description."""
    left: dict[str, str] = field(default_factory=dict)
    """Names of modules that look like norms and were left as they are, with their class."""
    unfused: list[str] = field(default_factory=list)
    """Names of nn.TransformerEncoderLayers whose fused path, which has norms of its own, was switched off."""

    def __str__(self) -> str:
        lines = [f"{len(self.changed)} norms changed, {len(self.left)} left"]
        lines += [f"  {name or '(the model)'}: {what}" for name, what in self.changed.items()]
        lines += [f"  {name or '(the model)'}: {what}, left as it is" for name, what in self.left.items()]
        lines += [f"  {name or '(the model)'}: fused path of inference switched off" for name in self.unfused]
        return "\n".join(lines)


def _is_norm(module):
    return isinstance(module, tuple(_OURS)) or "norm" in type(module).__name__.lower()


def convert(model: nn.Module) -> Conversion:
    """Gives every nn.LayerNorm, nn.RMSNorm and nn.GroupNorm of the model our arithmetic, in place, and says what it did.

    The modules stay the same objects: parameters, hooks, training mode and what an optimizer holds are untouched. Subclasses
    of those classes, norms of other libraries, and modules whose forward was replaced, may compute something else; they are
    left and named.

    In inference nn.TransformerEncoderLayer has a fused path that reads its norms' parameters and never calls them. It is
    switched off where its norms are ours now. Padded positions then hold numbers, as they do in training, instead of zeros.
    """
    done = Conversion()
    for name, module in model.named_modules():
        ours = _OURS.get(type(module))
        if ours is not None and "forward" in vars(module):
            # It would be called instead of ours.
            done.left[name] = f"{type(module).__name__} with a forward of its own"
        elif ours is not None:
            module.__class__ = ours
            done.changed[name] = repr(module)
        elif type(module) not in _OURS.values() and _is_norm(module):
            done.left[name] = type(module).__name__
    done.unfused = _unfuse(model)
    return done


def _unfuse(model):
    """Switches the fused paths off that would go round our norms; their names."""
    found = []
    for name, module in model.named_modules():
        if isinstance(module, nn.TransformerEncoderLayer) and isinstance(module.norm1, LayerNorm):
            # 0 says that the activation is another one, for which there is no fused path.
            if module.activation_relu_or_gelu:
                module.activation_relu_or_gelu = 0
                found.append(name)
        elif isinstance(module, nn.TransformerEncoder) and any(isinstance(m, LayerNorm) for m in module.modules()):
            # Nested tensors are for the fused path alone.
            module.use_nested_tensor = False
    return found
