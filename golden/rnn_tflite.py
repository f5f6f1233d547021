"""UNIDIRECTIONAL_SEQUENCE_LSTM of TensorFlow Lite, with layer normalization.

TensorFlow Lite has no gradients. So y, hn, cn and the gradients come from the
definition below, which follows lstm_eval.cc and runs in f64. The interpreter runs on
the same inputs; its f32 results are stored under `original/`.
"""

import importlib.metadata

import flatbuffers
import numpy as np
import torch.nn.functional as F
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter

import torch
from rnn_autograd import leaf, record
from rnn_case import Draw, File, settings

SIZE = (6, 3, 4, 5)
EPS = 1e-8
GATES = ("input", "forget", "cell", "output")
# Input 0 of the op is x, 18 and 19 are the states; these are the others.
NAMES = {
    **{1 + i: f"input_to_{gate}_weights" for i, gate in enumerate(GATES)},
    **{5 + i: f"recurrent_to_{gate}_weights" for i, gate in enumerate(GATES)},
    9: "cell_to_input_weights",
    10: "cell_to_forget_weights",
    11: "cell_to_output_weights",
    **{12 + i: f"{gate}_gate_bias" for i, gate in enumerate(GATES)},
    16: "projection_weights",
    17: "projection_bias",
    **{20 + i: f"{gate}_layer_norm_coefficients" for i, gate in enumerate(GATES)},
}


def shapes(size, cifg, peephole, proj, norm):
    _, _, inputs, hidden = size
    result = {}
    for gate in GATES[1:] if cifg else GATES:
        result[f"input_to_{gate}_weights"] = (hidden, inputs)
        result[f"recurrent_to_{gate}_weights"] = (hidden, proj or hidden)
        result[f"{gate}_gate_bias"] = (hidden,)
        if peephole and gate != "cell":
            result[f"cell_to_{gate}_weights"] = (hidden,)
        if norm:
            result[f"{gate}_layer_norm_coefficients"] = (hidden,)
    if proj:
        result.update({"projection_weights": (proj, hidden), "projection_bias": (proj,)})
    return result


def clip(x, limit):
    return x.clamp(-limit, limit) if limit else x


def definition(p, x, h, c, cell_clip, proj_clip):
    """x is [T, B, I]."""

    def gate(name, peephole=None):
        a = x_t @ p[f"input_to_{name}_weights"].T + h @ p[f"recurrent_to_{name}_weights"].T
        if peephole is not None and f"cell_to_{name}_weights" in p:
            a = a + peephole * p[f"cell_to_{name}_weights"]
        if f"{name}_layer_norm_coefficients" in p:
            a = F.layer_norm(a, a.shape[-1:], p[f"{name}_layer_norm_coefficients"], None, EPS)
        return a + p[f"{name}_gate_bias"]

    outputs = []
    for x_t in x:
        f = gate("forget", c).sigmoid()
        i = gate("input", c).sigmoid() if "input_gate_bias" in p else 1 - f
        c = clip(f * c + i * gate("cell").tanh(), cell_clip)
        # The output gate uses the new c, after the clip.
        h = gate("output", c).sigmoid() * c.tanh()
        if "projection_weights" in p:
            h = clip(F.linear(h, p["projection_weights"], p["projection_bias"]), proj_clip)
        outputs.append(h)
    return torch.stack(outputs), h, c


