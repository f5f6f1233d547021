"""LayerNormLSTMCell and LayerNormSimpleRNNCell of TensorFlow Addons."""

import os
import re

os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import tensorflow as tf
import tensorflow_addons as tfa

from rnn_case import Draw, File, settings

SIZE = (6, 3, 4, 5)
CELLS = {"lstm": tfa.rnn.LayerNormLSTMCell, "rnn": tfa.rnn.LayerNormSimpleRNNCell}
EPS = {"lstm": "norm_epsilon", "rnn": "layernorm_epsilon"}
DEFAULT_EPS = {"lstm": 1e-3, "rnn": 1e-5}

CASES = [
    ("lstm", "plain", {}),
    ("lstm", "zero_state", {"zero_state": True}),
    ("lstm", "no_bias", {"use_bias": False}),
    ("lstm", "eps", {"eps": 0.05}),
    ("lstm", "lengths", {"lengths": True}),
    ("lstm", "large", {"size": (7, 4, 13, 17)}),
    ("rnn", "tanh", {"activation": "tanh"}),
    ("rnn", "relu", {"activation": "relu"}),
    ("rnn", "tanh_no_bias", {"activation": "tanh", "use_bias": False}),
    ("rnn", "tanh_eps", {"activation": "tanh", "eps": 0.05}),
    ("rnn", "tanh_lengths", {"activation": "tanh", "lengths": True}),
]


def uncounted(name):
    """Removes the cell counter and the :0 from names like rnn/layer_norm_lstm_cell_3/kernel:0."""
    return re.sub(r"_cell_\d+/", "_cell/", name.split(":")[0])


def record(draw, given, parameters, forward):
    """Like rnn_autograd.record, with TensorFlow's tape; forward returns the outputs."""
    with tf.GradientTape() as tape:
        tape.watch(list(given.values()))
        outputs = forward()
        upstream = {name: draw.normal(t.shape) for name, t in outputs.items()}
        loss = tf.add_n([tf.reduce_sum(t * upstream[name]) for name, t in outputs.items()])
    leaves = {"d" + name: t for name, t in given.items()}
    leaves.update({"grad/" + name: v for name, v in parameters.items()})
    grads = tape.gradient(loss, list(leaves.values()))
    result = {name: t.numpy() for name, t in {**given, **outputs}.items()}
    result.update({"param/" + name: v.numpy() for name, v in parameters.items()})
    result.update({"d" + name: values for name, values in upstream.items()})
    result.update({name: t.numpy() for name, t in zip(leaves, grads)})
    return result


def case(file, cell, label, size=SIZE, eps=None, lengths=False, zero_state=False, **arguments):
    steps, batch, inputs, hidden = size
    draw = Draw(f"addons-{cell}-{label}")
    eps = DEFAULT_EPS[cell] if eps is None else eps
    rnn = tf.keras.layers.RNN(
        CELLS[cell](hidden, **{EPS[cell]: eps}, **arguments),
        return_sequences=True,
        return_state=True,
        name="rnn",
    )
    # A call instead of build(), which would omit the scopes from the names.
    rnn(tf.zeros((batch, steps, inputs), tf.float64))
    parameters = {uncounted(v.name): v for v in rnn.trainable_variables}
    for name, variable in sorted(parameters.items()):
        variable.assign(draw.parameter(name, tuple(variable.shape)))

    given = {"x": tf.constant(draw.x((batch, steps, inputs)))}
    states = ("h0", "c0") if cell == "lstm" else ("h0",)
    if not zero_state:
        given.update({s: tf.constant(draw.normal((batch, hidden))) for s in states})
    initial = [given[s] for s in states if s in given]
    lens = draw.lengths(batch, steps) if lengths else None

    def forward():
        mask = tf.sequence_mask(lens, steps) if lengths else None
        y, *finals = rnn(given["x"], initial_state=initial or None, mask=mask)
        return {"y": y, **dict(zip(("hn", "cn"), finals))}

    tensors = record(draw, given, parameters, forward)
    values = settings(
        cell,
        "addons",
        size,
        variant="keras",
        batch_first=True,
        eps=eps,
        bias=arguments.get("use_bias", True),
        activation=arguments.get("activation", "tanh"),
        gates={"lstm": "ifco", "rnn": "h"}[cell],
    )
    if lengths:
        tensors["lengths"] = lens
        values["padding"] = "repeat"
    file.add(f"{cell}-{label}", values, tensors)


def make():
    # Set globally, because the norms inside a cell do not inherit its dtype.
    tf.keras.backend.set_floatx("float64")
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    file = File(
        f"LayerNormLSTMCell and LayerNormSimpleRNNCell of TensorFlow Addons {tfa.__version__} with "
        f"TensorFlow {tf.__version__}, run in f64 on the CPU"
    )
    for cell, label, arguments in CASES:
        case(file, cell, label, **arguments)
    file.write("addons")


SOURCES = {"addons": make}
