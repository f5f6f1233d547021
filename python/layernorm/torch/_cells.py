"""Single steps of an LSTM, GRU and RNN with the arguments of torch.nn, in the variants of docs/RECURRENT.md.

Shapes: B sequences, I = input_size, H = hidden_size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ._network import Network, check_arguments, check_state, with_nonlinearity
from ._readable import check_tensor
from ._spec import Spec


class _Cell(Network):
    """Base class of the cells."""

    _suffix = False

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
        *,
        variant: str = "paper",
        eps: float | None = None,
    ) -> None:
        super().__init__()
        check_arguments(dict(input_size=input_size, hidden_size=hidden_size), dict(bias=bias))
        self.input_size, self.hidden_size, self.bias, self.variant = input_size, hidden_size, bias, variant
        self._build(
            Spec(self._kind, variant, input_size, hidden_size, 1, False, None, bias, eps, (0.0,) * 5), device, dtype
        )

    def extra_repr(self) -> str:
        said = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            said += f", bias={self.bias}"
        return said + f", variant={self.variant!r}"

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        """Computes one step.

        Args:
            input: tensor ``(B, I)`` or ``(I,)``.
            hx: state, ``(h, c)`` for an LSTM, otherwise h, each ``(B, H)`` or ``(H,)``. Default: zeros.

        Returns:
            The new state, shaped like ``hx``.

        Raises:
            TypeError: if a type is not supported.
            ValueError: if shapes or devices do not match.
        """
        check_tensor("input", input)
        if input.dim() not in (1, 2):
            raise ValueError(f"input: expected 1 or 2 dimensions, found {input.dim()}")
        if input.shape[-1] != self.input_size:
            raise ValueError(f"input: expected the last dimension {self.input_size}, found {input.shape[-1]}")
        alone = input.dim() == 1
        x = input.view(1, -1, self.input_size) if input.is_contiguous() else input.reshape(1, -1, self.input_size)
        parts = (None, None) if hx is None else tuple(hx) if self._kind == "lstm" else (hx, None)
        shape = (1, x.shape[1], self.hidden_size)
        state = []
        for name, part in zip("hc", parts):
            if part is not None:
                check_state(name, part, shape[2:] if alone else shape[1:])
            state.append(None if part is None else part.reshape(shape))
        _, h, c = self._pass(x, state, None, False)
        last = [None if t is None else t.view(shape[2:] if alone else shape[1:]) for t in (h, c)]
        return tuple(last) if self._kind == "lstm" else last[0]


class LSTMCell(_Cell):
    """One step of an LSTM, with or without normalization.

    Takes the arguments of :class:`torch.nn.LSTMCell`, and ``variant`` and ``eps`` as :class:`LSTM` does.

    Shape:
        Input ``(B, I)``, state and result ``(h, c)``, each ``(B, H)``, as in torch.nn.
    """

    _kind = "lstm"

    if TYPE_CHECKING:

        def __call__(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]: ...
        def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]: ...


class GRUCell(_Cell):
    """One step of a GRU, with or without normalization.

    Takes the arguments of :class:`torch.nn.GRUCell`, and ``variant`` and ``eps`` as :class:`LSTM` does.

    Shape:
        Input ``(B, I)``, state and result h ``(B, H)``, as in torch.nn.
    """

    _kind = "gru"

    if TYPE_CHECKING:

        def __call__(self, input: Tensor, hx: Tensor | None = None) -> Tensor: ...
        def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor: ...


class RNNCell(_Cell):
    """One step of a simple RNN, with or without normalization.

    Takes the arguments of :class:`torch.nn.RNNCell`, and ``variant`` and ``eps`` as :class:`LSTM` does.

    Shape:
        Input ``(B, I)``, state and result h ``(B, H)``, as in torch.nn.
    """

    _kind = "rnn"
    nonlinearity: str

    if TYPE_CHECKING:

        def __call__(self, input: Tensor, hx: Tensor | None = None) -> Tensor: ...
        def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor: ...

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
        *,
        variant: str = "paper",
        eps: float | None = None,
    ) -> None:
        variant = with_nonlinearity(variant, nonlinearity)
        super().__init__(input_size, hidden_size, bias, device, dtype, variant=variant, eps=eps)
        self.nonlinearity = nonlinearity
