"""Copies the ONNX backend node tests of the normalization ops to golden/onnx."""

import collections
import pathlib
import sys

import numpy as np
from onnx.backend.test.loader import load_model_tests
from safetensors.numpy import save

import onnx
import stable

OPS = {
    "LayerNormalization",
    "RMSNormalization",
    "GroupNormalization",
    "InstanceNormalization",
    "BatchNormalization",
}
EXPECTED = 46
OUT = pathlib.Path(__file__).parent / "onnx"


def attributes(node, schema):
    """Returns all attributes of the node as strings, with defaults filled in."""
    found = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    for name, attribute in schema.attributes.items():
        if name not in found:
            if attribute.required:
                sys.exit(f"{node.op_type}: {name} is required and not there")
            found[name] = onnx.helper.get_attribute_value(attribute.default_value)
    # ONNX stores floats as f32. The widened value is written, because it parses
    # back to the same number both as f32 and as f64.
    return {name: repr(value) for name, value in found.items()}


def tensors(folder, kind, names, formal):
    """Returns the tensors of one side (input or output) by formal name."""
    if len(list(folder.glob(f"{kind}_*.pb"))) != len(names):
        sys.exit(f"{folder.name}: not {len(names)} {kind} files")
    result = {}
    for i, name in enumerate(names):
        if not name:
            sys.exit(f"{folder.name}: {kind} {i} is left out, which is not handled")
        tensor = onnx.load_tensor(str(folder / f"{kind}_{i}.pb"))
        array = onnx.numpy_helper.to_array(tensor)
        # safetensors ignores strides.
        # ascontiguousarray alone would turn 0-D into 1-D.
        result[formal[i].name] = np.ascontiguousarray(array).reshape(array.shape)
    return result


def main():
    OUT.mkdir(exist_ok=True)
    count = collections.Counter()
    for case in sorted(load_model_tests(kind="node"), key=lambda c: c.name):
        if "expanded" in case.name:
            continue
        model = onnx.load(str(pathlib.Path(case.model_dir) / "model.onnx"))
        graph = model.graph
        if not OPS & {node.op_type for node in graph.node}:
            continue
        if len(graph.node) != 1 or graph.initializer:
            sys.exit(f"{case.name}: not exactly one node fed by inputs only")
        node = graph.node[0]
        # The files are in graph order, and the node must have the same order.
        if list(node.input) != [i.name for i in graph.input]:
            sys.exit(f"{case.name}: the graph orders its inputs otherwise")
        if list(node.output) != [o.name for o in graph.output]:
            sys.exit(f"{case.name}: the graph orders its outputs otherwise")
        folders = [f for f in pathlib.Path(case.model_dir).iterdir() if f.is_dir()]
        if len(folders) != 1:
            sys.exit(f"{case.name}: {len(folders)} data sets, not one")

        (opset,) = model.opset_import
        schema = onnx.defs.get_schema(node.op_type, opset.version, node.domain)
        data = tensors(folders[0], "input", node.input, schema.inputs)
        data |= tensors(folders[0], "output", node.output, schema.outputs)
        metadata = {"op": node.op_type, **attributes(node, schema)}
        stable.write(OUT / f"{case.name}.safetensors", save(data, metadata))
        count[node.op_type] += 1

    for op, n in sorted(count.items()):
        print(f"{op}: {n}")
    total = sum(count.values())
    print(f"{total} cases")
    if total != EXPECTED:
        sys.exit(f"{EXPECTED} cases were expected")


if __name__ == "__main__":
    main()
