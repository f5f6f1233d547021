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

    def __str__(self) -> str:
        lines = [f"{len(self.changed)} norms changed, {len(self.left)} left"]
        lines += [f"  {name or '(the model)'}: {what}" for name, what in self.changed.items()]
        lines += [f"  {name or '(the model)'}: {what}, left as it is" for name, what in self.left.items()]
        return "\n".join(lines)


def _is_norm(module):
    return isinstance(module, tuple(_OURS)) or "norm" in type(module).__name__.lower()


def convert(model: nn.Module) -> Conversion:
    """Gives every nn.LayerNorm, nn.RMSNorm and nn.GroupNorm of the model our arithmetic, in place, and says what it did.

    The modules stay the same objects: parameters, hooks, training mode and what an optimizer holds are untouched. Subclasses
    of those classes, and norms of other libraries, may compute something else; they are left and named.
    """
    done = Conversion()
    for name, module in model.named_modules():
        ours = _OURS.get(type(module))
        if ours is not None:
            module.__class__ = ours
            done.changed[name] = repr(module)
        elif type(module) not in _OURS.values() and _is_norm(module):
            done.left[name] = type(module).__name__
    return done
