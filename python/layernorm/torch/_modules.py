"""Norm modules. Each is a subclass of its torch.nn namesake: constructor arguments, attributes, ``extra_repr`` and state_dict
keys are inherited; only ``forward`` differs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

from . import functional as F
from ._eager import row_norm

_LAST_AXIS = ("layer", 1)


def _parameter(module: nn.Module, name: str) -> Tensor | None:
    """Returns a parameter, faster than attribute access, which is used only for parametrizations."""
    parameters = module._parameters
    return parameters[name] if name in parameters else getattr(module, name)


class LayerNorm(nn.LayerNorm):
    """Layer normalization over the trailing axes, a replacement for :class:`torch.nn.LayerNorm`.

    Args:
        normalized_shape: int or tuple, the shape of the trailing axes.
        eps: added to the variance.
        elementwise_affine: whether there is a learnable weight of shape ``normalized_shape``.
        bias: whether there is also a learnable bias.
        device, dtype: of the parameters.

    Shape:
        Input ``(*, *normalized_shape)``, output the same.

    Example:
        >>> import torch, layernorm.torch
        >>> norm = layernorm.torch.LayerNorm(768)
        >>> norm(torch.randn(4, 768)).shape
        torch.Size([4, 768])
    """

    if TYPE_CHECKING:

        def __call__(self, input: Tensor) -> Tensor: ...

    def forward(self, input: Tensor) -> Tensor:
        shape, parameters = self.normalized_shape, self._parameters
        # The checks of `functional.layer_norm`, inlined because calls dominate the time for small tensors.
        if len(shape) == 1 and input.shape[-1:] == shape and "weight" in parameters and "bias" in parameters:
            return row_norm(input, parameters["weight"], parameters["bias"], _LAST_AXIS, shape, self.eps)
        return F.layer_norm(input, shape, _parameter(self, "weight"), _parameter(self, "bias"), self.eps)


class RMSNorm(nn.RMSNorm):
    """RMS normalization over the trailing axes, a replacement for :class:`torch.nn.RMSNorm`.

    Args:
        normalized_shape: int or tuple, the shape of the trailing axes.
        eps: added to the mean square. None: the machine epsilon of the accumulation type, float32 or float64.
        elementwise_affine: whether there is a learnable weight of shape ``normalized_shape``.
        device, dtype: of the parameters.

    Shape:
        Input ``(*, *normalized_shape)``, output the same.
    """

    if TYPE_CHECKING:

        def __call__(self, x: Tensor) -> Tensor: ...

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, _parameter(self, "weight"), self.eps)


class GroupNorm(nn.GroupNorm):
    """Group normalization, a replacement for :class:`torch.nn.GroupNorm`.

    Args:
        num_groups: number of groups, a divisor of ``num_channels``.
        num_channels: number of channels C.
        eps: added to the variance.
        affine: whether there are learnable weights and biases of shape ``(C,)``.
        device, dtype: of the parameters.

    Shape:
        Input ``(N, C, *)``, output the same.
    """

    if TYPE_CHECKING:

        def __call__(self, input: Tensor) -> Tensor: ...

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)


class _InstanceNorm:
    if TYPE_CHECKING:

        def __call__(self, input: Tensor) -> Tensor: ...

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
    """Instance normalization, a replacement for :class:`torch.nn.InstanceNorm1d`, with the same arguments.

    Shape:
        Input ``(N, C, L)`` or ``(C, L)``, output the same.
    """


class InstanceNorm2d(_InstanceNorm, nn.InstanceNorm2d):
    """Instance normalization, a replacement for :class:`torch.nn.InstanceNorm2d`, with the same arguments.

    Shape:
        Input ``(N, C, H, W)`` or ``(C, H, W)``, output the same.
    """


class InstanceNorm3d(_InstanceNorm, nn.InstanceNorm3d):
    """Instance normalization, a replacement for :class:`torch.nn.InstanceNorm3d`, with the same arguments.

    Shape:
        Input ``(N, C, D, H, W)`` or ``(C, D, H, W)``, output the same.
    """


class _BatchNorm:
    if TYPE_CHECKING:

        def __call__(self, input: Tensor) -> Tensor: ...

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
    """Batch normalization, a replacement for :class:`torch.nn.BatchNorm1d`, with the same arguments.

    Shape:
        Input ``(N, C)`` or ``(N, C, L)``, output the same.
    """


class BatchNorm2d(_BatchNorm, nn.BatchNorm2d):
    """Batch normalization, a replacement for :class:`torch.nn.BatchNorm2d`, with the same arguments.

    Shape:
        Input ``(N, C, H, W)``, output the same.
    """


class BatchNorm3d(_BatchNorm, nn.BatchNorm3d):
    """Batch normalization, a replacement for :class:`torch.nn.BatchNorm3d`, with the same arguments.

    Shape:
        Input ``(N, C, D, H, W)``, output the same.
    """
