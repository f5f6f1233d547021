"""Compares layernorm.torch on a GPU with PyTorch, torch.compile and cuDNN: checks the results, then prints one table.

    python bench/gpu/compare.py [--quick] [--only check norms recurrent] [--seconds 280] [--types bf16 tf32 f32 f16]

Norms: tensors of 512 MiB; bandwidth of the bytes that must move (forward: x and y; backward: x, dy and dx) relative to a device
copy; torch.compile at a few sizes, because compilation takes seconds each. Recurrent: T = 256 steps, as many inputs as hidden
units, microseconds per step of whole calls: forward without gradients, and forward with backward (gradients of input and
parameters). Both sides have the same precision: tf32 is float32 with torch.backends.cudnn.allow_tf32, which is PyTorch's default
for recurrent layers and which layernorm.torch follows; f32 is float32 without it. Times are medians of CUDA events. Kernels are
compiled in advance, on all cores. --seconds limits the total time; cases that do not fit are skipped and reported.
"""

import argparse
import os
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor


def main():
    """Returns 0 if all checks pass, 1 if not, 2 without a GPU. Parses the command line before CUDA is loaded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few sizes, bf16 and tf32")
    parser.add_argument(
        "--only", nargs="+", default=["check", "norms", "recurrent"], choices=["check", "norms", "recurrent", "ready"]
    )
    parser.add_argument(
        "--types", nargs="+", default=None, choices=["bf16", "tf32", "f32", "f16"], help="types of the recurrent part"
    )
    parser.add_argument("--seconds", type=float, default=280.0)
    parser.add_argument(
        "--compile-until", type=float, default=None, help="seconds after which torch.compile is skipped"
    )
    options = parser.parse_args()
    try:
        import layernorm.torch
        import torch
    except ImportError as error:
        print(f"PyTorch and the package layernorm are needed: {error}", file=sys.stderr)
        return 2
    if not torch.cuda.is_available():
        print("a GPU is needed: no NVIDIA GPU that PyTorch can use", file=sys.stderr)
        return 2
    return compare(options, torch, layernorm.torch)


def compare(options, torch, lt):
    """Runs the selected parts."""
    import compare_norms
    import compare_recurrent
    from compare_common import FAILED, elapsed

    options.compile_until = options.seconds / 2 if options.compile_until is None else options.compile_until
    sizes = compare_norms.QUICK_SIZES if options.quick else compare_norms.SIZES
    types = options.types or (["bf16", "tf32"] if options.quick else ["bf16", "tf32", "f32", "f16"])
    hidden, batches = ([512, 1024], [16]) if options.quick else (compare_recurrent.HIDDEN, compare_recurrent.BATCHES)
    print(
        f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}"
    )
    found = compare_recurrent.cases(types, hidden, batches)
    warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous chunk")
    # A first call finds the kernel compiler and initializes the device for all threads.
    lt.functional.layer_norm(torch.ones(1, 4, device="cuda"), (4,))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        if {"check", "recurrent", "ready"} & {*options.only}:
            compare_recurrent.make_ready(pool, found)
        if "check" in options.only:
            compare_norms.check_norms(pool, sizes)
            compare_recurrent.check_recurrent(types, hidden)
    if {"norms", "ready"} & {*options.only}:
        compare_norms.make_norms_ready(sizes)
    if "norms" in options.only:
        compare_norms.norms(options, sizes)
    if "recurrent" in options.only:
        compare_recurrent.recurrent(options, found)
    print(f"\n{elapsed():.0f} s; {'failed: ' + '; '.join(FAILED) if FAILED else 'all checks hold'}")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
