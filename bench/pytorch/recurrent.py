"""Recurrent networks on the CPU: PyTorch and ours, side by side in one process.

Builds the library, checks its results, then times plain PyTorch, a layer-normalized cell in PyTorch and ours in turns:
forward, a training step, and single steps.
"""

import argparse
import dataclasses
import json
import pathlib
import subprocess
import sys

import torch
from compare import say, write_whole
from machine import Others
from ours import Failed, Library, Ours
from proof import Wrong
from race import STRETCH_NS, calm_race
from recurrent_cells import GATES, VARIANTS, Problem, Size, gradients
from recurrent_ours import Network, declare
from recurrent_proof import TOLERANCE, prove, prove_steps
from recurrent_report import Row, as_json, page
from report import DISTURBED

SIZES = [Size(64, 28, 28, 128), Size(1, 28, 28, 128), Size(32, 100, 128, 256), Size(64, 100, 256, 512)]
STEPS = [Size(1, 1, 512, 512), Size(1, 1, 128, 128)]
SECONDS, ROUNDS, PATIENCE = 3.0, 9, 30.0
QUICK_SECONDS, QUICK_ROUNDS, QUICK_PATIENCE = 0.6, 3, 6.0

# A program that runs single steps has its weights in the cache: long enough that loading them does not matter.
STREAM_NS = 10_000_000


@dataclasses.dataclass
class Run:
    """The data of a page besides its rows. `errors`: network → result → (ours, PyTorch in f32, largest number)."""

    command: str
    library_version: str
    isa: str
    threads: int
    hoisted: bool
    tolerance: float
    errors: dict
    others: float | None = None


def main():
    options = parse()
    library = Library()
    declare(library)
    context = Ours(library, options.threads)
    run = Run(command(options), library.version, context.isa(), options.threads, options.hoist_norm, TOLERANCE, {})
    context.close()
    torch.set_num_threads(options.threads)
    others, rows = Others(), []
    try:
        for case in options.cases:
            for row in case.rows(library, options, run.errors):
                rows.append(row)
    except KeyboardInterrupt:
        if not rows:
            raise
    say("")
    run.others = others.share()
    text = page(rows, run)
    print(json.dumps(as_json(rows, run), indent=1) if options.json else text, end="\n" * options.json)
    if options.markdown:
        write_whole(options.markdown, text)


