"""What the pages of all comparisons share."""

import json
import math
import platform
import sys

import layernorm
import machine
import torch

# If other programs use more of the processor than this while a row is measured, the row does not count: with two threads,
# PyTorch's calls of 10 µs then take 20 ms, because its threads spin while they wait for one that is not running.
DISTURBED = 0.1


def is_disturbed(row):
    return row.others is not None and row.others > DISTURBED


def render(headings, body):
    """Returns a Markdown table with aligned columns; all but the names are right-aligned."""
    names = 2
    widths = [max(map(len, column)) for column in zip(headings, *body)]

    def line(values):
        padded = (v.ljust(w) if i < names else v.rjust(w) for i, (v, w) in enumerate(zip(values, widths)))
        return f"| {' | '.join(padded)} |"

    rule = ["-" * w if i < names else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    return "\n".join([line(headings), line(rule), *map(line, body)])


def geometric_mean(values):
    return f"{math.exp(math.fsum(map(math.log, values)) / len(values)):.2f}" if values else "-"


def header(run):
    others = "unknown" if run.others is None else f"{run.others:.0%} of it"
    lines = [
        f"Machine: {machine.describe()}; taken by other programs meanwhile: {others}",
        f"Versions: torch {torch.__version__} ({torch.backends.cpu.get_cpu_capability()}), layernorm {layernorm.__version__} "
        f"({layernorm.info().isa}), Python {platform.python_version()}",
        f"Command: `{run.command}`",
    ]
    return "\n".join(f"- {line}" for line in lines)


def facts(run):
    """Returns the header as data."""
    return {
        "machine": machine.describe(),
        "torch": torch.__version__,
        "layernorm": layernorm.__version__,
        "isa": layernorm.info().isa,
        "python": platform.python_version(),
        "command": run.command,
        "others": run.others,
        "unit": "microseconds",
    }


def publish(options, page, data):
    """Prints the page or the data, and writes the page to a file if one was named."""
    print(json.dumps(data, indent=1) if options.json else page, end="\n" * options.json)
    if options.markdown:
        # Never half-written.
        part = options.markdown.with_name(options.markdown.name + ".tmp")
        part.write_text(page, encoding="utf-8")
        part.replace(options.markdown)


def say(text):
    """Shows progress on a terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
