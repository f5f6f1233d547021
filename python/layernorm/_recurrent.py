"""Recurrent networks for NumPy arrays: LSTM, GRU and RNN in the variants of docs/RECURRENT.md.

Shapes: T steps, B sequences, I = input_size, H = hidden_size, P = proj_size or H without a projection, L = num_layers,
D = 2 if bidirectional, otherwise 1.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from . import _core
from ._arrays import Flat, acc_of, contiguous, flat, plain
from ._names import named_places

_HOW = (0, False)

# The state as users see it (h, or (h, c) of an LSTM), and as the extension module takes it.
_State = np.ndarray | tuple[np.ndarray, np.ndarray]
_Pair = tuple[np.ndarray | None, np.ndarray | None]


class RecurrentGradients(NamedTuple):
    """Gradients of a recurrent network, as returned by ``tape.backward``."""

    x: np.ndarray
    """Gradient of the input, of its shape and type."""
    parameters: dict[str, np.ndarray]
    """Gradients of the parameters, by name."""
    state: _State
    """Gradient of the initial state: ``(h, c)`` for an LSTM, otherwise h."""


class Tape:
    """A recorded forward pass, as returned by ``network.train``. It can be neither copied nor pickled."""

    def __init__(self, shapes: _Shapes, tape: _core.Tape, x: np.ndarray, y: np.ndarray, batch: int) -> None:
        self._shapes, self._tape, self._batch = shapes, tape, batch
        self._x, self._y = (x.shape, x.dtype), (y.shape, y.dtype)

    def backward(self, dy: ArrayLike, dstate: _State | None = None) -> RecurrentGradients:
        """Computes the gradients of the recorded pass. It may be called more than once.

        Args:
            dy: gradient of y, of its shape and type.
            dstate: gradient of the final state: ``(h, c)`` for an LSTM, otherwise h. Default: zeros.

        Returns:
            :class:`RecurrentGradients` of the input, the parameters and the initial state.

        Raises:
            TypeError: if ``dy`` does not have the type of y.
            ValueError: if shapes do not match.
        """
        shapes = self._shapes
        shape, dtype = self._y
        dy = _contiguous("gradient of the output", dy, dtype)
        if dy.shape != shape:
            raise ValueError(f"gradient of the output: expected shape {list(shape)}, found {list(dy.shape)}")
        acc = acc_of(dtype)
        given = shapes.state("gradient of the final state", dstate, self._batch, acc)
        dx = np.empty(*self._x)
        parameters = np.empty(shapes.count, acc)
        dfirst = shapes.empty_state(self._batch, acc)
        self._tape.backward(flat(dy), _pair(given), flat(dx), flat(parameters), _pair(dfirst))
        return RecurrentGradients(dx, shapes.split(parameters), shapes.public(dfirst))


def _contiguous(what: str, value: ArrayLike, dtype: np.dtype[Any] | None = None) -> np.ndarray:
    found = contiguous(what, value)
    if dtype is not None and found.dtype != dtype:
        raise TypeError(f"{what}: expected {dtype}, found {found.dtype}")
    return found


def _pair(state: _Pair) -> tuple[Flat | None, Flat | None]:
    h, c = state
    return (None if h is None else flat(h), None if c is None else flat(c))


class _Shapes:
    """Shapes of the parameters and states of a network. Immutable."""

    def __init__(self, kind: str, core: _core.Recurrent) -> None:
        self.inputs, self.hidden, self.layers, self.directions, self.projection = core.sizes()
        self.output = self.projection or self.hidden
        self.has_cell = kind == "lstm"
        self.places = tuple(named_places(core))
        self.count = sum(count for *_, count in self.places)

    def split(self, whole: np.ndarray) -> dict[str, np.ndarray]:
        return {name: whole[at : at + count].reshape(shape) for name, shape, at, count in self.places}

    def _states(self, batch: int) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
        outer = (self.layers * self.directions, batch)
        return (*outer, self.output), ((*outer, self.hidden) if self.has_cell else None)

    def empty_state(self, batch: int, acc: np.dtype[Any]) -> _Pair:
        h, c = self._states(batch)
        return np.empty(h, acc), None if c is None else np.empty(c, acc)

    def public(self, state: _Pair) -> Any:
        return state if self.has_cell else state[0]

    def state(self, what: str, state: Any, batch: int, acc: np.dtype[Any]) -> _Pair:
        """Converts a state to ``(h, c)``, contiguous and in the accumulation type."""
        if state is None:
            return (None, None)
        parts = tuple(state) if self.has_cell else (state, None)
        if len(parts) != 2:
            raise ValueError(f"{what}: expected (h, c), found {len(parts)} parts")

        def checked(name: str, part: ArrayLike | None, shape: tuple[int, ...] | None) -> np.ndarray | None:
            if shape is None or part is None:
                return None
            found = contiguous(what, part, acc)
            if found.shape != shape:
                raise ValueError(f"{what}: expected {name} of shape {list(shape)}, found {list(found.shape)}")
            return found

        h, c = self._states(batch)
        return checked("h", parts[0], h), checked("c", parts[1], c)


class _Recurrent:
    """Base class of the recurrent networks."""

    _kind: ClassVar[str] = ""
    variant: str
    batch_first: bool
    dtype: np.dtype[Any]
    parameters: dict[str, np.ndarray]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        variant: str = "paper",
        *,
        num_layers: int = 1,
        bidirectional: bool = False,
        batch_first: bool = False,
        bias: bool = True,
        proj_size: int = 0,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        drop_connect: float = 0.0,
        zoneout: float = 0.0,
        zoneout_cell: float = 0.0,
        eps: float | None = None,
        dtype: DTypeLike = np.float32,
        seed: int = 0,
    ) -> None:
        """Creates a network with initial parameters.

        Args:
            input_size: number of features I of the input.
            hidden_size: number of hidden units H.
            variant: how the cell is normalized; :meth:`variants` lists the names. ``"paper"`` is the cell of Ba et al. (2016),
                ``"none"`` is the plain cell of torch.nn.
            num_layers: number of layers L.
            bidirectional: whether each layer also reads the sequence backward.
            batch_first: whether inputs and outputs are ``[B, T, …]`` instead of ``[T, B, …]``.
            bias: whether the cell has biases.
            proj_size: size P of the projection of h (LSTM only). 0: no projection.
            dropout: dropout rate between layers, in :meth:`train` only, as are the next two.
            recurrent_dropout: dropout rate of h in the recurrent connection.
            drop_connect: dropout rate of the recurrent weights.
            zoneout: probability that a unit of h keeps its previous value; outside training its expectation is used.
            zoneout_cell: the same for c (LSTM only).
            eps: ε of the norms. Default: that of the variant.
            dtype: type of the parameters, float32 or float64.
            seed: seed of the initial values.

        Raises:
            TypeError: if ``dtype`` is neither float32 nor float64.
            ValueError: if a size is out of range, or the variant does not exist or does not support an option.
        """
        self.variant, self.batch_first, self.dtype = variant, bool(batch_first), np.dtype(dtype)
        if self.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise TypeError(f"dtype: expected float32 or float64, found {self.dtype}")
        noise = (dropout, recurrent_dropout, drop_connect, zoneout, zoneout_cell)
        sizes = [
            _size(*each)
            for each in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers))
        ]
        projection = _size("proj_size", proj_size) or None
        self._compile((variant, *sizes, bool(bidirectional), projection, bool(bias), eps, noise))
        start = np.empty(self._shapes.count, np.float64)
        self._core.start_into(_seed(seed), flat(start))
        self.parameters = self._shapes.split(start.astype(self.dtype, copy=False))

    def _compile(self, arguments: tuple[Any, ...]) -> None:
        """Creates the network of the extension module. Copies and pickles keep the arguments and create it again."""
        self._arguments = arguments
        self._core = _core.Recurrent(self._kind, *arguments)
        self._shapes = _Shapes(self._kind, self._core)

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out the network of the extension module, which is created again from the arguments."""
        return {name: value for name, value in vars(self).items() if name not in ("_core", "_shapes")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._compile(self._arguments)

    @classmethod
    def variants(cls) -> list[str]:
        """Returns the names of the variants."""
        return _core.Recurrent.variants(cls._kind)

    def __repr__(self) -> str:
        shapes = self._shapes
        return (
            f"{type(self).__name__}({shapes.inputs}, {shapes.hidden}, variant={self.variant!r}, "
            f"num_layers={shapes.layers}, bidirectional={shapes.directions == 2}"
            + (f", proj_size={shapes.projection})" if shapes.projection else ")")
        )

    def _parameters(self) -> tuple[list[Flat], list[np.ndarray]]:
        """Returns the addresses of the parameters, and the arrays that must be kept alive while the addresses are used."""
        names = [name for name, *_ in self._shapes.places]
        if list(self.parameters) != names:
            raise ValueError(f"parameters: expected {names}, found {list(self.parameters)}")
        found = []
        for name, shape, *_ in self._shapes.places:
            value = contiguous(name, self.parameters[name], self.dtype)
            if value.shape != shape:
                raise ValueError(f"{name}: expected shape {list(shape)}, found {list(value.shape)}")
            found.append(value)
        return [flat(value) for value in found], found

    def _run(
        self, given: ArrayLike, state: Any, lengths: Sequence[int] | None, training: tuple[int, bool] | None
    ) -> tuple[np.ndarray, np.ndarray, _Pair, int, Any]:
        x = _contiguous("input", given)
        core, shapes = self._core, self._shapes
        if x.ndim != 3 or x.shape[2] != shapes.inputs:
            order = "[B, T, I]" if self.batch_first else "[T, B, I]"
            raise ValueError(f"input: expected {order} with I = {shapes.inputs}, found shape {list(x.shape)}")
        acc = acc_of(x.dtype)
        if acc != self.dtype:
            raise TypeError(f"input: expected a type that is computed in {self.dtype}, found {x.dtype}")
        steps, batch = (x.shape[1], x.shape[0]) if self.batch_first else x.shape[:2]
        first = shapes.state("initial state", state, batch, acc)
        if lengths is not None:
            lengths = [operator.index(n) for n in lengths]
            if len(lengths) != batch or not all(1 <= n <= steps for n in lengths):
                raise ValueError(f"lengths: expected {batch} integers from 1 to {steps}, found {lengths}")
        make = np.empty if lengths is None else np.zeros
        y = make((*x.shape[:2], shapes.directions * shapes.output), x.dtype)
        last = shapes.empty_state(batch, acc)
        parameters, keep_alive = self._parameters()
        tape = core.forward(
            parameters,
            flat(x),
            (steps, batch, self.batch_first),
            lengths,
            _pair(first),
            flat(y),
            _pair(last),
            training,
            _HOW,
        )
        del keep_alive
        return x, y, last, batch, tape

    def forward(
        self, x: ArrayLike, state: _State | None = None, lengths: Sequence[int] | None = None
    ) -> tuple[np.ndarray, _State]:
        """Runs the network over sequences. Calling the network does the same.

        Args:
            x: input ``[T, B, I]``, or ``[B, T, I]`` with ``batch_first``.
            state: initial state, ``(h, c)`` for an LSTM, otherwise h: h is ``[L·D, B, P]``, c is ``[L·D, B, H]``. Default:
                zeros.
            lengths: number of valid steps of each sequence, B integers from 1 to T. Default: T.

        Returns:
            ``(y, state)``: y ``[T, B, D·P]`` (``[B, T, D·P]`` with ``batch_first``) in x's type, 0 after the end of a
            sequence, and the final state in the type of the parameters.

        Raises:
            TypeError: if the type of x does not match that of the parameters.
            ValueError: if shapes or lengths do not match.
        """
        _, y, last, _, _ = self._run(x, state, lengths, None)
        return y, self._shapes.public(last)

    __call__ = forward

    def train(
        self,
        x: ArrayLike,
        state: _State | None = None,
        lengths: Sequence[int] | None = None,
        *,
        seed: int = 0,
        recompute: bool = False,
    ) -> tuple[np.ndarray, _State, Tape]:
        """Runs the network in training mode, with dropout and zoneout, and records what the gradients need.

        Args:
            x, state, lengths: as in :meth:`forward`.
            seed: seed of dropout and zoneout.
            recompute: whether to save memory by recording less and recomputing it in the backward pass.

        Returns:
            ``(y, state, tape)``; ``tape.backward(dy)`` returns :class:`RecurrentGradients`.

        Raises:
            TypeError: if the type of x does not match that of the parameters.
            ValueError: if shapes or lengths do not match.
        """
        read, y, last, batch, tape = self._run(x, state, lengths, (_seed(seed), bool(recompute)))
        return y, self._shapes.public(last), Tape(self._shapes, tape, read, y, batch)

    def step(self, x: ArrayLike, state: _State | None = None) -> tuple[np.ndarray, _State]:
        """Runs one step, for streaming. Gives the same bits as a pass over the whole sequence.

        Args:
            x: input ``[B, I]``.
            state: state after the previous step, as in :meth:`forward`. Default: zeros.

        Returns:
            ``(y, state)`` with y ``[B, P]``.

        Raises:
            TypeError: if the type of x does not match that of the parameters.
            ValueError: if shapes do not match, or the network is bidirectional.
        """
        if self._shapes.directions != 1:
            raise ValueError("step: expected a network with one direction, found a bidirectional one")
        x = plain("input", x)
        axis = 1 if self.batch_first else 0
        y, state = self.forward(np.expand_dims(x, axis), state)
        return y.squeeze(axis), state


def _size(what: str, value: int) -> int:
    value = operator.index(value)
    if not 0 <= value < 2**63:
        raise ValueError(f"{what}: expected 1 to 16777216, found {value}")
    return value


def _seed(value: int) -> int:
    value = operator.index(value)
    if not 0 <= value < 2**64:
        raise ValueError(f"seed: expected 0 or more and less than 2**64, found {value}")
    return value


class LSTM(_Recurrent):
    """Long short-term memory (LSTM) network, with or without normalization.

    ``parameters`` maps names (those of torch.nn where it has them, such as ``weight_ih_l0``) to arrays. Change the arrays in
    place, or replace them with others of the same shape. Their initial values follow the library or paper of the variant.

    Example:
        >>> import numpy as np, layernorm
        >>> network = layernorm.LSTM(3, 5, variant="paper", num_layers=2)
        >>> x = np.zeros((7, 2, 3), np.float32)  # [T, B, I]
        >>> y, (h, c) = network(x)
        >>> y.shape, h.shape
        ((7, 2, 5), (2, 2, 5))
        >>> y, state, tape = network.train(x)
        >>> tape.backward(np.ones_like(y)).parameters["weight_ih_l0"].shape
        (20, 3)
    """

    _kind = "lstm"


class GRU(_Recurrent):
    """Gated recurrent unit (GRU) network, with or without normalization.

    Arguments, parameters and shapes are those of :class:`LSTM`, except that there is no projection, and that the state is h
    alone.

    Example:
        >>> import numpy as np, layernorm
        >>> y, h = layernorm.GRU(3, 5)(np.zeros((7, 2, 3), np.float32))
        >>> y.shape, h.shape
        ((7, 2, 5), (1, 2, 5))
    """

    _kind = "gru"


class RNN(_Recurrent):
    """Simple recurrent network (Elman RNN) with tanh or, in the variants that end in ``-relu``, ReLU.

    Arguments, parameters and shapes are those of :class:`LSTM`, except that there is no projection, and that the state is h
    alone.
    """

    _kind = "rnn"
