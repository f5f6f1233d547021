"""The package as a whole: its import, its examples, its stubs."""

import ast
import doctest
import importlib.metadata
import inspect
import pathlib
import subprocess
import sys

import layernorm
import pytest

HERE = pathlib.Path(__file__).parent


def test_import_is_quick_and_without_torch():
    # NumPy's own time does not count; the best of several, for the machine may be busy.
    code = (
        "import sys, time, numpy; start = time.perf_counter(); import layernorm;"
        "print(time.perf_counter() - start); assert 'torch' not in sys.modules"
    )
    times = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(5)]
    assert min(times) < 0.1


def test_one_version():
    assert layernorm.__version__ == importlib.metadata.version("layernorm")


def test_examples():
    assert doctest.testmod(layernorm).failed == 0


def test_examples_of_the_readme_and_of_torch():
    pytest.importorskip("torch", reason="PyTorch is missing: the README's examples are not run")
    import layernorm.torch

    assert doctest.testmod(layernorm.torch).failed == 0
    result = doctest.testfile(str(HERE.parent / "README.md"), module_relative=False)
    assert result.attempted > 15 and result.failed == 0


def arguments(node):
    """Names of a stub's arguments, and which of them can only be named."""
    return [a.arg for a in [*node.args.posonlyargs, *node.args.args]], [a.arg for a in node.args.kwonlyargs]


def test_stubs_are_those_of_the_functions():
    tree = ast.parse((pathlib.Path(layernorm.__file__).parent / "__init__.pyi").read_text())
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    public = set(layernorm.__all__)
    assert public <= functions.keys() | classes
    methods = {n.name: n for c in tree.body if isinstance(c, ast.ClassDef) and c.name == "_Recurrent" for n in c.body
               if isinstance(n, ast.FunctionDef)}
    pairs = [(getattr(layernorm, name), node) for name, node in functions.items()]
    pairs += [(getattr(layernorm.LSTM, name), node) for name, node in methods.items() if name != "variants"]
    for function, node in pairs:
        found = inspect.signature(function).parameters.values()
        named = [p.name for p in found if p.kind == p.KEYWORD_ONLY]
        assert arguments(node) == ([p.name for p in found if p.kind != p.KEYWORD_ONLY], named), node.name
