"""Options of compare.py, and the sizes that they name. Needs no PyTorch."""

import argparse
import dataclasses
import pathlib

SHAPES = "64x128,4096x64,1024x768,8192x1024,4096x4096,512x16384,64x262144,65536x256"
QUICK_SHAPES = "64x128,4096x64,1024x768"
DTYPES = ("f32", "bf16")


class Unusable(Exception):
    """A result is wrong, or an option matches nothing: there is nothing to time."""


@dataclasses.dataclass(frozen=True)
class Shape:
    """R rows of N elements."""

    rows: int
    n: int

    def __str__(self):
        return f"{self.rows}x{self.n}"


@dataclasses.dataclass(frozen=True)
class Defaults:
    """Minimum seconds and rounds of each row, and additional seconds to wait for calm rounds."""

    seconds: float
    rounds: int
    patience: float


def listed(convert):
    return lambda text: list(dict.fromkeys(convert(item) for item in text.split(",")))


def positive(convert, or_zero=False):
    def check(text):
        value = convert(text)
        if not (0 < value < float("inf") or (or_zero and value == 0)):
            expected = "0 or more" if or_zero else "a number above 0"
            raise argparse.ArgumentTypeError(f"expected {expected}, found {text}")
        return value

    return check


def _shape(text):
    try:
        rows, n = map(int, text.split("x"))
    except ValueError:
        rows = n = 0
    if rows < 1 or n < 1:
        raise argparse.ArgumentTypeError(f"expected ROWSxN, found {text}")
    return Shape(rows, n)


def _dtype(text):
    if text not in DTYPES:
        raise argparse.ArgumentTypeError(f"expected {' or '.join(DTYPES)}, found {text}")
    return text


shapes, dtypes = listed(_shape), listed(_dtype)


def add_common(parser, usual, quick, example):
    """Adds the options that `norms` and `recurrent` share."""
    parser.add_argument(
        "--threads",
        type=listed(positive(int)),
        default="1,2",
        metavar="COUNT,...",
        help="number of threads of both sides; default: 1,2",
    )
    parser.add_argument("--only", metavar="NAME,...", help=f"run rows whose names contain one of these: {example}")
    parser.add_argument(
        "--seconds",
        type=positive(float),
        help=f"time of each row, with at least {usual.rounds} rounds; default: {usual.seconds:g}",
    )
    parser.add_argument(
        "--patience",
        type=positive(float, or_zero=True),
        metavar="SECONDS",
        help=f"additional seconds per row to wait for rounds without other programs; default: {usual.patience:g}",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"for a trial run: {quick.seconds:g} s and at least {quick.rounds} rounds per row",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of the page")
    parser.add_argument("--markdown", type=pathlib.Path, metavar="FILE", help="also write the page to this file")


def fill(parser, options, defaults):
    """Sets what was not given, and checks the rest."""
    options.rounds = defaults.rounds
    options.seconds = options.seconds or defaults.seconds
    if options.patience is None:
        options.patience = defaults.patience
    if options.markdown and not options.markdown.absolute().parent.is_dir():
        parser.error(f"--markdown: expected a file in a folder that exists, found {options.markdown}")


def chosen(names, only):
    """Returns the names that contain one of the words of --only."""
    words = only.split(",") if only else [""]
    found = [name for name in names if any(word in name for word in words)]
    if not found:
        raise Unusable(f"--only: expected a part of {', '.join(names)}, found {only}")
    return found


def command(options):
    """Returns the command that repeats this run, without the output file."""
    words = [f"python python/bench/compare.py {options.what}"] + ["--quick"] * options.quick
    for name in ("shapes", "dtypes", "threads"):
        if hasattr(options, name):
            words.append(f"--{name} {','.join(map(str, getattr(options, name)))}")
    words += [f"--only {options.only}"] if options.only else []
    words += ["--hoist-norm"] * getattr(options, "hoist_norm", False)
    return " ".join([*words, f"--seconds {options.seconds:g}", f"--patience {options.patience:g}"])
