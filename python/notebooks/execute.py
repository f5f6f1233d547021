"""Executes the notebook from top to bottom, and keeps its file small.

    python python/notebooks/execute.py            run all cells and print the seconds of the slowest ones
    python python/notebooks/execute.py --write    also write the file: without outputs, except the pictures of cells tagged keep-output

Needs `pip install './python[notebook]'`.
"""

import argparse
import pathlib
import sys
import time

import nbclient
import nbformat

NOTEBOOK = pathlib.Path(__file__).parent / "layer_normalization.ipynb"
KEEP = "keep-output"
CELL_SECONDS = 120


def read(path=NOTEBOOK):
    return nbformat.read(path, as_version=4)


def execute(notebook, timeout=CELL_SECONDS):
    """Executes all cells in place and returns the seconds of each code cell by its id. Raises CellExecutionError."""
    started, spent = {}, {}
    client = nbclient.NotebookClient(
        notebook,
        timeout=timeout,
        kernel_name="python3",
        resources={"metadata": {"path": str(NOTEBOOK.parent)}},
        on_cell_execute=lambda cell, cell_index: started.update({cell["id"]: time.perf_counter()}),
        on_cell_executed=lambda cell, cell_index, execute_reply: spent.update(
            {cell["id"]: time.perf_counter() - started[cell["id"]]}
        ),
    )
    client.execute()
    return {name: seconds for name, seconds in spent.items() if name in code_ids(notebook)}


def code_ids(notebook):
    return {cell["id"] for cell in notebook.cells if cell.cell_type == "code"}


def kept(cell):
    """The outputs of a cell that belong into the file: pictures, if the cell is tagged."""
    if KEEP not in cell.metadata.get("tags", []):
        return []
    return [nbformat.from_dict(picture(output)) for output in cell.outputs if "image/png" in output.get("data", {})]


def picture(output):
    data = {"image/png": output["data"]["image/png"], "text/plain": "<Figure>"}
    return {"output_type": "display_data", "metadata": {}, "data": data}


def stripped(notebook):
    """A copy as it belongs into the repository."""
    copy = nbformat.from_dict(notebook)
    for cell in copy.cells:
        if cell.cell_type == "code":
            cell.outputs = kept(cell)
            cell.execution_count = None
            cell.metadata.pop("execution", None)
    return copy


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the file with the pictures that it keeps")
    options = parser.parse_args()
    notebook = read()
    spent = execute(notebook)
    for name, seconds in sorted(spent.items(), key=lambda each: -each[1])[:8]:
        print(f"{seconds:6.1f} s  {name}")
    print(f"{sum(spent.values()):6.1f} s  all {len(spent)} cells")
    if options.write:
        nbformat.write(stripped(notebook), NOTEBOOK)
        print(f"{NOTEBOOK.stat().st_size:,} bytes written to {NOTEBOOK.name}")


if __name__ == "__main__":
    sys.exit(main())