@dataclasses.dataclass(frozen=True)
class Case:
    """A cell and a size, as whole sequences or as single steps."""

    cell: str
    size: Size
    single: bool

    def __str__(self):
        return f"{self.cell}-step-{self.size.hidden}" if self.single else f"{self.cell}-{self.size}"

    def rows(self, library, options, errors):
        problem = Problem(self.cell, self.size, options.hoist_norm)
        ours = {variant: Network(library, problem, variant, options.threads) for variant in VARIANTS}
        for variant, network in ours.items():
            say(f"{self} {variant}: proving")
            errors[f"{self} {variant}"] = (prove_steps if self.single else prove)(self, problem, variant, network)
        contests = {"step": self.steps} if self.single else {"forward": self.forward, "training step": self.train}
        for work, contest in contests.items():
            say(f"{self}: {work}")
            with torch.inference_mode(work != "training step"):
                timings, others = calm_race(
                    contest(problem, ours),
                    options.seconds,
                    options.rounds,
                    options.threads,
                    options.patience,
                    Others,
                    DISTURBED,
                    STREAM_NS if self.single else STRETCH_NS,
                )
            yield Row(self.cell, self.size, work, **{"allocating": None, **timings}, others=others)
        for network in ours.values():
            network.close()

    def forward(self, problem, ours):
        plain, eager, x = problem.module("none"), problem.module("paper"), problem.x
        y = torch.zeros_like(problem.dy)
        return {
            "plain": lambda: plain(x),
            "paper": ours["paper"].forward(y),
            "eager": lambda: eager(x),
            "none": ours["none"].forward(y),
            "allocating": ours["paper"].forward(),
        }

    def train(self, problem, ours):
        plain, eager, dy = problem.module("none"), problem.module("paper"), problem.dy
        x = problem.x.clone().requires_grad_()
        y = torch.zeros_like(problem.dy)
        return {
            "plain": lambda: gradients(plain, x, dy),
            "paper": ours["paper"].train(y),
            "eager": lambda: gradients(eager, x, dy),
            "none": ours["none"].train(y),
            "allocating": ours["paper"].train(),
        }

    def steps(self, problem, ours):
        plain, eager, x = problem.module("none").stepper(), problem.module("paper").stepper(), problem.x[0]
        y = torch.zeros(1, self.size.hidden)
        return {
            "plain": lambda: plain(x),
            "paper": ours["paper"].step(y),
            "eager": lambda: eager(x),
            "none": ours["none"].step(y),
        }


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--threads", type=int, default=2, metavar="COUNT", help="number of threads of both sides; default: 2"
    )
    parser.add_argument(
        "--only",
        metavar="NAME,...",
        help="run cases whose names contain one of these, such as lstm-64x28 or gru-step-512",
    )
    parser.add_argument(
        "--quick", action="store_true", help=f"{QUICK_SECONDS} s and at least {QUICK_ROUNDS} rounds; for a trial run"
    )
    parser.add_argument(
        "--seconds", type=float, help=f"time of each row, with at least {ROUNDS} rounds; default: {SECONDS}"
    )
    parser.add_argument(
        "--patience",
        type=float,
        metavar="SECONDS",
        help=f"additional seconds per row to wait for calm rounds; default: {PATIENCE:g}, quick {QUICK_PATIENCE:g}",
    )
    parser.add_argument(
        "--hoist-norm", action="store_true", help="PyTorch's LN cell also normalizes its inputs for all steps at once"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of the page")
    parser.add_argument("--markdown", type=pathlib.Path, metavar="FILE", help="also write the page to this file")
    options = parser.parse_args()
    if options.threads < 1:
        parser.error(f"--threads: expected 1 or more, found {options.threads}")
    if options.seconds is not None and not 0 < options.seconds < float("inf"):
        parser.error(f"--seconds: expected a number above 0, found {options.seconds}")
    if options.patience is not None and not 0 <= options.patience < float("inf"):
        parser.error(f"--patience: expected 0 or more, found {options.patience}")
    if options.markdown and not options.markdown.absolute().parent.is_dir():
        parser.error(f"--markdown: expected a file in a folder that exists, found {options.markdown}")
    cases = [Case(cell, size, False) for cell in GATES for size in SIZES]
    cases += [Case(cell, size, True) for cell in GATES for size in STEPS]
    words = options.only.split(",") if options.only else [""]
    options.cases = [case for case in cases if any(word in str(case) for word in words)]
    if not options.cases:
        parser.error(f"--only: expected a part of {', '.join(map(str, cases))}, found {options.only}")
    seconds, options.rounds, patience = (
        (QUICK_SECONDS, QUICK_ROUNDS, QUICK_PATIENCE) if options.quick else (SECONDS, ROUNDS, PATIENCE)
    )
    options.seconds = options.seconds or seconds
    options.patience = patience if options.patience is None else options.patience
    return options


def command(options):
    """Returns the command that reproduces this page, without the output file."""
    words = ["python bench/pytorch/recurrent.py"] + ["--quick"] * options.quick
    words += [f"--only {options.only}"] if options.only else []
    words += ["--hoist-norm"] * options.hoist_norm
    words += [f"--{name} {getattr(options, name):g}" for name in ("threads", "seconds", "patience")]
    return " ".join(words)


if __name__ == "__main__":
    try:
        main()
    except (Failed, Wrong, subprocess.CalledProcessError, FileNotFoundError) as error:
        sys.exit(f"recurrent.py: {error}")
