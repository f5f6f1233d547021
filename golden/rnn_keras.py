"""LSTM, GRU and SimpleRNN of Keras 3, on its PyTorch backend."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
from keras.src.backend.common.dtypes import BIT64_TO_BIT32_DTYPE

import torch
from rnn_autograd import array, leaf, record
from rnn_case import Draw, File, settings

SIZE = (6, 3, 4, 5)
LAYERS = {"lstm": keras.layers.LSTM, "gru": keras.layers.GRU, "rnn": keras.layers.SimpleRNN}
GATES = {"lstm": "ifco", "gru": "zrh", "rnn": "h"}

CASES = [
    ("lstm", "plain", {}),
    ("lstm", "zero_state", {"zero_state": True}),
    ("lstm", "no_bias", {"use_bias": False}),
    ("lstm", "lengths", {"lengths": "repeat"}),
    ("lstm", "lengths_zero", {"lengths": "zero"}),
    ("lstm", "bidirectional", {"bidirectional": True}),
    ("gru", "reset_after", {"reset_after": True}),
    ("gru", "reset_after_no_bias", {"reset_after": True, "use_bias": False}),
    ("gru", "reset_after_lengths", {"reset_after": True, "lengths": "repeat"}),
    ("gru", "reset_after_bidirectional", {"reset_after": True, "bidirectional": True}),
    ("gru", "reset_before", {"reset_after": False}),
    ("gru", "reset_before_zero_state", {"reset_after": False, "zero_state": True}),
    ("gru", "reset_before_no_bias", {"reset_after": False, "use_bias": False}),
    ("gru", "reset_before_lengths", {"reset_after": False, "lengths": "repeat"}),
    ("gru", "reset_before_bidirectional", {"reset_after": False, "bidirectional": True}),
    ("rnn", "tanh", {"activation": "tanh"}),
    ("rnn", "relu", {"activation": "relu"}),
    ("rnn", "tanh_lengths", {"activation": "tanh", "lengths": "repeat"}),
]


def stacked(finals, states, bidirectional):
    """Returns hn and cn, [B, H], or [2, B, H] with the forward direction first."""
    if not bidirectional:
        return dict(zip(("hn", "cn"), finals))
    each = len(states)
    return {f"{s[0]}n": torch.stack(finals[i::each]) for i, s in enumerate(states)}


def build(cell, size, bidirectional, padding, arguments):
    layer = LAYERS[cell](
        size[3],
        return_sequences=True,
        return_state=True,
        name=cell,
        zero_output_for_mask=padding == "zero",
        **arguments,
    )
    if bidirectional:
        layer = keras.layers.Bidirectional(layer, name="bidirectional")
    layer.build((size[1], size[0], size[2]))
    return layer


def case(file, cell, label, bidirectional=False, lengths=None, zero_state=False, size=SIZE, **arguments):
    steps, batch, inputs, hidden = size
    draw = Draw(f"keras-{cell}-{label}")
    layer = build(cell, size, bidirectional, lengths, arguments)
    for variable in sorted(layer.trainable_variables, key=lambda v: v.path):
        variable.assign(draw.parameter(variable.path, tuple(variable.shape)))
    # Variable.value is the torch parameter that the layer uses.
    parameters = {v.path: v.value for v in layer.trainable_variables}

    given = {"x": leaf(draw.x((batch, steps, inputs)))}
    states = ("h0", "c0") if cell == "lstm" else ("h0",)
    shape = (2, batch, hidden) if bidirectional else (batch, hidden)
    if not zero_state:
        given.update({s: leaf(draw.normal(shape)) for s in states})
    initial = [given[s] for s in states if s in given]
    if bidirectional:
        initial = [s[d] for d in (0, 1) for s in initial]
    lens = torch.from_numpy(draw.lengths(batch, steps)) if lengths else None
    mask = torch.arange(steps) < lens[:, None] if lengths else None
    y, *finals = layer(given["x"], initial_state=initial or None, mask=mask)

    outputs = {"y": y, **stacked(finals, states, bidirectional)}
    tensors = record(draw, given, parameters, outputs)
    values = settings(
        cell,
        "keras",
        size,
        bidirectional=bidirectional,
        batch_first=True,
        bias=arguments.get("use_bias", True),
        activation=arguments.get("activation", "tanh"),
        gates=GATES[cell],
    )
    if cell == "gru":
        values["reset"] = "after" if arguments["reset_after"] else "before"
    if lengths:
        tensors["lengths"] = array(lens)
        values["padding"] = lengths
    file.add(f"{cell}-{label}", values, tensors)


def make():
    keras.config.set_floatx("float64")
    # Otherwise matmul rounds to f32 on every backend except TensorFlow.
    BIT64_TO_BIT32_DTYPE["float64"] = "float64"
    file = File(
        f"LSTM, GRU and SimpleRNN of Keras {keras.__version__} with its PyTorch backend "
        f"({torch.__version__}), run in f64 on the CPU"
    )
    for cell, label, arguments in CASES:
        case(file, cell, label, **arguments)
    file.write("keras")


SOURCES = {"keras": make}
