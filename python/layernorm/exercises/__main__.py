"""The exercises in a terminal: ``python -m layernorm.exercises``."""

from __future__ import annotations

import argparse
import os
import pathlib
import sys

from . import check, get, hint, show
from ._files import Progress, Refused, load, start
from ._types import Notes, Paint, Result, Stop, plain

COUNT = 5
COLOURS = {"good": "32", "bad": "31", "note": "33", "strong": "1"}
VARIABLE = "LAYERNORM_PROGRESS"
COMMANDS = """\
commands:
  list                  titles of the exercises (also without a command)
  show N                task N
  start N [FILE]        write a template to FILE; exercise_N.py if not told
  check N FILE          check the answer in FILE
  hint N [K]            hint K of task N; the first if not told
  solution N            a solution of task N
"""


def colour(style: str, text: str) -> str:
    return f"\x1b[{COLOURS[style]}m{text}\x1b[0m"


def painter() -> Paint:
    """Colours in a terminal, none elsewhere or if NO_COLOR is set."""
    return colour if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else plain


def show_list(progress: Progress, paint: Paint) -> None:
    for number in range(1, COUNT + 1):
        mark = paint("good", "passed") if number in progress.passed else "      "
        # Only with progress is there something to mark.
        mark = f"{mark}  " if progress.path is not None else ""
        print(f"  {number}  {mark}{get(number).title:38}  {get(number).name}")
    print()
    if progress.path is None:
        print(f"Progress is not kept; --progress FILE (or {VARIABLE}=FILE) keeps it.")
    else:
        print(f"{len(progress.passed & set(range(1, COUNT + 1)))} of {COUNT} passed, by {progress.path}")
    print("Begin: python -m layernorm.exercises start 1")


def check_file(number: int, path: pathlib.Path) -> Result:
    exercise, notes = get(number), Notes()
    try:
        function = load(path, exercise, notes)
    except Stop:
        return Result(number, exercise.title, tuple(notes.findings))
    return check(number, function)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m layernorm.exercises",
        description="Five exercises about layer normalization, with checks that say what is wrong.",
        epilog=COMMANDS + "\nExit status: 0 if the answer is right, 1 if not, 2 if a command cannot be executed.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--progress",
        type=pathlib.Path,
        metavar="FILE",
        default=os.environ.get(VARIABLE) or None,
        help=f"keep in FILE which exercises were passed; default: ${VARIABLE}, or nowhere",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", help="one of the commands below")
    commands.add_parser("list")
    for name in ("show", "start", "check", "hint", "solution"):
        command = commands.add_parser(name)
        command.add_argument(
            "number", type=int, metavar="N", choices=range(1, COUNT + 1), help=f"exercise, 1 to {COUNT}"
        )
        if name == "start":
            command.add_argument("file", type=pathlib.Path, nargs="?", help="file to write")
        if name == "check":
            command.add_argument("file", type=pathlib.Path, help="file with the answer")
        if name == "hint":
            command.add_argument("which", type=int, nargs="?", default=1, metavar="K", help="hint")
    return parser.parse_args(arguments)


def run(options: argparse.Namespace) -> int:
    paint = painter()
    progress = Progress(None if options.progress is None else pathlib.Path(options.progress))
    if options.command in (None, "list"):
        show_list(progress, paint)
    elif options.command == "show":
        print(show(options.number))
    elif options.command == "hint":
        try:
            print(hint(options.number, options.which))
        except ValueError as error:
            raise Refused(str(error)) from None
    elif options.command == "solution":
        print(get(options.number).solution.source, end="")
    elif options.command == "start":
        path = options.file or pathlib.Path(f"exercise_{options.number}.py")
        start(get(options.number), path)
        print(f"{path} is written. Edit it, then: python -m layernorm.exercises check {options.number} {path}")
    else:
        return show_check(options, progress, paint)
    return 0


def show_check(options: argparse.Namespace, progress: Progress, paint: Paint) -> int:
    result = check_file(options.number, options.file)
    print(result.text(paint))
    if not result.passed:
        print(f"\nA hint: python -m layernorm.exercises hint {options.number}")
        return 1
    progress.add(options.number)
    if options.number < COUNT:
        print(f"\nNext: python -m layernorm.exercises start {options.number + 1}")
    return 0


def main() -> None:
    # Greek letters on a terminal that has none.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        status = run(parse())
    except Refused as error:
        print(f"error: {error}", file=sys.stderr)
        status = 2
    except KeyboardInterrupt:
        status = 130
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: a call that never came back to Python would be waited for.
    os._exit(status)


if __name__ == "__main__":
    main()
