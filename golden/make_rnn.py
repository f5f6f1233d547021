"""Writes the results of recurrent networks of other libraries to golden/rnn.

    python golden/make_rnn.py [source ...]

Without names: all sources of the main environment. `addons` and `contrib` each
need another version of Python; see README.md.
"""

import importlib
import sys

MODULES = {
    "torch": "rnn_torch",
    "torch_large": "rnn_torch",
    "torchaudio": "rnn_packages",
    "haste": "rnn_packages",
    "keras": "rnn_keras",
    "onnx": "rnn_onnx",
    "onnxruntime": "rnn_onnxruntime",
    "fastrnns": "rnn_definitions",
    "paper": "rnn_definitions",
    "theano": "rnn_definitions",
    "draw": "rnn_definitions",
    "dreamer": "rnn_definitions",
    "tflite": "rnn_tflite",
    "addons": "rnn_addons",
    "contrib": "rnn_contrib",
}
OWN_PYTHON = ("addons", "contrib")


def main():
    sources = sys.argv[1:] or [s for s in MODULES if s not in OWN_PYTHON]
    for source in sources:
        if source not in MODULES:
            sys.exit("no source {}; there are: {}".format(source, " ".join(MODULES)))
    if not set(OWN_PYTHON) & set(sources):
        import torch

        # One thread, so that sums do not depend on the number of cores.
        torch.set_num_threads(1)
    for source in sources:
        importlib.import_module(MODULES[source]).SOURCES[source]()


if __name__ == "__main__":
    main()
