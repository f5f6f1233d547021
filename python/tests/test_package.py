"""The package as a whole: import time, version and examples."""

import doctest
import importlib
import importlib.metadata
import pathlib
import subprocess
import sys

import pytest

import layernorm

HERE = pathlib.Path(__file__).parent


def test_import_is_quick_and_without_torch():
    # Without NumPy's own time; the best of several runs, because the machine may be busy.
    code = (
        "import sys, time, numpy; start = time.perf_counter(); import layernorm;"
        "print(time.perf_counter() - start); assert 'torch' not in sys.modules"
    )
    times = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(5)]
    assert min(times) < 0.1


def test_one_version():
    assert layernorm.__version__ == importlib.metadata.version("layernorm")


def test_examples():
    for name in ("layernorm", "layernorm._row_norms", "layernorm._channel_norms", "layernorm._recurrent"):
        result = doctest.testmod(importlib.import_module(name))
        assert result.attempted and result.failed == 0, name


def test_examples_of_the_readme_and_of_torch():
    pytest.importorskip("torch", reason="PyTorch is missing: the README's examples are not run")
    for name in ("torch", "torch._convert", "torch._modules", "torch._recurrent"):
        result = doctest.testmod(importlib.import_module(f"layernorm.{name}"))
        assert result.attempted and result.failed == 0, name
    result = doctest.testfile(str(HERE.parent / "README.md"), module_relative=False)
    assert result.attempted > 15 and result.failed == 0


@pytest.mark.parametrize("path", sorted((HERE.parent / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_examples_run(path):
    if "torch" in path.read_text():
        pytest.importorskip("torch", reason="PyTorch is missing: this example is not run")
    ran = subprocess.run([sys.executable, str(path)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout
