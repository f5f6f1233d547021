"""Turns measurements into a page of readable Markdown."""

import dataclasses
import math
import platform
import subprocess

import machine
import torch
from problem import Shape
from race import Timing

# If other programs use more of the processor than this while a row is measured, the row does not count: with two threads,
# PyTorch's calls of 10 µs then take 20 ms, because its threads spin while they wait for one that is not running.
DISTURBED = 0.1


@dataclasses.dataclass(frozen=True)
class Row:
    """One comparison: PyTorch, ours with newly allocated results, ours with preallocated results, and a copy."""

    shape: Shape
    dtype: str
    threads: int
    direction: str
    torch: Timing
    allocating: Timing
    given: Timing
    copy: Timing
    # Share of the processor used by other programs, from 0 to 1, or None.
    others: float | None

    def label(self):
        return [str(self.shape), self.dtype, str(self.threads), self.direction]

    def is_disturbed(self):
        return self.others is not None and self.others > DISTURBED


@dataclasses.dataclass(frozen=True)
class Table:
    """One of the two tables: `contestant` is the field of Row with our time."""

    title: str
    words: str
    contestant: str
    faults: bool

    def ratio(self, row, kind):
        return getattr(row.torch, kind) / getattr(getattr(row, self.contestant), kind)


TABLES = [
    Table(
        "Both allocate their results",
        "Each call makes fresh result tensors with PyTorch's allocator; both pay for that memory.",
        "allocating",
        True,
    ),
    Table(
        "Ours into given memory",
        "Ours writes to memory that the caller keeps; PyTorch is the same as above and allocates.",
        "given",
        False,
    ),
]


@dataclasses.dataclass(frozen=True)
class Run:
    """The run as a whole."""

    command: str
    library_version: str
    isa: str
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
        f"error as a part of the derived bound: {errors}. Every thread count gave the same bits."
    )
    rounds = [timing.rounds for row in rows for timing in (row.torch, row.allocating, row.given, row.copy)]
    sections.append(
        f"Times are microseconds a call, the best of {min(rounds)} to {max(rounds)} rounds in turns, the median in "
        "brackets. Ratio is PyTorch's time divided by ours: above 1, ours is faster. `/copy` is a time divided by that "
        "of a copy of x with the same threads."
    )
    for table in TABLES:
        sections.append(f"## {table.title}\n\n{table.words}")
        sections += [render(*cells(table, rows)), means(table, rows), slower(table, rows)]
    return "\n\n".join(sections) + "\n"


def cells(table, rows):
    headings = ["shape", "type", "threads", "direction", "PyTorch µs", "ours µs", "ratio", "PyTorch/copy", "ours/copy"]
    if table.faults:
        headings.append("page faults: PyTorch, ours")
    body = []
    for row in rows:
        ours = getattr(row, table.contestant)
        line = row.label() + [times(row.torch), times(ours), ratios(table, row)]
        line += [f"{timing.best / row.copy.best:.2f}" for timing in (row.torch, ours)]
        if table.faults:
            line.append(", ".join("-" if t.faults is None else f"{t.faults:.0f}" for t in (row.torch, ours)))
        body.append(line)
    return headings, body


def times(timing):
    return f"{digits(timing.best)} ({digits(timing.median)})"


def digits(microseconds):
    return f"{microseconds:.1f}" if microseconds < 1000 else f"{microseconds:.0f}"


def ratios(table, row):
    mark = "~" if row.is_disturbed() else ""
    return f"{mark}{table.ratio(row, 'best'):.2f} ({table.ratio(row, 'median'):.2f})"


def render(headings, body):
    """Returns a Markdown table with aligned columns; all but the names are right-aligned."""
    names = 2
    widths = [max(map(len, column)) for column in zip(headings, *body)]

    def line(values):
        padded = (v.ljust(w) if i < names else v.rjust(w) for i, (v, w) in enumerate(zip(values, widths)))
        return f"| {' | '.join(padded)} |"

    rule = ["-" * w if i < names else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    return "\n".join([line(headings), line(rule), *map(line, body)])


def means(table, rows):
    """Returns geometric means of the ratios: over all rows and over each direction."""
    groups = {"all": rows}
    for direction in dict.fromkeys(row.direction for row in rows):
        groups[direction] = [row for row in rows if row.direction == direction]
    texts = []
    for name, group in groups.items():
        calm = [row for row in group if not row.is_disturbed()]
        best, median = (geometric_mean([table.ratio(row, kind) for row in calm]) for kind in ("best", "median"))
        texts.append(f"{name} **{best}** ({median})")
    text = f"Geometric mean of the ratios: {', '.join(texts)}."
    if disturbed := sum(row.is_disturbed() for row in rows):
        text += (
            f" **{disturbed} of {len(rows)} rows were disturbed**: other programs took over {DISTURBED:.0%} of the "
            "processor meanwhile. They are marked `~` and left out of the means."
        )
    return text


def geometric_mean(values):
    return f"{math.exp(math.fsum(map(math.log, values)) / len(values)):.2f}" if values else "-"


def slower(table, rows):
    """Returns the rows where ours is slower, by the best or by the median time."""
    found = [row for row in rows if min(table.ratio(row, "best"), table.ratio(row, "median")) < 1]
    if not found:
        return f"Ours is slower in none of {len(rows)} rows."
    lines = [
        f"- {row.shape} {row.dtype}, threads {row.threads}, {row.direction}: {ratios(table, row)}" for row in found
    ]
    return f"Ours is slower, by the best or by the median, in {len(found)} of {len(rows)} rows:\n\n" + "\n".join(lines)


def header(run):
    rustc = " ".join(subprocess.run(["rustc", "--version"], capture_output=True, text=True).stdout.split()[:2])
    capability = torch.backends.cpu.get_cpu_capability()
    others = "unknown" if run.others is None else f"{run.others:.0%} of it"
    lines = [
        f"Machine: {machine.describe()}; taken by other programs meanwhile: {others}",
        f"Versions: torch {torch.__version__} ({capability}), layernorm {run.library_version} ({run.isa}), {rustc}, "
        f"Python {platform.python_version()}",
        f"Command: `{run.command}`",
    ]
    return "\n".join(f"- {line}" for line in lines)
