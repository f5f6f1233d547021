"""LayerNormBasicLSTMCell and LayerNormLSTMCell of tf.contrib.rnn, TensorFlow 1.15."""

import logging
import warnings

warnings.filterwarnings("ignore")

import tensorflow as tf
from tensorflow.contrib import rnn
from tensorflow.contrib.rnn.python.ops.rnn_cell import LayerNormLSTMCell  # Not exported.

from rnn_case import Draw, File, settings

tf.get_logger().setLevel(logging.ERROR)
SIZE = (6, 3, 4, 5)
EPS = 1e-12  # Fixed in tf.contrib.layers.layer_norm, except for float16.


def gradients(loss, leaves):
    """Returns gradients, with zeros for a variable that the original creates but does not use."""
    grads = tf.gradients(loss, list(leaves.values()))
    return {name: tf.zeros_like(leaf) if grad is None else grad for (name, leaf), grad in zip(leaves.items(), grads)}


def case(file, name, make, values, size=SIZE, lengths=False, zero_state=False, dtype="float64"):
    """Runs a cell with tf.nn.dynamic_rnn; make() returns the cell."""
    steps, batch, inputs, hidden = size
    draw = Draw("contrib-" + name, dtype)
    tf.reset_default_graph()
    given = {"x": tf.constant(draw.x((steps, batch, inputs)))}
    if not zero_state:
        given["h0"] = tf.constant(draw.normal((batch, values.get("proj", 0) or hidden)))
        given["c0"] = tf.constant(draw.normal((batch, hidden)))
    state = None if zero_state else rnn.LSTMStateTuple(given["c0"], given["h0"])
    lens = draw.lengths(batch, steps) if lengths else None
    y, (cn, hn) = tf.nn.dynamic_rnn(make(), given["x"], lens, state, dtype=given["x"].dtype, time_major=True)

    outputs = {"y": y, "hn": hn, "cn": cn}
    upstream = {n: draw.normal([int(d) for d in t.shape]) for n, t in outputs.items()}
    loss = tf.add_n([tf.reduce_sum(t * upstream[n]) for n, t in outputs.items()])
    variables = {v.op.name: v for v in tf.trainable_variables()}
    leaves = {"d" + n: t for n, t in given.items()}
    leaves.update({"grad/" + n: v for n, v in variables.items()})
    fetch = dict(given, **outputs)
    fetch.update({"param/" + n: v for n, v in variables.items()})
    fetch.update(gradients(loss, leaves))

    config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    with tf.Session(config=config) as session:
        for n, v in sorted(variables.items()):
            v.load(draw.parameter(n, [int(d) for d in v.shape]), session)
        tensors = session.run(fetch)
    tensors.update({"d" + n: array for n, array in upstream.items()})
    if lengths:
        tensors["lengths"] = lens
        values = dict(values, padding="zero")
    all_values = dict(settings("lstm", "contrib", size), dtype=dtype, gates="ijfo", **values)
    file.add(name, all_values, tensors)


def basic(file, label, forget_bias=1.0, layer_norm=True, size=SIZE, **others):
    values = {"forget_bias": forget_bias, "bias": not layer_norm}
    if layer_norm:
        values.update(variant="per-gate", eps=EPS)
    case(
        file,
        "lstm_basic-" + label,
        lambda: rnn.LayerNormBasicLSTMCell(size[3], forget_bias, layer_norm=layer_norm),
        values,
        size,
        **others,
    )


def full(file, label, peephole=False, cell_clip=None, proj=None, proj_clip=None):
    """LayerNormLSTMCell. It runs in f32, because its norms only create f32 variables."""
    values = {
        "variant": "per-gate",
        "eps": EPS,
        "forget_bias": 1.0,
        "bias": False,
        "peephole": peephole,
        "cell_clip": cell_clip,
        "proj": proj or 0,
        "proj_clip": proj_clip,
    }
    case(
        file,
        "lstm_full-" + label,
        lambda: LayerNormLSTMCell(
            SIZE[3],
            use_peepholes=peephole,
            cell_clip=cell_clip,
            num_proj=proj,
            proj_clip=proj_clip,
            layer_norm=True,
        ),
        values,
        dtype="float32",
    )


def make():
    file = File(
        "tf.contrib.rnn.LayerNormBasicLSTMCell (basic, f64) and LayerNormLSTMCell (full, f32) of "
        f"TensorFlow {tf.__version__}, run with tf.nn.dynamic_rnn on the CPU"
    )
    basic(file, "plain")
    basic(file, "zero_state", zero_state=True)
    basic(file, "forget_bias0", forget_bias=0.0)
    basic(file, "lengths", lengths=True)
    basic(file, "large", size=(7, 4, 13, 17))
    basic(file, "no_norm", layer_norm=False)
    full(file, "plain")
    full(file, "peephole", peephole=True)
    full(file, "peephole_proj_clips", peephole=True, cell_clip=0.9, proj=3, proj_clip=0.3)
    file.write("contrib")


SOURCES = {"contrib": make}
