"""The stubs: as the functions are, and as a user's code needs them. Docstrings of all that is public."""

import ast
import importlib
import inspect
import pathlib
import subprocess
import sys

import pytest

import layernorm

HERE = pathlib.Path(__file__).parent
PACKAGE = pathlib.Path(layernorm.__file__).parent
# The fast path's own: what calls them is one file.
UNTYPED = {"rows_forward", "rows_backward"}


def stub(path):
    return ast.parse((PACKAGE / path).read_text())


def arguments(node):
    """Names of a stub's arguments, and which of them can only be named."""
    return [a.arg for a in [*node.args.posonlyargs, *node.args.args]], [a.arg for a in node.args.kwonlyargs]


def signature(function):
    found = inspect.signature(function).parameters.values()
    named = [p.name for p in found if p.kind == p.KEYWORD_ONLY]
    return [p.name for p in found if p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD)], named


def defaults(node):
    """Defaults of a stub's arguments by their names, where they are written out."""
    given = zip(reversed([*node.args.posonlyargs, *node.args.args]), reversed(node.args.defaults))
    given = [*given, *((a, d) for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults) if d is not None)]
    return {a.arg: d.value for a, d in given if isinstance(d, ast.Constant) and d.value is not ...}


@pytest.mark.parametrize(
    "module, path",
    [
        ("layernorm", "__init__.pyi"),
        ("layernorm._core", "_core.pyi"),
        ("layernorm.torch", "torch/__init__.pyi"),
        ("layernorm.torch.functional", "torch/functional.pyi"),
    ],
)
def test_stubs_are_those_of_the_functions(module, path):
    if "torch" in module:
        pytest.importorskip("torch", reason="PyTorch is missing: its stubs are not compared")
    module = importlib.import_module(module)
    tree = stub(path)
    functions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    classes = {n.name: n for n in tree.body if isinstance(n, ast.ClassDef)}
    public = set(getattr(module, "__all__", [n for n in vars(module) if not n.startswith("_")]))
    assert public <= functions.keys() | classes.keys() | {"functional"}
    for name, node in functions.items():
        if name not in UNTYPED:
            expected = signature(getattr(module, name))
            assert arguments(node) == expected, name
            found = {p.name: p.default for p in inspect.signature(getattr(module, name)).parameters.values()}
            assert all(found[a] == d for a, d in defaults(node).items()), name
    for name, node in classes.items():
        if not name.startswith("_"):
            methods(getattr(module, name), node)


def methods(cls, node):
    for method in node.body:
        if not isinstance(method, ast.FunctionDef) or method.name in ("__call__", "__new__"):
            continue
        found = inspect.getattr_static(cls, method.name)
        if isinstance(found, property):
            continue
        positional, named = signature(found.__func__ if isinstance(found, (classmethod, staticmethod)) else found)
        expected = arguments(method)
        # `**options` of a class go on to its base, whose names they are.
        whole = positional + named
        takes_more = any(
            p.kind == p.VAR_KEYWORD for p in inspect.signature(getattr(cls, method.name)).parameters.values()
        )
        base = signature(cls.__mro__[1].__init__)[1] if takes_more else []
        assert expected[0] == positional and set(expected[1]) <= {*whole, *base}, f"{cls.__name__}.{method.name}"
        assert set(named) <= set(expected[1]), f"{cls.__name__}.{method.name}"


def test_a_users_code_by_mypy(tmp_path):
    pytest.importorskip("mypy", reason="mypy is missing: a user's code is not checked")
    pytest.importorskip("torch", reason="PyTorch is missing: a user's code is not checked")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(HERE / "consumer.py")]
    # Elsewhere than in the sources, so that the package is the installed one.
    found = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert found.returncode == 0, found.stdout + found.stderr
    assert (PACKAGE / "py.typed").exists()


def documented():
    yield from ((layernorm, name) for name in layernorm.__all__)
    try:
        import layernorm.torch as lt
    except ImportError:
        return
    yield from ((lt, name) for name in lt.__all__ if name != "functional")
    yield from ((lt.functional, name) for name in lt.functional.__all__)


SHAPELESS = {
    "info",
    "set_isa",
    "set_num_threads",
    "Info",
    "Conversion",
    "convert",
    "Gradients",
    "RecurrentGradients",
    "Stats",
}
SHAPELESS |= {"cached_bytes", "check_cuda", "clear_cache", "set_cache_limit"}


@pytest.mark.parametrize(
    "module, name", [pytest.param(*each, id=f"{each[0].__name__}.{each[1]}") for each in documented()]
)
def test_docstrings_say_the_shapes(module, name):
    what = getattr(module, name)
    doc = what.__doc__
    assert doc and doc is not getattr(type(what).__mro__[1], "__doc__", None)
    if name in SHAPELESS:
        return
    text = doc + (what.forward.__doc__ or "" if inspect.isclass(what) else "")  # type: ignore[attr-defined]
    assert any(mark in text for mark in ("``[", "``(", "normalized_shape``", "shape")), doc
