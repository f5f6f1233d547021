"""LSTM, GRU and RNN of ONNX, computed by ONNX Runtime, forward only.

The node tests of ONNX itself do not cover most attributes: direction, clip,
input_forget, linear_before_reset and different lengths.
"""

import numpy as np
import onnxruntime

import onnx
from onnx import helper
from rnn_case import Draw, File, settings

SIZE = (6, 3, 4, 5)
GATES = {"LSTM": "iofc", "GRU": "zrh", "RNN": "h"}
INPUTS = ("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P")
OURS = {
    "X": "x",
    "sequence_lens": "lengths",
    "initial_h": "h0",
    "initial_c": "c0",
    "Y": "y",
    "Y_h": "hn",
    "Y_c": "cn",
}

CASES = [
    ("LSTM", "plain", {}),
    ("LSTM", "reverse", {"direction": "reverse"}),
    ("LSTM", "bidirectional_lengths", {"direction": "bidirectional", "lengths": True}),
    ("LSTM", "reverse_lengths", {"direction": "reverse", "lengths": True}),
    ("LSTM", "peepholes", {"peephole": True}),
    ("LSTM", "peepholes_clip", {"peephole": True, "clip": 0.5}),
    ("LSTM", "input_forget", {"input_forget": 1}),
    ("GRU", "reset_before", {"linear_before_reset": 0}),
    ("GRU", "reset_after", {"linear_before_reset": 1}),
    ("GRU", "reset_before_clip", {"linear_before_reset": 0, "clip": 0.5}),
    (
        "GRU",
        "reset_after_bidirectional_lengths",
        {"linear_before_reset": 1, "direction": "bidirectional", "lengths": True},
    ),
    ("RNN", "tanh", {}),
    ("RNN", "relu_clip", {"activations": ["Relu"], "clip": 0.5}),
    ("RNN", "tanh_bidirectional_lengths", {"direction": "bidirectional", "lengths": True}),
]


def inputs(op, draw, directions, lengths, peephole):
    """Returns the inputs of the node by formal name."""
    steps, batch, size, hidden = SIZE
    count = len(GATES[op])
    result = {
        "X": draw.x((steps, batch, size)),
        "W": draw.normal((directions, count * hidden, size), std=0.5),
        "R": draw.normal((directions, count * hidden, hidden), std=0.5),
        "B": draw.normal((directions, 2 * count * hidden), 0.1, 0.3),
        "initial_h": draw.normal((directions, batch, hidden)),
    }
    if op == "LSTM":
        result["initial_c"] = draw.normal((directions, batch, hidden))
    if peephole:
        result["P"] = draw.normal((directions, 3 * hidden), 0.1, 0.3)
    if lengths:
        result["sequence_lens"] = draw.lengths(batch, steps).astype(np.int32)
    return result


def run(op, given, attributes):
    """Returns the outputs of the node by formal name."""
    names = INPUTS if op == "LSTM" else INPUTS[:6]
    outputs = ["Y", "Y_h", "Y_c"] if op == "LSTM" else ["Y", "Y_h"]
    node = helper.make_node(op, [n if n in given else "" for n in names], outputs, hidden_size=SIZE[3], **attributes)

    def info(name, values):
        kind = helper.np_dtype_to_tensor_dtype(values.dtype)
        return helper.make_tensor_value_info(name, kind, values.shape)

    results = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in outputs]
    graph = helper.make_graph([node], op, [info(n, v) for n, v in given.items()], results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip(outputs, session.run(outputs, given)))


def case(file, op, label, lengths=False, peephole=False, **attributes):
    draw = Draw(f"onnxruntime-{op}-{label}", "float32")
    direction = attributes.get("direction", "forward")
    both = direction == "bidirectional"
    if "activations" in attributes and both:
        attributes["activations"] *= 2
    given = inputs(op, draw, 2 if both else 1, lengths, peephole)
    tensors = {**given, **run(op, given, attributes)}
    if lengths:
        tensors["sequence_lens"] = given["sequence_lens"].astype(np.int64)
    values = settings(
        op.lower(),
        "onnxruntime",
        SIZE,
        bidirectional=both,
        dtype="float32",
        gates=GATES[op],
        direction=direction,
        clip=attributes.get("clip"),
        peephole=peephole,
        layout=0,
        activation=attributes.get("activations", ["tanh"])[0].lower(),
    )
    if op == "LSTM":
        values["input_forget"] = bool(attributes.get("input_forget", 0))
    if op == "GRU":
        values["reset"] = "after" if attributes["linear_before_reset"] else "before"
    if lengths:
        values["padding"] = "zero"
    named = {OURS.get(n, f"param/{n}"): t for n, t in tensors.items()}
    file.add(f"{op.lower()}-{label}", values, named)


def make():
    file = File(
        f"LSTM, GRU and RNN of ONNX, opset 14, by onnxruntime {onnxruntime.__version__} in f32 on the CPU, forward only"
    )
    for op, label, arguments in CASES:
        case(file, op, label, **arguments)
    file.write("onnxruntime")


SOURCES = {"onnxruntime": make}
