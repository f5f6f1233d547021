"""The notebook runs from top to bottom, its texts say what its figures show, and its file is small. `.ci/python notebook` runs this."""

import execute
import nbformat
import pytest

from layernorm import exercises

MOST_BYTES = 300_000

# What the texts claim, as code that runs in the notebook after its last cell.
CLAIMS = """
assert np.abs(normalized[0] - normalized[1]).max() < 1e-5 and not normalized[2].any()
assert times["loop over rows"] > 20 * times["NumPy formula"]
for name in ("MLP", "LSTM", "CNN", "Transformer"):
    last = {kind: np.mean(curves[name, kind][-20:]) for kind in NORMS}
    assert max(last["batch"], last["layer"]) < last["none"], (name, last)
assert np.allclose(radii["layer"], np.sqrt(3), atol=1e-2) and radii["none"].max() > 2 * radii["none"].min()
assert flow["none"][0, 0] < 1e-2 * flow["none"][0, -1]
assert all(f.max() < 30 * f.min() for kind in ("batch", "layer") for f in (flow[kind][0], flow[kind][-1]))
assert all(reached[kind][1] > reached["none"][1] + 30 for kind in ("batch", "layer"))
assert reached["none"][5] > 80 > reached["layer"][5]
assert small[1, "batch"] is None and small[1, "layer"] > 90 and small[2, "batch"] < small[2, "layer"] - 10
assert all(torch.equal(norm(test_x[:size])[0], norm(test_x)[0]) for size in (1, 2, 64))
"""


@pytest.fixture(scope="module")
def executed():
    notebook = execute.read()
    claims = nbformat.v4.new_code_cell(CLAIMS)
    claims["id"] = "claims"
    notebook.cells.append(claims)
    spent = execute.execute(notebook)
    print(f"{sum(spent.values()):.0f} s")
    return {cell["id"]: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}


def text(outputs):
    return "".join(output.get("text", "") + output.get("data", {}).get("text/plain", "") for output in outputs)


def test_it_runs_without_warnings(executed):
    loud = {
        name: text(outputs) for name, outputs in executed.items() if any(o.get("name") == "stderr" for o in outputs)
    }
    assert not loud


@pytest.mark.parametrize("number", range(1, 6))
def test_exercises_are_those_of_the_package(executed, number):
    exercise = exercises.get(number)
    source = next(cell.source for cell in execute.read().cells if cell.get("id") == f"exercise-{number}")
    assert source.split() == f"{exercise.template}\nexercises.check({number}, {exercise.name})".split()
    assert "not-written" in text(executed[f"exercise-{number}"])


def test_figures(executed):
    kinds = {
        name: {kind for output in outputs for kind in output.get("data", {})} for name, outputs in executed.items()
    }
    pictures = (
        "rows-or-columns",
        "epsilon",
        "gain-and-bias",
        "speed",
        "losses",
        "correlation",
        "cloud",
        "gradient-flow",
        "learning-rates",
    )
    assert all("image/png" in kinds[name] for name in pictures)
    assert "text/html" in kinds["animated-loss"] and "<script" in executed["animated-loss"][-1]["data"]["text/html"]
    for name in ("cloud-interactive", "gradient-flow-animated"):
        assert "application/vnd.plotly.v1+json" in kinds[name]


def test_the_file_is_small_and_without_outputs():
    notebook = execute.read()
    assert execute.NOTEBOOK.stat().st_size <= MOST_BYTES
    assert execute.stripped(notebook) == notebook, "python python/notebooks/execute.py --write removes the outputs"
