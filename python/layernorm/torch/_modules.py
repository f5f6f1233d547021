"""torch.nn's norms with our arithmetic. Each is a subclass of its namesake: constructor arguments, attributes, ``extra_repr``,
state_dict keys and ``isinstance`` are torch.nn's own; only forward differs.
"""

from __future__ import annotations

from torch import Tensor, nn

from . import functional as F
from ._eager import row_norm

_LAST_AXIS = ("layer", 1)


def _parameter(module, name):
    """A parameter of the module, faster than by attribute; by attribute if it is no plain one (parametrizations)."""
    parameters = module._parameters
    return parameters[name] if name in parameters else getattr(module, name)


class LayerNorm(nn.LayerNorm):
    """:class:`torch.nn.LayerNorm`: ``LayerNorm(normalized_shape, eps=1e-5, elementwise_affine=True, bias=True)``.

    Shape: ``(*, *normalized_shape)`` to the same.
    """

    def forward(self, input: Tensor) -> Tensor:
        shape, parameters = self.normalized_shape, self._parameters
        # What `functional.layer_norm` would look at, in one piece: for small tensors every call counts.
        if len(shape) == 1 and input.shape[-1:] == shape and "weight" in parameters and "bias" in parameters:
            return row_norm(input, parameters["weight"], parameters["bias"], _LAST_AXIS, shape, self.eps)
        return F.layer_norm(input, shape, _parameter(self, "weight"), _parameter(self, "bias"), self.eps)


class RMSNorm(nn.RMSNorm):
    """:class:`torch.nn.RMSNorm`: ``RMSNorm(normalized_shape, eps=None, elementwise_affine=True)``.

    Shape: ``(*, *normalized_shape)`` to the same.
    """

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, _parameter(self, "weight"), self.eps)


class GroupNorm(nn.GroupNorm):
    """:class:`torch.nn.GroupNorm`: ``GroupNorm(num_groups, num_channels, eps=1e-5, affine=True)``.

    Shape: ``(N, C, *)`` to the same.
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)


class _InstanceNorm:
    def _apply_instance_norm(self, input: Tensor) -> Tensor:
        return F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            self.momentum if self.momentum is not None else 0.0,
            self.eps,
        )


class InstanceNorm1d(_InstanceNorm, nn.InstanceNorm1d):
    """:class:`torch.nn.InstanceNorm1d`. Shape: ``(N, C, L)`` or ``(C, L)`` to the same."""


class InstanceNorm2d(_InstanceNorm, nn.InstanceNorm2d):
    """:class:`torch.nn.InstanceNorm2d`. Shape: ``(N, C, H, W)`` or ``(C, H, W)`` to the same."""


class InstanceNorm3d(_InstanceNorm, nn.InstanceNorm3d):
    """:class:`torch.nn.InstanceNorm3d`. Shape: ``(N, C, D, H, W)`` or ``(C, D, H, W)`` to the same."""


class _BatchNorm:
    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                factor = 1.0 / float(self.num_batches_tracked)
        own = self.training or (self.running_mean is None and self.running_var is None)
        track = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if track else None,
            self.running_var if track else None,
            self.weight,
            self.bias,
            own,
            factor,
            self.eps,
        )


class BatchNorm1d(_BatchNorm, nn.BatchNorm1d):
    """:class:`torch.nn.BatchNorm1d`. Shape: ``(N, C)`` or ``(N, C, L)`` to the same."""


class BatchNorm2d(_BatchNorm, nn.BatchNorm2d):
    """:class:`torch.nn.BatchNorm2d`. Shape: ``(N, C, H, W)`` to the same."""


class BatchNorm3d(_BatchNorm, nn.BatchNorm3d):
    """:class:`torch.nn.BatchNorm3d`. Shape: ``(N, C, D, H, W)`` to the same."""
