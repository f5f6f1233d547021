"""``python -m layernorm.implementations``: its inputs, its errors, and what it prints."""

import json
import subprocess
import sys

import numpy as np
import pytest

from layernorm import implementations as module


def run(*words):
    command = [sys.executable, "-m", "layernorm.implementations", "--seconds=0.01", "--shapes=4x64,3x100", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_the_inputs_are_those_of_the_study():
    # The same numbers are in the tests of the laboratory's study.
    z = module.normals(1, 64, 64).astype(np.float32)
    assert [int(bits) for bits in z[:4].view(np.uint32)] == [0x3F606428, 0xBF44B3F8, 0xBED0AAE7, 0xBC4FC214]
    many = module.normals(1, 1000, 10_000)
    # Four standard deviations of each.
    assert abs(many.mean()) < 0.04 and abs(many.std() - 1) < 0.03
    assert not np.array_equal(module.normals(2, 64, 64), module.normals(1, 64, 64))


def test_errors_are_measured_in_units_in_the_last_place():
    expected = np.array([[-1.0, 1.0, 1.5], [0.01, 1.0, -1.0]])
    y = expected.astype(np.float32)
    assert module.largest_error(y.astype(np.float64), expected.astype(np.float32).astype(np.float64)) == (0, None)
    off = y.copy()
    off[0, 1] = np.nextafter(np.float32(1), np.float32(2))
    assert module.largest_error(off, y.astype(np.float64)) == (1, None)
    # A small element is measured in the unit of a tenth of the row's largest.
    off = y.astype(np.float64)
    off[1, 0] += 2.0**-27
    assert module.largest_error(off, y.astype(np.float64)) == (1, None)


@pytest.mark.parametrize(
    "y, expected, failure",
    [
        ([[1, np.nan]], [[1.0, -1.0]], "no number"),
        ([[0, 0]], [[1.0, -1.0]], "all 0"),
        ([[1, 0]], [[0.0, 0.0]], "not 0"),
    ],
)
def test_completely_wrong_rows_have_no_error_in_units(y, expected, failure):
    assert module.largest_error(np.array(y, np.float32), np.array(expected)) == (None, failure)


def test_the_reference_is_the_formula_in_more_digits():
    z = module.normals(1, 64, 256).reshape(4, 64)
    x = (1e6 + z).astype(np.float32)
    wide = x.astype(np.longdouble)
    d = wide - wide.mean(-1, keepdims=True)
    exact = d / np.sqrt((d * d).mean(-1, keepdims=True) + np.longdouble(np.float32(1e-5)))
    np.testing.assert_allclose(module.reference(x, 1e-5), exact.astype(np.float64), rtol=0, atol=1e-9)


def test_json_has_a_line_that_tells_what_follows_and_the_results():
    done = run("--json", "--no-torch", "--inputs=0:1,1000000:1,0.1:0")
    assert (done.returncode, done.stderr) == (0, "")
    begun, found = map(json.loads, done.stdout.splitlines())
    assert begun == {"torch": False} and found["torch"] is None
    assert [(shape["rows"], shape["elements"]) for shape in found["shapes"]] == [(4, 64), (3, 100)]
    for shape in found["shapes"]:
        ours, numpy = shape["packages"]
        assert [ours["package"], numpy["package"]] == ["layernorm", "numpy"]
        assert all(package["nanoseconds_per_element"] > 0 for package in (ours, numpy))
        assert all(error["units"] < 8 for error in ours["errors"])
        assert [error["mean"] for error in numpy["errors"]] == [0, 1e6, 0.1]
        assert numpy["errors"][0]["units"] < 8 and numpy["errors"][1]["units"] > 1e4


def test_without_json_it_is_a_table():
    done = run("--no-torch", "--inputs=0:1,0:1e20")
    assert (done.returncode, done.stderr) == (0, "")
    assert "not installed" in done.stdout and done.stdout.count("numpy") == 2 and "0+1e+20z" in done.stdout


@pytest.mark.parametrize("words", [["--shapes=4"], ["--shapes=0x4"], ["--shapes=axb"], ["--inputs=1"], ["--seed=x"]])
def test_bad_arguments_are_refused(words):
    done = run(*words)
    assert done.returncode == 2 and "invalid" in done.stderr and "Traceback" not in done.stderr
