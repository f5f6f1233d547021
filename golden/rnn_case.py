"""Random inputs and the file format of the recurrent golden files.

Needs only NumPy and safetensors, and runs on Python 3.7, so that the scripts of
all environments can use it.
"""

import json
import pathlib
import re
import zlib

import numpy as np
from safetensors.numpy import save

import stable

OUT = pathlib.Path(__file__).parent / "rnn"

# Names of the gain of a normalization in the original libraries.
GAIN = re.compile(r"gamma|alpha|coefficients|scale|norm\w*[./]weight|(^|_)(s\d|g)$")


class Draw:
    """Random numbers with a fixed seed per case.

    NumPy guarantees the stream of RandomState, so every version draws the same. The
    numbers are drawn in f64 and then rounded to the dtype of the case.
    """

    def __init__(self, name, dtype="float64"):
        self.state = np.random.RandomState(zlib.crc32(name.encode()))
        self.dtype = np.dtype(dtype)

    def normal(self, shape, mean=0.0, std=1.0):
        values = self.state.standard_normal(tuple(shape)) * std + mean
        return values.astype(self.dtype)

    def x(self, shape):
        # Neither centered nor of unit variance, so that no term vanishes.
        return self.normal(shape, 0.2, 1.2)

    def parameter(self, name, shape):
        """Draws a parameter: a gain around 1, a vector around 0.1, a matrix around 0."""
        if GAIN.search(name):
            return self.normal(shape, 1.0, 0.3)
        if len(shape) == 1:
            return self.normal(shape, 0.1, 0.3)
        return self.normal(shape, 0.0, 1.5 / np.sqrt(max(shape[0], shape[1])))

    def lengths(self, batch, steps):
        """Draws unsorted lengths, of which one is full and one is 1."""
        lengths = self.state.randint(1, steps + 1, size=batch)
        lengths[0], lengths[1], lengths[-1] = steps - 2, steps, 1
        return lengths.astype(np.int64)


def settings(cell, source, size, **others):
    """Returns the settings of a case, with the defaults of the plain case filled in.

    size: (steps, batch, input, hidden).
    """
    steps, batch, inputs, hidden = size
    result = {
        "cell": cell,
        "variant": "none",
        "source": source,
        "layers": 1,
        "bidirectional": False,
        "batch_first": False,
        "steps": steps,
        "batch": batch,
        "input": inputs,
        "hidden": hidden,
        "proj": 0,
        "bias": True,
        "activation": "tanh",
        "dtype": "float64",
    }
    result.update(others)
    return result


class File:
    """One golden file: the tensors of its cases and their settings."""

    def __init__(self, about):
        self.tensors = {}
        self.metadata = {"about": about}

    def add(self, case, values, tensors):
        if case in self.metadata:
            raise ValueError("two cases are called " + case)
        self.metadata[case] = json.dumps(values, sort_keys=True)
        for name, array in tensors.items():
            array = np.asarray(array)
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise ValueError(f"{case}/{name} is not finite")
            # safetensors ignores strides.
            contiguous = np.ascontiguousarray(array).reshape(array.shape)
            self.tensors[f"{case}/{name}"] = contiguous

    def write(self, name):
        OUT.mkdir(exist_ok=True)
        path = OUT / (name + ".safetensors")
        stable.write(path, save(self.tensors, self.metadata))
        cases = len(self.metadata) - 1
        print(f"{path.name}: {cases} cases, {path.stat().st_size} bytes")
