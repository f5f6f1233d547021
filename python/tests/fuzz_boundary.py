"""Fuzzes the public functions with random good and bad arguments, in separate processes.

    python fuzz_boundary.py [--seconds 30] [--seed 0] [--torch]
    python fuzz_boundary.py [--torch] --case SEED        repeats one case and prints its arguments

A call may raise an exception of an expected type with a message; if it returns, the result is compared with float64. Anything
else is a failure: a wrong result, another exception, a changed input, a process that crashed or hung. Every case has its own
seed. The memory of the processes is limited, so that allocations that are too large fail.
"""

from __future__ import annotations

import argparse
import importlib
import os
import resource
import subprocess
import sys
import time
import traceback
import warnings

BATCH = 2000
# Bytes of address space; PyTorch's libraries alone take several GB.
LIMIT = {"numpy": 3 << 30, "torch": 24 << 30}
PATIENCE = 120.0


class Wrong(Exception):
    """A wrong result."""


def outcome(make, seed, allowed, show=None):
    """Runs a case. Returns None, or a description of the failure."""
    import numpy as np

    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            run = make(np.random.default_rng(seed), show or (lambda *_: None))
            try:
                check = run()
            except allowed as error:
                if show:
                    show("raised", repr(error))
                return None if str(error) else f"{type(error).__name__} without a message"
            check()
    except Wrong as wrong:
        return str(wrong)
    except MemoryError:  # of the fuzzer's arrays
        return None
    except BaseException as error:  # Rust panics are not subclasses of Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        if "can't allocate memory" in str(error):  # the same, as PyTorch says it
            return None
        if show:
            traceback.print_exc()
        return f"{type(error).__name__}: {error}"
    return None


def cases(kind):
    module = importlib.import_module(f"fuzz_cases_{kind}")
    return module.make, module.ALLOWED


def batch(kind, first, seconds):
    """Runs cases in a worker process. Prints the seed before each case, to identify one that crashes."""
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT[kind], LIMIT[kind]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    make, allowed = cases(kind)
    end = time.monotonic() + seconds
    for seed in range(first, first + BATCH):
        if time.monotonic() > end:
            break
        os.write(1, f"case {seed}\n".encode())
        if wrong := outcome(make, seed, allowed):
            os.write(1, f"fail {wrong!r}\n".encode())
    os.write(1, b"done\n")


def parent(kind, seconds, seed):
    end, count, failures, first = time.monotonic() + seconds, 0, 0, seed << 32
    while time.monotonic() < end:
        left = max(end - time.monotonic(), 1.0)
        command = [sys.executable, __file__, *(["--torch"] if kind == "torch" else [])]
        command += ["--batch", str(first), "--seconds", str(left)]
        alone = dict(os.environ, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="2")
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=alone) as process:
            try:
                out, err = process.communicate(timeout=left + PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
        last = first
        for line in out.splitlines():
            word, _, rest = line.partition(" ")
            if word == "case":
                last, count = int(rest), count + 1
            elif word == "fail":
                failures += 1
                print(f"seed {last}: {rest}", flush=True)
        if not out.endswith("done\n"):
            failures += 1
            print(f"seed {last}: the process ended with status {process.returncode}\n{err[-2000:]}", flush=True)
            first = last + 1
        else:
            first += BATCH
    print(f"{count} cases, {failures} failures")
    return count, failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--torch", action="store_true", help="fuzz layernorm.torch instead of the NumPy functions")
    parser.add_argument("--case", type=int, help="run one case and print its arguments")
    parser.add_argument("--batch", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    kind = "torch" if options.torch else "numpy"
    if options.batch is not None:
        return batch(kind, options.batch, options.seconds)
    if options.case is not None:
        resource.setrlimit(resource.RLIMIT_AS, (LIMIT[kind], LIMIT[kind]))
        make, allowed = cases(kind)
        wrong = outcome(make, options.case, allowed, lambda *what: print(*what, flush=True))
        sys.exit(wrong and f"failure: {wrong}")
    count, failures = parent(kind, options.seconds, options.seed)
    sys.exit(1 if failures or not count else 0)


if __name__ == "__main__":
    # Run as the module that the cases import, so that there is only one class `Wrong`.
    importlib.import_module("fuzz_boundary").main()
