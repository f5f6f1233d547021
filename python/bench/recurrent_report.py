"""The page of `compare.py recurrent`: measurements as Markdown or JSON."""

import dataclasses

from race import Timing
from recurrent_cells import Size
from report import DISTURBED, facts, header, is_disturbed, render


@dataclasses.dataclass
class Run:
    """The data of a page besides its rows. `errors`: network → result → (ours, PyTorch in f32, largest number)."""

    command: str
    hoisted: bool
    tolerance: float
    errors: dict = dataclasses.field(default_factory=dict)
    others: float | None = None


@dataclasses.dataclass(frozen=True)
class Row:
    """One comparison. `timings` has `plain` and `eager` of PyTorch, `paper` and `none` of layernorm.torch, and, for whole
    sequences, `direct paper` and `direct none`."""

    cell: str
    size: Size
    threads: int
    work: str  # forward, training step or step
    timings: dict[str, Timing]
    others: float | None

    def ratio(self, over, under, kind):
        return getattr(self.timings[over], kind) / getattr(self.timings[under], kind)


def page(rows, run):
    sections = ["# Recurrent networks on the CPU: PyTorch and ours", header(run), proof(run)]
    hoisted = "and its norm " if run.hoisted else ""
    rounds = [timing.rounds for row in rows for timing in row.timings.values()]
    sections.append(
        f"Times are the best of {min(rounds)} to {max(rounds)} rounds in turns, the median in brackets, and so are the "
        "ratios. Plain is `nn.LSTM` (oneDNN) or `nn.GRU`; LN is the paper's cell in eager PyTorch, with the input's product "
        f"{hoisted}hoisted out of the loop. A training step is forward and backward to the gradients of x and all "
        "parameters, without an optimizer; a weight changes before each, so that ours packs its weights again. Rounds in "
        f"which other programs took over {DISTURBED:.0%} of the processor do not count; `~`: there were hardly any others, "
        "and the row says nothing."
    )
    passes, steps = ([row for row in rows if (row.work == "step") == single] for single in (False, True))
    if passes:
        words = "Modules of `layernorm.torch`, whole calls as users make them."
        sections.append(f"## Whole sequences, milliseconds\n\n{words}\n\n" + table(passes, 1e3))
        words = "The extension module called directly: no autograd, and results in memory that the caller keeps."
        title = "Whole sequences, ours into preallocated memory, milliseconds"
        sections.append(f"## {title}\n\n{words}\n\n" + table(passes, 1e3, "direct "))
    if steps:
        words = (
            "Batch 1, the state kept; plain is `nn.LSTMCell` or `nn.GRUCell`, ours is the cell of `layernorm.torch`. A call from "
            "Python compares all weights with the packed ones; a step from Rust does not: `layernorm bench --op lstm` times it."
        )
        sections.append(f"## One step, microseconds\n\n{words}\n\n" + table(steps, 1.0))
    disturbed = sum(map(is_disturbed, rows))
    sections.append(f"{disturbed} of {len(rows)} rows were disturbed.")
    return "\n\n".join(sections) + "\n"


def table(rows, unit, ours=""):
    """Returns the table of ours with this prefix."""
    paper, none = f"{ours}paper", f"{ours}none"
    headings = ["batch, steps, input, hidden", "cell", "threads", "pass", "torch plain", "torch LN", "ours paper"]
    headings += ["ours none", "paper / plain", "LN / paper", "none / plain"]
    body = []
    for row in rows:
        line = [", ".join(map(str, dataclasses.astuple(row.size))), row.cell, str(row.threads), row.work]
        timings = [row.timings[name] for name in ("plain", "eager", paper, none)]
        line += [f"{digits(t.best / unit)} ({digits(t.median / unit)})" for t in timings]
        mark = "~" if is_disturbed(row) else ""
        for over, under in ((paper, "plain"), ("eager", paper), (none, "plain")):
            best, median = (row.ratio(over, under, kind) for kind in ("best", "median"))
            line.append(f"{mark}{best:.2f} ({median:.2f})")
        body.append(line)
    return render(headings, body)


def digits(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def proof(run):
    words = (
        "Before anything was timed, y, dx and the gradients of all parameters of ours were compared with PyTorch's "
        f"network in float64 with the same parameters: no error above {run.tolerance:g} of the result's largest number "
        "(the reason is in recurrent_proof.py). The largest, of ours and of PyTorch in f32:"
    )
    body = []
    for name, errors in run.errors.items():
        worst = max(errors, key=lambda key: errors[key][0] / errors[key][2])
        error, peer, largest = errors[worst]
        y, y_peer, _ = errors["y"]
        body.append([name, worst, f"{error / largest:.1e}", f"{error:.1e} ({peer:.1e})", f"{y:.1e} ({y_peer:.1e})"])
    headings = ["network", "worst result", "relative", "largest difference, ours (PyTorch f32)", "that of y"]
    return f"{words}\n\n{render(headings, body)}"


def as_json(rows, run):
    """Returns the data of the page."""

    def plain(row):
        return dataclasses.asdict(row) | {"size": str(row.size), "disturbed": is_disturbed(row)}

    return facts(run) | {
        "hoisted": run.hoisted,
        "tolerance": run.tolerance,
        "errors": {name: {key: list(values) for key, values in found.items()} for name, found in run.errors.items()},
        "rows": [plain(row) for row in rows],
    }
