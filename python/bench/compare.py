"""Compares the speed of the package with PyTorch and NumPy on the CPU, in one process and in turns.

    python python/bench/compare.py norms        LayerNorm against torch.nn's, and kernel against kernel
    python python/bench/compare.py recurrent    LSTM and GRU against torch.nn's, and against layer-normalized cells in eager PyTorch
    python python/bench/compare.py numpy        layer_norm against the formula in NumPy
    python python/bench/compare.py import       time of `import layernorm`

Results are checked before anything is timed. bench/README.md describes the method. Each command has a --help of its own.
"""

import argparse
import sys

import options as choices
from options import Unusable

NORMS = choices.Defaults(seconds=1.5, rounds=15, patience=3.0)
NORMS_QUICK = choices.Defaults(seconds=0.2, rounds=5, patience=1.0)
RECURRENT = choices.Defaults(seconds=3.0, rounds=9, patience=30.0)
RECURRENT_QUICK = choices.Defaults(seconds=0.6, rounds=3, patience=6.0)


def main():
    options = parse()
    # Imported here, because `numpy` and `import` do not need PyTorch.
    if options.what == "norms":
        from norms import compare
    elif options.what == "recurrent":
        from recurrent import compare
    elif options.what == "numpy":
        from formula import compare
    else:
        from formula import import_time as compare
    compare(options)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="what", required=True, metavar="COMMAND")

    norms = commands.add_parser("norms", help="LayerNorm against PyTorch's: modules and kernels")
    choices.add_common(norms, NORMS, NORMS_QUICK, "64x128-f32-modules-forward or kernels")
    norms.add_argument("--shapes", type=choices.shapes, metavar="RxN,...", help=f"default: {choices.SHAPES}")
    norms.add_argument(
        "--dtypes", type=choices.dtypes, default="f32,bf16", metavar="TYPE,...", help="default: f32,bf16"
    )

    recurrent = commands.add_parser("recurrent", help="LSTM and GRU against PyTorch's")
    choices.add_common(recurrent, RECURRENT, RECURRENT_QUICK, "lstm-64x28 or gru-step-512")
    recurrent.add_argument(
        "--hoist-norm", action="store_true", help="PyTorch's LN cell also normalizes its inputs for all steps at once"
    )

    numpy = commands.add_parser("numpy", help="layer_norm against the formula in NumPy")
    numpy.add_argument("--seconds", type=choices.positive(float), default=1.0, help="time of each shape; default: 1")
    commands.add_parser("import", help="time of `import layernorm`, with and without NumPy's import")

    options = parser.parse_args()
    if options.what == "norms":
        choices.fill(parser, options, NORMS_QUICK if options.quick else NORMS)
        options.shapes = options.shapes or choices.shapes(choices.QUICK_SHAPES if options.quick else choices.SHAPES)
    elif options.what == "recurrent":
        choices.fill(parser, options, RECURRENT_QUICK if options.quick else RECURRENT)
    return options


if __name__ == "__main__":
    try:
        main()
    except Unusable as error:
        sys.exit(f"compare.py: {error}")