def model(p, x, h, c, cell_clip, proj_clip):
    """Returns a TensorFlow Lite model with only this op, as bytes."""
    result, graph = schema.ModelT(), schema.SubGraphT()
    result.version, result.buffers, graph.tensors = 3, [schema.BufferT()], []

    def tensor(name, shape, values=None, variable=False):
        t = schema.TensorT()
        t.name, t.shape, t.isVariable, t.buffer = name, list(shape), variable, 0
        t.type = schema.TensorType.FLOAT32
        if values is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(values.tobytes(), np.uint8)
            result.buffers.append(buffer)
            t.buffer = len(result.buffers) - 1
        graph.tensors.append(t)
        return len(graph.tensors) - 1

    inputs = [-1] * 24
    inputs[0] = tensor("x", x.shape)
    for index, name in NAMES.items():
        if name in p:
            inputs[index] = tensor(name, p[name].shape, p[name])
    inputs[18] = tensor("h", h.shape, variable=True)
    inputs[19] = tensor("c", c.shape, variable=True)
    output = tensor("y", (*x.shape[:2], h.shape[-1]))

    options = schema.UnidirectionalSequenceLSTMOptionsT()
    options.fusedActivationFunction = schema.ActivationFunctionType.TANH
    options.cellClip, options.projClip, options.timeMajor = cell_clip, proj_clip, True
    op = schema.OperatorT()
    op.inputs, op.outputs, op.builtinOptions = inputs, [output], options
    op.builtinOptionsType = schema.BuiltinOptions.UnidirectionalSequenceLSTMOptions
    code = schema.OperatorCodeT()
    code.builtinCode = schema.BuiltinOperator.UNIDIRECTIONAL_SEQUENCE_LSTM
    code.deprecatedBuiltinCode, code.version = code.builtinCode, 3
    graph.inputs, graph.outputs, graph.operators = inputs[:1], [output], [op]
    result.subgraphs, result.operatorCodes = [graph], [code]
    builder = flatbuffers.Builder(1024)
    builder.Finish(result.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def original(p, x, h, c, cell_clip, proj_clip):
    """Returns y, hn and cn of the interpreter."""
    content = model(p, x, h, c, cell_clip, proj_clip)
    interpreter = Interpreter(model_content=content, num_threads=1)
    interpreter.allocate_tensors()
    index = {t["name"]: t["index"] for t in interpreter.get_tensor_details()}
    for name, values in (("x", x), ("h", h), ("c", c)):
        interpreter.set_tensor(index[name], values)
    interpreter.invoke()
    return [interpreter.get_tensor(index[name]).copy() for name in ("y", "h", "c")]


def case(file, label, size=SIZE, cifg=False, peephole=False, proj=0, norm=True, cell_clip=0.0, proj_clip=0.0):
    steps, batch, inputs, hidden = size
    draw = Draw(f"tflite-{label}", "float32")
    present = sorted(shapes(size, cifg, peephole, proj, norm).items())
    p32 = {n: draw.parameter(n, s) for n, s in present}
    x32 = draw.x((steps, batch, inputs))
    h32, c32 = draw.normal((batch, proj or hidden)), draw.normal((batch, hidden))
    expected = original(p32, x32, h32, c32, cell_clip, proj_clip)

    # The same numbers, widened, so that both use the same inputs.
    p = {n: leaf(values.astype("float64")) for n, values in p32.items()}
    given = {n: leaf(v.astype("float64")) for n, v in (("x", x32), ("h0", h32), ("c0", c32))}
    found = definition(p, *given.values(), cell_clip, proj_clip)  # type: ignore[call-arg]
    for ours, theirs in zip(found, expected):
        np.testing.assert_allclose(ours.detach().numpy(), theirs, rtol=1e-5, atol=2e-6)

    draw.dtype = np.dtype("float64")
    tensors = record(draw, given, p, dict(zip(("y", "hn", "cn"), found)))
    tensors.update(zip(("original/y", "original/hn", "original/cn"), expected))
    values = settings(
        "lstm",
        "tflite",
        size,
        proj=proj,
        cifg=cifg,
        peephole=peephole,
        cell_clip=cell_clip,
        proj_clip=proj_clip,
        gates="ifco",
    )
    if norm:
        values.update(variant="tflite", eps=EPS)
    file.add(f"lstm-{label}", values, tensors)


def make():
    version = importlib.metadata.version("ai-edge-litert")
    file = File(
        "UNIDIRECTIONAL_SEQUENCE_LSTM of TensorFlow Lite: a definition written from lstm_eval.cc, "
        f"run in f64 with PyTorch {torch.__version__}, and under original/ the f32 results of "
        f"ai-edge-litert {version}. A clip of 0 is no clip"
    )
    case(file, "plain")
    case(file, "peephole", peephole=True)
    case(file, "cifg", cifg=True)
    case(file, "cifg_peephole", cifg=True, peephole=True)
    case(file, "proj", proj=3)
    case(file, "cell_clip", cell_clip=0.7)
    case(file, "all", cifg=False, peephole=True, proj=3, cell_clip=0.7, proj_clip=0.4)
    case(file, "all_cifg", cifg=True, peephole=True, proj=3, cell_clip=0.7, proj_clip=0.4)
    case(file, "large", size=(7, 4, 13, 17), peephole=True)
    case(file, "no_norm", norm=False, peephole=True, proj=3, cell_clip=0.7, proj_clip=0.4)
    file.write("tflite")


SOURCES = {"tflite": make}
