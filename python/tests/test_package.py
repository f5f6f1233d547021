"""The package as a whole: its import, its examples."""

import doctest
import subprocess
import sys

import layernorm


def test_import_is_quick_and_without_torch():
    # NumPy's own time does not count; the best of several, for the machine may be busy.
    code = (
        "import sys, time, numpy; start = time.perf_counter(); import layernorm;"
        "print(time.perf_counter() - start); assert 'torch' not in sys.modules"
    )
    times = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(5)]
    assert min(times) < 0.1


def test_examples():
    assert doctest.testmod(layernorm).failed == 0
