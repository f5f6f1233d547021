"""LSTM, GRU and RNN with the arguments of torch.nn, in the variants of docs/RECURRENT.md.

Shapes: T steps, B sequences, I = input_size, H = hidden_size, P = proj_size or H without a projection, L = num_layers,
D = 2 if bidirectional, otherwise 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict, overload

from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import torch
from torch import Tensor, nn

from ._foreign import read_foreign
from ._network import Network, Pair, check_arguments, check_state, with_nonlinearity
from ._readable import check_tensor
from ._spec import Spec

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


class _Recurrent(Network):
    """Base class of the networks."""

    mode: str
    num_layers: int
    batch_first: bool
    dropout: float
    bidirectional: bool
    proj_size: int
    eps: float | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
        *,
        variant: str = "paper",
        eps: float | None = None,
        recurrent_dropout: float = 0.0,
        drop_connect: float = 0.0,
        zoneout: float = 0.0,
        zoneout_cell: float = 0.0,
    ) -> None:
        super().__init__()
        check_arguments(
            dict(input_size=input_size, hidden_size=hidden_size, num_layers=num_layers, proj_size=proj_size),
            dict(bias=bias, batch_first=batch_first, bidirectional=bidirectional),
        )
        self.mode = self._kind.upper()
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size, self.variant, self.eps = bidirectional, proj_size, variant, eps
        noise = (float(dropout), recurrent_dropout, drop_connect, zoneout, zoneout_cell)
        spec = Spec(
            self._kind, variant, input_size, hidden_size, num_layers, bidirectional, proj_size or None, bias, eps, noise
        )
        self._build(spec, device, dtype)

    def extra_repr(self) -> str:
        said = f"{self.input_size}, {self.hidden_size}"
        if self.proj_size:
            said += f", proj_size={self.proj_size}"
        if self.num_layers != 1:
            said += f", num_layers={self.num_layers}"
        if self.bias is not True:
            said += f", bias={self.bias}"
        if self.batch_first is not False:
            said += f", batch_first={self.batch_first}"
        if self.dropout:
            said += f", dropout={self.dropout}"
        if self.bidirectional is not False:
            said += f", bidirectional={self.bidirectional}"
        return said + f", variant={self.variant!r}"

    def flatten_parameters(self) -> None:
        """Does nothing: weights are packed automatically. For compatibility with torch.nn."""

    @property
    def all_weights(self) -> list[list[nn.Parameter]]:
        """The parameters of each layer and direction, as lists."""
        directions = ("", "_reverse") if self.bidirectional else ("",)
        ends = [f"_l{layer}{direction}" for layer in range(self.num_layers) for direction in directions]
        return [[self._parameters[name] for name in self._names if name.endswith(end)] for end in ends]

    def forward(self, input: Tensor | PackedSequence, hx: Any = None) -> Any:
        """Runs the network over sequences.

        Args:
            input: tensor ``(T, B, I)``, ``(B, T, I)`` with ``batch_first``, or ``(T, I)`` without a batch; or a PackedSequence.
            hx: initial state, ``(h, c)`` for an LSTM, otherwise h: h is ``(L·D, B, P)``, c is ``(L·D, B, H)``, both without B if
                the input has no batch. Default: zeros.

        Returns:
            ``(output, state)``: output ``(T, B, D·P)``, ``(B, T, D·P)`` or ``(T, D·P)``, or a PackedSequence, as the input;
            and the final state, shaped like ``hx``. Both have the input's type.

        Raises:
            TypeError: if the type of the input or state is not supported, or does not match that of the parameters.
            ValueError: if shapes or devices do not match.
        """
        if isinstance(input, PackedSequence):
            return self._packed(input, hx)
        check_tensor("input", input)
        if input.dim() not in (2, 3):
            raise ValueError(f"input: expected 2 or 3 dimensions, found {input.dim()}")
        alone = input.dim() == 2
        if alone:
            input = input.unsqueeze(0 if self.batch_first else 1)
        state = self._state(hx, input.shape[0 if self.batch_first else 1], alone)
        self._check(input)
        y, h, c = self._pass(input, state, None, self.batch_first)
        if alone:
            y, h, c = y.squeeze(0 if self.batch_first else 1), h.squeeze(1), None if c is None else c.squeeze(1)
        return y, self._public(h, c)

    def _public(self, h: Tensor, c: Tensor | None) -> Any:
        return (h, c) if self._kind == "lstm" else h

    def _check(self, x: Tensor) -> None:
        if x.shape[-1] != self.input_size:
            raise ValueError(f"input: expected the last dimension {self.input_size}, found {x.shape[-1]}")
        weight = getattr(self, self._names[0])
        check_tensor(self._names[0], weight)
        if x.dtype != weight.dtype and not (
            weight.dtype == torch.float32 and x.dtype in (torch.float16, torch.bfloat16)
        ):
            raise TypeError(f"input: expected {str(weight.dtype)[6:]}, found {str(x.dtype)[6:]}")

    def _state(self, hx: Any, batch: int, alone: bool) -> Pair:
        if hx is None:
            return None, None
        parts = tuple(hx) if self._kind == "lstm" else (hx, None)
        if len(parts) != 2:
            raise ValueError(f"state: expected (h, c), found {len(parts)} parts")
        for name, part, shape in zip("hc", parts, self._spec.shapes(batch)):
            if part is not None:
                check_state(name, part, (shape[0], shape[2]) if alone else shape)
        return tuple(None if part is None else part.unsqueeze(1) for part in parts) if alone else parts

    def _packed(self, packed: PackedSequence, hx: Any) -> Any:
        x, lengths = pad_packed_sequence(packed)
        self._check(x)
        state = self._state(hx, x.shape[1], False)
        y, h, c = self._pass(x, state, lengths, False)
        if packed.sorted_indices is not None:
            # Lengths are always on the CPU, unlike the indices.
            y, lengths = y.index_select(1, packed.sorted_indices), lengths.sort(descending=True).values
        data = pack_padded_sequence(y, lengths, enforce_sorted=True).data
        output = PackedSequence(data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)
        return output, self._public(h, c)

    @classmethod
    def from_module(cls, module: nn.Module) -> Self:
        """Creates a network with the sizes, settings and weights of another module. The weights are copied.

        Args:
            module: a network of torch.nn, torchaudio's ``_CustomLSTM`` or a layer of PyTorch's fastrnns.

        Returns:
            A network of this class, on the device and of the type of the module's weights.

        Raises:
            TypeError: if the module is of another class or cell.
            ValueError: if the norms of the module do not all have the same eps.

        Example:
            >>> import torch, layernorm.torch
            >>> plain = torch.nn.LSTM(3, 5, num_layers=2)
            >>> ours = layernorm.torch.LSTM.from_module(plain)
            >>> ours.variant
            'none'
        """
        if isinstance(module, nn.RNNBase):
            return cls._from_torch(module)
        arguments, values, like = read_foreign(cls._kind, module)
        ours = cls(**arguments, device=like.device, dtype=like.dtype)
        ours._fill(values)
        return ours.train(module.training)

    @classmethod
    def _from_torch(cls, module: nn.RNNBase) -> Self:
        expected = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}[cls._kind]
        if not isinstance(module, expected):
            raise TypeError(f"module: expected {expected.__name__}, found {type(module).__name__}")
        like = module.weight_ih_l0
        ours = cls(
            module.input_size,
            module.hidden_size,
            module.num_layers,
            **({"nonlinearity": module.nonlinearity} if cls._kind == "rnn" else {}),
            bias=module.bias,
            batch_first=module.batch_first,
            dropout=module.dropout,
            bidirectional=module.bidirectional,
            **({"proj_size": module.proj_size} if cls._kind == "lstm" else {}),
            variant="none",
            device=like.device,
            dtype=like.dtype,
        )
        # As attributes, where parametrizations such as weight_norm put what they compute.
        ours.load_state_dict({name: getattr(module, name).detach() for name in ours._names})
        return ours.train(module.training)


class _Options(TypedDict, total=False):
    """Keyword arguments that GRU and RNN pass on."""

    eps: float | None
    recurrent_dropout: float
    drop_connect: float
    zoneout: float


class LSTM(_Recurrent):
    """Long short-term memory (LSTM) network, with or without normalization.

    Takes the arguments of :class:`torch.nn.LSTM` and several others. The gates are in the order i, f, g, o.

    Args:
        input_size: number of features I of the input.
        hidden_size: number of hidden units H.
        num_layers: number of layers L.
        bias: whether the cell has biases.
        batch_first: whether inputs and outputs are ``(B, T, …)`` instead of ``(T, B, …)``.
        dropout: dropout rate between layers.
        bidirectional: whether each layer also reads the sequence backward.
        proj_size: size P of the projection of h. 0: no projection.
        device, dtype: of the parameters.
        variant: how the cell is normalized; ``layernorm.LSTM.variants()`` lists the names. ``"paper"`` is the cell of Ba et al.
            (2016), ``"none"`` is the plain LSTM of torch.nn.
        eps: ε of the norms. Default: that of the variant.
        recurrent_dropout: dropout rate of h in the recurrent connection.
        drop_connect: dropout rate of the recurrent weights.
        zoneout: probability that a unit of h keeps its previous value; outside training its expectation is used.
        zoneout_cell: the same for c.

    Shape:
        Input ``(T, B, I)``, output ``(T, B, D·P)``, state ``(h, c)`` with h ``(L·D, B, P)`` and c ``(L·D, B, H)``, as in torch.nn.

    Example:
        >>> import torch, layernorm.torch
        >>> lstm = layernorm.torch.LSTM(28, 128, variant="paper")
        >>> output, (h, c) = lstm(torch.randn(10, 16, 28))
        >>> output.shape, h.shape
        (torch.Size([10, 16, 128]), torch.Size([1, 16, 128]))
    """

    _kind = "lstm"

    if TYPE_CHECKING:

        @overload
        def __call__(
            self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
        ) -> tuple[Tensor, tuple[Tensor, Tensor]]: ...
        @overload
        def __call__(
            self, input: PackedSequence, hx: tuple[Tensor, Tensor] | None = None
        ) -> tuple[PackedSequence, tuple[Tensor, Tensor]]: ...
        def __call__(self, input: Any, hx: Any = None) -> Any: ...
        def forward(self, input: Any, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Any, tuple[Tensor, Tensor]]: ...


class _WithoutProjection(_Recurrent):
    """Base class of GRU and RNN, whose state is h alone."""

    if TYPE_CHECKING:

        @overload
        def __call__(self, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]: ...
        @overload
        def __call__(self, input: PackedSequence, hx: Tensor | None = None) -> tuple[PackedSequence, Tensor]: ...
        def __call__(self, input: Any, hx: Any = None) -> Any: ...
        def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]: ...

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
        *,
        variant: str = "paper",
        **options: Unpack[_Options],
    ) -> None:
        proj_size = 0
        sizes = (input_size, hidden_size, num_layers)
        switches = (bias, batch_first, dropout, bidirectional)
        super().__init__(*sizes, *switches, proj_size, device, dtype, variant=variant, **options)


class GRU(_WithoutProjection):
    """Gated recurrent unit (GRU) network, with or without normalization.

    Takes the arguments of :class:`torch.nn.GRU`, and ``variant``, ``eps``, ``recurrent_dropout``, ``drop_connect`` and ``zoneout``
    as :class:`LSTM` does. ``layernorm.GRU.variants()`` lists the variants. The gates are in the order r, z, n.

    Shape:
        Input ``(T, B, I)``, output ``(T, B, D·H)``, state h ``(L·D, B, H)``, as in torch.nn.
    """

    _kind = "gru"


class RNN(_WithoutProjection):
    """Simple recurrent network (Elman RNN) with tanh or ReLU, with or without normalization.

    Takes the arguments of :class:`torch.nn.RNN`, and ``variant``, ``eps``, ``recurrent_dropout``, ``drop_connect`` and ``zoneout``
    as :class:`LSTM` does. ``layernorm.RNN.variants()`` lists the variants; ``nonlinearity="relu"`` selects those in ``-relu``.

    Shape:
        Input ``(T, B, I)``, output ``(T, B, D·H)``, state h ``(L·D, B, H)``, as in torch.nn.
    """

    _kind = "rnn"
    nonlinearity: str

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
        *,
        variant: str = "paper",
        **options: Unpack[_Options],
    ) -> None:
        sizes = (input_size, hidden_size, num_layers)
        switches = (bias, batch_first, dropout, bidirectional)
        super().__init__(*sizes, *switches, device, dtype, variant=with_nonlinearity(variant, nonlinearity), **options)
        self.nonlinearity = nonlinearity
