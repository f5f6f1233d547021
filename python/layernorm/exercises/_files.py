"""Files of the terminal guide: answers, templates, and the progress that is kept if asked for."""

from __future__ import annotations

import importlib.util
import json
import linecache
import os
import pathlib
import sys
from typing import Any

from ._call import CALL_SECONDS, TimedOut, bounded, explained
from ._types import Exercise, Finding, Notes, Stop

MODULE = "answer"


class Refused(Exception):
    """A command cannot be executed; the message says why."""


def load(path: pathlib.Path, exercise: Exercise, notes: Notes) -> Any:
    """Imports a file and returns the function of an exercise. Raises Stop with a finding if that fails."""
    if not path.is_file():
        raise Refused(
            f"{path}: there is no such file; `python -m layernorm.exercises start {exercise.number} {path}` creates it"
        )
    spec = importlib.util.spec_from_file_location(MODULE, path.resolve())
    if spec is None or spec.loader is None:
        raise Refused(f"{path}: expected a Python file (.py)")
    module = importlib.util.module_from_spec(spec)
    linecache.checkcache(str(path.resolve()))
    # So that dataclasses and pickle find the module, and the file its neighbours.
    sys.modules[MODULE] = module
    sys.path.insert(0, str(path.resolve().parent))
    loader = spec.loader
    try:
        bounded(lambda: loader.exec_module(module), CALL_SECONDS)
    except TimedOut:
        raise notes.stop(
            "import-too-slow", f"Importing {path.name} did not end within {CALL_SECONDS:.0f} s and was stopped."
        ) from None
    except BaseException as error:
        found = explained(error, f"Importing {path.name}")
        notes.add(Finding("does-not-import", found.message, line=found.line))
        raise Stop from None
    if hasattr(module, exercise.name):
        return getattr(module, exercise.name)
    names = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == MODULE]
    defined = ", ".join(names) if names else "nothing"
    raise notes.stop("name-missing", f"{path.name} does not define {exercise.name}; it defines {defined}.")


def start(exercise: Exercise, path: pathlib.Path) -> None:
    """Writes a template. An existing file is left as it is."""
    task = "\n".join(f"# {line}".rstrip() for line in exercise.task.strip().splitlines())
    text = (
        f"# Exercise {exercise.number}: {exercise.title}\n#\n{task}\n#\n"
        f"# Check it with: python -m layernorm.exercises check {exercise.number} {path.name}\n\n"
        f"import numpy as np\n\n\n{exercise.template}"
    )
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise Refused(f"{path}: the file exists and is not overwritten; name another one") from None
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from None


class Progress:
    """The exercises that were passed, in a JSON file that the user named; without one, nothing is kept."""

    def __init__(self, path: pathlib.Path | None) -> None:
        self.path = path
        self.passed: set[int] = set()
        if path is None or not path.exists():
            return
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            self.passed = {int(number) for number in found["passed"]}
        except (OSError, ValueError, KeyError, TypeError):
            raise Refused(
                f'{path}: expected progress such as {{"passed": [1, 2]}}; delete the file to start again'
            ) from None

    def add(self, number: int) -> None:
        """Notes that an exercise was passed; writes the file as a whole or not at all."""
        if self.path is None or number in self.passed:
            return
        self.passed.add(number)
        part = self.path.with_name(self.path.name + ".part")
        try:
            part.write_text(json.dumps({"passed": sorted(self.passed)}) + "\n", encoding="utf-8")
            os.replace(part, self.path)
        except OSError as error:
            raise Refused(f"{self.path}: {error.strerror}; the progress is not kept") from None
