"""Layer norm on the CPU: PyTorch and ours, side by side in one process.

Builds the library, checks its results, then times PyTorch, ours with newly allocated results, ours with preallocated results
and a copy in turns, and prints two tables.
"""

import argparse
import pathlib
import subprocess
import sys

import torch
from machine import Others
from ours import Failed, Library, Ours
from problem import DTYPES, Problem, Shape
from proof import Wrong, prove, same_bits
from race import race
from report import Row, Run, page

SHAPES = "64x128,4096x64,1024x768,8192x1024,4096x4096,512x16384,64x262144,65536x256"
SECONDS, ROUNDS = 1.5, 15
DIRECTIONS = ("forward", "backward")
QUICK_SHAPES, QUICK_SECONDS, QUICK_ROUNDS = "64x128,4096x64,1024x768", 0.2, 5


def main():
    options = parse()
    library = Library()
    others = Others()
    contexts = {threads: Ours(library, threads) for threads in options.threads}
    rows, parts = [], {}
    try:
        with torch.no_grad():
            for row in measurements(options, contexts, parts):
                rows.append(row)
    except KeyboardInterrupt:
        if not rows:
            raise
    say("")
    expected = len(options.shapes) * len(options.dtypes) * len(options.threads) * len(DIRECTIONS)
    isa = contexts[options.threads[0]].isa()
    text = page(rows, Run(command(options), library.version, isa, parts, others.share(), expected))
    for context in contexts.values():
        context.close()
    print(text, end="")
    if options.markdown:
        write_whole(options.markdown, text)


def measurements(options, contexts, parts):
    """Yields the rows of the tables. Adds the largest errors to `parts`, by type and result."""
    for shape in options.shapes:
        for dtype in options.dtypes:
            case = Case(Problem(shape, dtype), contexts)
            largest = parts.setdefault(dtype, {})
            for name, part in case.prove().items():
                largest[name] = max(part, largest.get(name, 0.0))
            yield from case.measure(options.seconds, options.rounds)


def write_whole(path, text):
    """Writes a file atomically."""
    part = path.with_name(path.name + ".tmp")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


class Case:
    """A shape and a type, with every thread count."""

    def __init__(self, problem, contexts):
        self.problem, self.contexts = problem, contexts
        p = problem
        # Initialized, so that pages are mapped before the timing and missing writes are noticed.
        nan = float("nan")
        self.stats = torch.full((3, p.shape.rows), nan)
        self.y = torch.full_like(p.x, nan)
        self.gradients = [torch.full_like(like, nan) for like in (p.x, p.gain, p.bias)]

    def prove(self):
        """Returns the errors relative to their bounds for the first thread count; the others must give the same bits."""
        say(f"{self.problem.shape} {self.problem.dtype}: proving")
        first, *others = self.contexts.values()
        torch.set_num_threads(max(self.contexts))
        first.forward(self.problem, self.stats, self.y)()
        first.backward(self.problem, self.stats, self.gradients)()
        parts = prove(self.problem, self.y, *self.gradients)
        for ours in [first, *others]:
            fresh = torch.full_like(self.stats, float("nan"))
            results = [ours.forward(self.problem, fresh)(), *ours.backward(self.problem, fresh)()]
            for name, result, expected in zip(parts, results, [self.y, *self.gradients]):
                if not same_bits(result, expected):
                    raise Wrong(f"{self.problem.shape} {self.problem.dtype}: {name} has other bits in another call")
        return parts

    def measure(self, seconds, rounds):
        p = self.problem
        for threads, ours in self.contexts.items():
            torch.set_num_threads(threads)
            for direction in DIRECTIONS:
                say(f"{p.shape} {p.dtype}: {direction}, threads {threads}")
                forward = direction == "forward"
                prepare = ours.forward if forward else ours.backward
                contestants = {
                    "torch": p.torch_forward() if forward else p.torch_backward(),
                    "allocating": prepare(p, self.stats),
                    "given": prepare(p, self.stats, self.y if forward else self.gradients),
                    "copy": p.copy(),
                }
                others = Others()
                timings = race(contestants, seconds, rounds, threads)
                yield Row(p.shape, p.dtype, threads, direction, **timings, others=others.share())


def parse():
    def listed(convert):
        return lambda text: list(dict.fromkeys(convert(item) for item in text.split(",")))

    def dtype(text):
        if text not in DTYPES:
            raise argparse.ArgumentTypeError(f"expected {' or '.join(DTYPES)}, found {text}")
        return text

    def positive(convert):
        def check(text):
            if not 0 < convert(text) < float("inf"):
                raise argparse.ArgumentTypeError(f"expected a number above 0, found {text}")
            return convert(text)

        return check

    def shape(text):
        try:
            return Shape.parse(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected ROWSxN, found {text}") from None

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", type=listed(shape), metavar="RxN,...", help=f"default: {SHAPES}")
    parser.add_argument("--dtypes", type=listed(dtype), default="f32,bf16", metavar="TYPE,...")
    parser.add_argument("--threads", type=listed(positive(int)), default="1,2", metavar="COUNT,...")
    parser.add_argument(
        "--seconds", type=positive(float), help=f"time of each row, with at least {ROUNDS} rounds; default: {SECONDS}"
    )
    parser.add_argument(
        "--quick", action="store_true", help=f"small shapes, {QUICK_SECONDS} s and at least {QUICK_ROUNDS} rounds"
    )
    parser.add_argument("--markdown", type=pathlib.Path, metavar="FILE", help="also write the page to this file")
    options = parser.parse_args()
    if options.markdown and not options.markdown.absolute().parent.is_dir():
        parser.error(f"--markdown: expected a file in a folder that exists, found {options.markdown}")
    shapes, seconds, options.rounds = (
        (QUICK_SHAPES, QUICK_SECONDS, QUICK_ROUNDS) if options.quick else (SHAPES, SECONDS, ROUNDS)
    )
    options.shapes = options.shapes or listed(shape)(shapes)
    options.seconds = options.seconds or seconds
    return options


def command(options):
    """Returns the command that reproduces this page, without the output file."""
    words = ["python bench/pytorch/compare.py"] + ["--quick"] * options.quick
    for name in ("shapes", "dtypes", "threads"):
        words.append(f"--{name} {','.join(map(str, getattr(options, name)))}")
    return " ".join([*words, f"--seconds {options.seconds:g}"])


def say(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        main()
    except (Failed, Wrong, subprocess.CalledProcessError, FileNotFoundError) as error:
        sys.exit(f"compare.py: {error}")
