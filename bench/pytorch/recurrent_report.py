"""The page of recurrent.py: measurements as Markdown or JSON."""

import dataclasses
import platform
import subprocess

import machine
import torch
from race import Timing
from recurrent_cells import Size
from report import DISTURBED, render

# Upper bound of our time relative to plain PyTorch, and lower bound of the speedup over PyTorch's layer-normalized cell.
PAPER_BAR, NONE_BAR, STEP_BAR = 1.2, 1.1, 5.0
EAGER_BARS = {(64, 28, 28, 128): 3.0, (1, 28, 28, 128): 8.0, (32, 100, 128, 256): 2.5, (64, 100, 256, 512): 1.6}


@dataclasses.dataclass(frozen=True)
class Row:
    """One comparison. `allocating` is our `paper` with allocated results (None for single steps)."""

    cell: str
    size: Size
    work: str  # forward, training step or step
    plain: Timing
    eager: Timing
    paper: Timing
    none: Timing
    allocating: Timing | None
    others: float | None

    def ratios(self):
        """Returns (numerator, denominator, bar, whether the bar is a minimum)."""
        eager = STEP_BAR if self.work == "step" else None
        if self.work == "training step":
            eager = EAGER_BARS.get(dataclasses.astuple(self.size))
        limits = self.work != "step"
        return [
            ("paper", "plain", PAPER_BAR if limits else None, False),
            ("eager", "paper", eager, True),
            ("none", "plain", NONE_BAR if limits else None, False),
        ]

    def ratio(self, over, under, kind):
        return getattr(getattr(self, over), kind) / getattr(getattr(self, under), kind)

    def is_disturbed(self):
        return self.others is not None and self.others > DISTURBED

    def verdicts(self):
        """Returns, for each ratio with a bar, whether the best times meet it. Disturbed rows do not count."""
        ratios = [] if self.is_disturbed() else self.ratios()
        return [
            (self.ratio(over, under, "best") >= bar) == least for over, under, bar, least in ratios if bar is not None
        ]


def page(rows, run):
    sections = ["# Recurrent networks on the CPU: PyTorch and ours", header(run), proof(run)]
    hoisted = "and its norm " if run.hoisted else ""
    rounds = [t.rounds for row in rows for t in (row.plain, row.eager, row.paper, row.none)]
    sections.append(
        f"Threads on both sides: {run.threads}. Times are the best of {min(rounds)} to {max(rounds)} rounds in turns, "
        "the median in brackets, and so are the ratios; ✓ and ✗ say whether the best meets the bar. Plain is `nn.LSTM` "
        f"(oneDNN) or `nn.GRU`; LN is the paper's cell in eager PyTorch, with the input's product {hoisted}hoisted out "
        "of the loop. Ours writes into given memory; for `paper alloc.` it allocates its results. A training step is "
        "forward and backward to the gradients of x and all parameters, no optimizer; ours packs its weights and sets "
        f"gradients to 0 in each. Rounds in which other programs took over {DISTURBED:.0%} of the processor do not "
        "count; `~`: there were hardly any others, and the row says nothing."
    )
    passes, steps = ([row for row in rows if (row.work == "step") == single] for single in (False, True))
    if passes:
        sections.append("## Whole sequences, milliseconds\n\n" + table(passes, 1e3))
    if steps:
        words = "Batch 1, the state kept; plain is `nn.LSTMCell` or `nn.GRUCell`."
        sections.append(f"## One step, microseconds\n\n{words}\n\n" + table(steps, 1.0))
    met = [verdict for row in rows for verdict in row.verdicts()]
    disturbed = f"{sum(row.is_disturbed() for row in rows)} of {len(rows)} rows were disturbed and not judged"
    sections.append(f"Bars met: {sum(met)} of {len(met)}; {disturbed}.")
    return "\n\n".join(sections) + "\n"


def table(rows, unit):
    allocating = rows[0].allocating is not None
    headings = ["batch, steps, input, hidden", "cell", "pass", "torch plain", "torch LN", "ours paper"]
    headings += ["paper alloc."] * allocating + ["ours none", "paper / plain", "LN / paper", "none / plain"]
    body = []
    for row in rows:
        size = ", ".join(map(str, dataclasses.astuple(row.size)))
        timings = [row.plain, row.eager, row.paper] + [row.allocating] * allocating + [row.none]
        mark = "~" if row.is_disturbed() else ""
        line = [size, row.cell, row.work] + [f"{digits(t.best / unit)} ({digits(t.median / unit)})" for t in timings]
        body.append(line + [mark + ratio(row, *parts) for parts in row.ratios()])
    return render(headings, body)


def ratio(row, over, under, bar, least):
    best, median = (row.ratio(over, under, kind) for kind in ("best", "median"))
    text = f"{best:.2f} ({median:.2f})"
    if bar is None:
        return text
    verdict = "?" if row.is_disturbed() else "✓" if (best >= bar) == least else "✗"
    return f"{text} {'≥' if least else '≤'}{bar:g} {verdict}"


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


def header(run):
    rustc = " ".join(subprocess.run(["rustc", "--version"], capture_output=True, text=True).stdout.split()[:2])
    others = "unknown" if run.others is None else f"{run.others:.0%} of it"
    capability = torch.backends.cpu.get_cpu_capability()
    lines = [
        f"Machine: {machine.describe()}; taken by other programs meanwhile: {others}",
        f"Versions: torch {torch.__version__} ({capability}), layernorm-rnn {run.library_version} ({run.isa}), "
        f"{rustc}, Python {platform.python_version()}",
        f"Command: `{run.command}`",
    ]
    return "\n".join(f"- {line}" for line in lines)


def as_json(rows, run):
    """Returns the data of the page."""

    def plain(row):
        whole = dataclasses.asdict(row)
        whole["ratios"] = [
            {"over": over, "under": under, "bar": bar, "least": least}
            | {kind: row.ratio(over, under, kind) for kind in ("best", "median")}
            for over, under, bar, least in row.ratios()
        ]
        return whole

    return {
        "machine": machine.describe(),
        "torch": torch.__version__,
        "unit": "microseconds",
        **{name: value for name, value in dataclasses.asdict(run).items() if name != "errors"},
        "errors": {name: {k: list(v) for k, v in errors.items()} for name, errors in run.errors.items()},
        "rows": [plain(row) for row in rows],
    }
