"""The page of `compare.py norms`: measurements as Markdown or JSON."""

import dataclasses

from options import Shape
from race import Timing
from report import DISTURBED, facts, geometric_mean, header, is_disturbed, render

# What is timed. `contestants` of norm_problem.py has the calls.
WORKS = ("modules forward", "modules training", "kernels forward", "kernels backward")


@dataclasses.dataclass(frozen=True)
class Row:
    """One comparison. `timings` has `torch`, `ours` and `copy`; for kernels also `given`: ours into preallocated memory."""

    shape: Shape
    dtype: str
    threads: int
    work: str
    timings: dict[str, Timing]
    # Share of the processor used by other programs, from 0 to 1, or None.
    others: float | None

    def label(self):
        return [str(self.shape), self.dtype, str(self.threads), self.work.split()[1]]


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of the rows whose work begins with `works`. `ours` is the name of our timing."""

    title: str
    words: str
    works: str
    ours: str
    faults: bool

    def ratio(self, row, kind):
        return getattr(row.timings["torch"], kind) / getattr(row.timings[self.ours], kind)


TABLES = [
    Table(
        "Modules: `layernorm.torch.LayerNorm` and `torch.nn.LayerNorm`",
        "Whole calls as users make them: forward under `no_grad`, and a training step (forward, then the gradients of x, "
        "weight and bias). Large results of ours reuse memory that the package keeps.",
        "modules",
        "ours",
        True,
    ),
    Table(
        "Kernels: both allocate their results",
        "PyTorch: `functional.layer_norm` under `no_grad` and `native_layer_norm_backward`. Ours: the extension module, called "
        "directly. Each call makes fresh result tensors with PyTorch's allocator; both pay for that memory.",
        "kernels",
        "ours",
        True,
    ),
    Table(
        "Kernels: ours into preallocated memory",
        "Ours writes to memory that the caller keeps; PyTorch is the same as above and allocates.",
        "kernels",
        "given",
        False,
    ),
]


@dataclasses.dataclass(frozen=True)
class Run:
    """The run as a whole."""

    command: str
    # The largest errors relative to their bounds, by type and result.
    parts: dict
    # Share of the processor used by other programs, from 0 to 1, or None.
    others: float | None
    # Expected number of rows; there are fewer if the run was interrupted.
    expected: int


def page(rows, run):
    sections = ["# Layer norm over the last dimension: PyTorch and ours", header(run)]
    if len(rows) < run.expected:
        sections.append(f"**Interrupted: {len(rows)} of {run.expected} rows.**")
    errors = "; ".join(
        f"{dtype}: {', '.join(f'{name} {part:.2f}' for name, part in parts.items())}"
        for dtype, parts in run.parts.items()
    )
    sections.append(
        "Before anything was timed, every element of our results was compared with PyTorch's in float64. The largest "
        f"error as a part of the derived bound: {errors}. Modules, kernels and every thread count gave the same bits."
    )
    rounds = [timing.rounds for row in rows for timing in row.timings.values()]
    sections.append(
        f"Times are microseconds a call, the best of {min(rounds)} to {max(rounds)} rounds in turns, the median in "
        "brackets. Ratio is PyTorch's time divided by ours: above 1, ours is faster. `/copy` is a time divided by that "
        "of a copy of x with the same threads."
    )
    for table in TABLES:
        if found := [row for row in rows if row.work.startswith(table.works)]:
            sections.append(f"## {table.title}\n\n{table.words}")
            sections += [render(*cells(table, found)), means(table, found), slower(table, found)]
    return "\n\n".join(sections) + "\n"


def cells(table, rows):
    headings = ["shape", "type", "threads", "pass", "PyTorch µs", "ours µs", "ratio", "PyTorch/copy", "ours/copy"]
    if table.faults:
        headings.append("page faults: PyTorch, ours")
    body = []
    for row in rows:
        pair = row.timings["torch"], row.timings[table.ours]
        line = [*row.label(), *map(times, pair), ratios(table, row)]
        line += [f"{timing.best / row.timings['copy'].best:.2f}" for timing in pair]
        if table.faults:
            line.append(", ".join("-" if t.faults is None else f"{t.faults:.0f}" for t in pair))
        body.append(line)
    return headings, body


def times(timing):
    return f"{digits(timing.best)} ({digits(timing.median)})"


def digits(microseconds):
    return f"{microseconds:.1f}" if microseconds < 1000 else f"{microseconds:.0f}"


def ratios(table, row):
    mark = "~" if is_disturbed(row) else ""
    return f"{mark}{table.ratio(row, 'best'):.2f} ({table.ratio(row, 'median'):.2f})"


def means(table, rows):
    """Returns geometric means of the ratios: over all rows and over each pass."""
    groups = {"all": rows}
    for work in dict.fromkeys(row.work for row in rows):
        groups[work.split()[1]] = [row for row in rows if row.work == work]
    texts = []
    for name, group in groups.items():
        calm = [row for row in group if not is_disturbed(row)]
        best, median = (geometric_mean([table.ratio(row, kind) for row in calm]) for kind in ("best", "median"))
        texts.append(f"{name} **{best}** ({median})")
    text = f"Geometric mean of the ratios: {', '.join(texts)}."
    if disturbed := sum(map(is_disturbed, rows)):
        text += (
            f" **{disturbed} of {len(rows)} rows were disturbed**: other programs took over {DISTURBED:.0%} of the "
            "processor meanwhile. They are marked `~` and left out of the means."
        )
    return text


def slower(table, rows):
    """Returns the rows where ours is slower, by the best or by the median time."""
    found = [row for row in rows if min(table.ratio(row, "best"), table.ratio(row, "median")) < 1]
    if not found:
        return f"Ours is slower in none of {len(rows)} rows."
    lines = [
        f"- {row.shape} {row.dtype}, threads {row.threads}, {row.work.split()[1]}: {ratios(table, row)}"
        for row in found
    ]
    return f"Ours is slower, by the best or by the median, in {len(found)} of {len(rows)} rows:\n\n" + "\n".join(lines)


def as_json(rows, run):
    """Returns the data of the page."""

    def plain(row):
        return dataclasses.asdict(row) | {"shape": str(row.shape), "disturbed": is_disturbed(row)}

    return facts(run) | {"errors": run.parts, "expected": run.expected, "rows": [plain(row) for row in rows]}
