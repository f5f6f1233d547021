"""ONNX backend node tests of LSTM, GRU and RNN."""

import pathlib
import sys

import numpy as np
from onnx.backend.test.loader import load_model_tests

import onnx
from rnn_case import File, settings

# Formal names of the op and ours. All others are parameters.
INPUTS = {"X": "x", "initial_h": "h0", "initial_c": "c0", "sequence_lens": "lengths"}
OUTPUTS = {"Y": "y", "Y_h": "hn", "Y_c": "cn"}
EXPECTED = 12


def attributes(node):
    """Returns the attributes of the node, with the defaults of the op filled in."""
    found = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    result = {"direction": "forward", "layout": 0, "clip": None, **found}
    if node.op_type == "LSTM":
        result.setdefault("input_forget", 0)
    if node.op_type == "GRU":
        result.setdefault("linear_before_reset", 0)
    unknown = set(result) - {
        "direction",
        "layout",
        "clip",
        "hidden_size",
        "input_forget",
        "linear_before_reset",
    }
    if unknown:
        sys.exit(f"{node.name}: {unknown} not handled")
    return result


def tensors(folder, kind, names, formal, ours):
    """Returns the tensors of one side (input or output), except those named ""."""
    result = {}
    files = iter(sorted(folder.glob(f"{kind}_*.pb")))
    for name, parameter in zip(names, formal):
        if name:
            values = onnx.numpy_helper.to_array(onnx.load_tensor(str(next(files))))
            result[ours.get(parameter.name, f"param/{parameter.name}")] = values
    if next(files, None):
        sys.exit(f"{folder}: more {kind} files than the node has names")
    return result


def case(file, name, folder):
    model = onnx.load(str(folder / "model.onnx"))
    (node,) = model.graph.node
    (opset,) = model.opset_import
    (data,) = [f for f in folder.iterdir() if f.is_dir()]
    schema = onnx.defs.get_schema(node.op_type, opset.version, node.domain)
    found = tensors(data, "input", node.input, schema.inputs, INPUTS)
    found.update(tensors(data, "output", node.output, schema.outputs, OUTPUTS))
    attrs = attributes(node)
    if "lengths" in found:
        found["lengths"] = found["lengths"].astype(np.int64)

    first, second, inputs = found["x"].shape
    steps, batch = (second, first) if attrs["layout"] else (first, second)
    values = settings(
        node.op_type.lower(),
        "onnx",
        (steps, batch, inputs, attrs["hidden_size"]),
        batch_first=bool(attrs["layout"]),
        bias="param/B" in found,
        peephole="param/P" in found,
        dtype=str(found["x"].dtype),
        layout=attrs["layout"],
        direction=attrs["direction"],
        clip=attrs["clip"],
        gates={"LSTM": "iofc", "GRU": "zrh", "RNN": "h"}[node.op_type],
    )
    if node.op_type == "LSTM":
        values["input_forget"] = bool(attrs["input_forget"])
    if node.op_type == "GRU":
        values["reset"] = "after" if attrs["linear_before_reset"] else "before"
    file.add(name, values, found)


def make():
    file = File(f"the node tests of LSTM, GRU and RNN in the package onnx {onnx.__version__}, f32, forward only")
    count = 0
    for test in sorted(load_model_tests(kind="node"), key=lambda c: c.name):
        if test.name.startswith(("test_lstm_", "test_gru_", "test_rnn_", "test_simple_rnn_")):
            case(file, test.name, pathlib.Path(test.model_dir))
            count += 1
    if count != EXPECTED:
        sys.exit(f"{count} cases, {EXPECTED} were expected")
    file.write("onnx")


SOURCES = {"onnx": make}
