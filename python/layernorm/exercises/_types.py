"""What an exercise is, and what a check returns."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from textwrap import fill
from typing import Any

WIDTH = 100
Paint = Callable[[str, str], str]
"""Colours a text: ``paint(style, text)``, where the style is good, bad, note or strong."""


def plain(style: str, text: str) -> str:
    """Returns the text without colour."""
    return text


class Page(str):
    """A text that an interactive session shows as it is, without quotes."""

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True)
class Finding:
    """One thing that a check found."""

    name: str
    """What it is, as an identifier that never changes, such as ``unbiased-variance``."""
    message: str
    """What is wrong, and how to repair it."""
    fails: bool = True
    """Whether the exercise is not passed because of it; otherwise it is advice."""
    line: int | None = None
    """The line of the learner's file (or notebook cell), if it is known."""


@dataclass(frozen=True, repr=False)
class Result:
    """What a check found. In an interactive session it shows itself as a text."""

    number: int
    """The number of the exercise."""
    title: str
    """The title of the exercise."""
    findings: tuple[Finding, ...] = ()
    """What is wrong, and advice."""
    details: tuple[str, ...] = ()
    """What was measured: differences to libraries, times."""

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong. Advice does not count."""
        return not any(finding.fails for finding in self.findings)

    def text(self, paint: Paint = plain) -> str:
        """The result as a text."""
        verdict = paint("good", "passed") if self.passed else paint("bad", "not passed yet")
        lines = [f"Exercise {self.number}, {self.title}: {verdict}"]
        for finding in self.findings:
            kind = paint("bad", "wrong") if finding.fails else paint("note", "advice")
            at = "" if finding.line is None else f", line {finding.line}"
            lines.append(f"  {kind}: {paint('strong', finding.name)}{at}")
            lines += [
                fill(part, WIDTH, initial_indent="    ", subsequent_indent="    ")
                for part in finding.message.split("\n")
            ]
        lines += [f"  {detail}" for detail in self.details]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.text()


class Stop(Exception):
    """Nothing more can be checked; the reason is among the findings."""


@dataclass
class Notes:
    """Findings and measurements while a check runs."""

    findings: list[Finding] = field(default_factory=list)
    details: list[str] = field(default_factory=list)

    def add(self, finding: Finding) -> None:
        """Adds a finding, unless there is one of that name."""
        if all(finding.name != other.name for other in self.findings):
            self.findings.append(finding)

    def wrong(self, name: str, message: str, line: int | None = None) -> None:
        self.add(Finding(name, message, line=line))

    def advice(self, name: str, message: str) -> None:
        self.add(Finding(name, message, fails=False))

    def stop(self, name: str, message: str, line: int | None = None) -> Stop:
        """Adds a finding after which nothing can be checked; the caller raises the result."""
        self.wrong(name, message, line)
        return Stop()

    @property
    def clean(self) -> bool:
        return not any(finding.fails for finding in self.findings)


@dataclass(frozen=True, repr=False)
class Solution:
    """A solution: shows its source, and can be called like the function (or class) that it is."""

    function: Callable[..., Any]
    """The function or class."""

    @property
    def source(self) -> str:
        """The source, as a file that can be checked."""
        return f"import numpy as np\n\n\n{inspect.getsource(self.function)}"

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.function(*arguments, **named)

    def __repr__(self) -> str:
        return self.source


@dataclass(frozen=True)
class Exercise:
    """A task with its hints, its check and its solution."""

    number: int
    title: str
    name: str
    """The name of the function or class to write."""
    task: str
    template: str
    """The signature, as code in which the body is missing."""
    hints: tuple[str, ...]
    check: Callable[[Any, Notes], None]
    """Checks a function: adds to the notes, and raises Stop where it cannot go on."""
    solution: Solution

    @property
    def page(self) -> Page:
        """The task as a text."""
        heading = f"Exercise {self.number}: {self.title}"
        more = f"exercises.hint({self.number}, {len(self.hints)})"
        hints = f"Hints: exercises.hint({self.number}) to {more}; in a terminal: python -m layernorm.exercises hint {self.number}"
        parts = [heading, "=" * len(heading), "", self.task.strip(), "", self.template.rstrip(), "", hints]
        return Page("\n".join(parts))
