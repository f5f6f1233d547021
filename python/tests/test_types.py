"""Types of the public names, the stub of the extension module, and docstrings of all public names."""

import ast
import inspect
import pathlib
import subprocess
import sys

import pytest

import layernorm

HERE = pathlib.Path(__file__).parent
PACKAGE = pathlib.Path(layernorm.__file__).parent
# Functions of the fast path, which only one file calls.
UNTYPED = {"rows_forward", "rows_backward"}


def arguments(node):
    """Returns the names of a stub's positional and of its keyword-only arguments."""
    return [a.arg for a in [*node.args.posonlyargs, *node.args.args]], [a.arg for a in node.args.kwonlyargs]


def signature(function):
    found = inspect.signature(function).parameters.values()
    named = [p.name for p in found if p.kind == p.KEYWORD_ONLY]
    return [p.name for p in found if p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD)], named


def defaults(node):
    """Returns the defaults of a stub's arguments by name, where they are written out."""
    given = zip(reversed([*node.args.posonlyargs, *node.args.args]), reversed(node.args.defaults))
    given = [*given, *((a, d) for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults) if d is not None)]
    return {a.arg: d.value for a, d in given if isinstance(d, ast.Constant) and d.value is not ...}


def test_the_stub_of_the_extension_module():
    module = layernorm._core
    tree = ast.parse((PACKAGE / "_core.pyi").read_text())
    functions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    classes = {n.name: n for n in tree.body if isinstance(n, ast.ClassDef)}
    public = set(getattr(module, "__all__", [n for n in vars(module) if not n.startswith("_")]))
    assert public <= functions.keys() | classes.keys()
    for name, node in functions.items():
        if name not in UNTYPED:
            assert arguments(node) == signature(getattr(module, name)), name
            found = {p.name: p.default for p in inspect.signature(getattr(module, name)).parameters.values()}
            assert all(found[a] == d for a, d in defaults(node).items()), name
    for name, node in classes.items():
        methods(getattr(module, name), node)


def methods(cls, node):
    for method in node.body:
        if not isinstance(method, ast.FunctionDef) or method.name == "__new__":
            continue
        found = inspect.getattr_static(cls, method.name)
        found = found.__func__ if isinstance(found, (classmethod, staticmethod)) else found
        assert arguments(method) == signature(found), f"{cls.__name__}.{method.name}"


def public_functions():
    """Yields the public functions, and the public methods of public classes."""
    for module, name in documented():
        what = getattr(module, name)
        if inspect.isfunction(what):
            yield what
        for cls in what.__mro__ if inspect.isclass(what) else ():
            for key, member in vars(cls).items() if cls.__module__.startswith("layernorm") else ():
                member = member.__func__ if isinstance(member, classmethod) else member
                if inspect.isfunction(member) and (key == "__init__" or not key.startswith("_")):
                    yield member


def test_public_functions_are_annotated():
    for function in public_functions():
        found = inspect.signature(function)
        for parameter in found.parameters.values():
            assert parameter.name in ("self", "cls") or parameter.annotation is not parameter.empty, (
                function.__qualname__
            )
        assert found.return_annotation is not found.empty, function.__qualname__


def test_a_users_code_by_mypy(tmp_path):
    pytest.importorskip("mypy", reason="mypy is missing: a user's code is not checked")
    pytest.importorskip("torch", reason="PyTorch is missing: a user's code is not checked")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(HERE / "consumer.py")]
    # Not in the source folder, so that mypy finds the installed package.
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
