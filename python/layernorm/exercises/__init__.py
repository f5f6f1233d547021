"""Five exercises about layer normalization, with checks that say what is wrong.

>>> from layernorm import exercises
>>> def layer_norm(x, gamma, beta, eps=1e-5):
...     return gamma * (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + eps) + beta
>>> result = exercises.check(1, layer_norm)     # print(result) says what is wrong, and how to repair it
>>> result.passed, result.findings[0].name
(False, 'eps-outside-root')

``exercises.list()`` shows the titles, ``exercises.show(1)`` a task, ``exercises.hint(1)`` a hint, ``exercises.solution(1)`` a solution.
``python -m layernorm.exercises`` does the same in a terminal. Only NumPy is
needed; results are also compared with PyTorch's where it is installed. Checks are bounded: they end also if a function does not.
"""

from __future__ import annotations

from typing import Any

from . import _affine, _axes, _epsilon, _scratch, _speed
from ._types import Exercise, Finding, Notes, Page, Result, Solution, Stop

_EXERCISES = {module.EXERCISE.number: module.EXERCISE for module in (_scratch, _epsilon, _affine, _axes, _speed)}

__all__ = ["Exercise", "Finding", "Page", "Result", "Solution", "check", "get", "hint", "list", "show", "solution"]


def get(number: int) -> Exercise:
    """Returns an exercise by its number.

    Raises:
        ValueError: if there is none.
    """
    if number not in _EXERCISES:
        raise ValueError(f"expected the number of an exercise, 1 to {len(_EXERCISES)}, found {number!r}")
    return _EXERCISES[number]


def list() -> Page:
    """Returns the titles of the exercises as a text."""
    lines = [f"{each.number}  {each.title:38} {each.name}" for each in _EXERCISES.values()]
    return Page(
        "\n".join([*lines, "", "exercises.show(1) shows a task, exercises.check(1, my_function) checks an answer."])
    )


def show(number: int) -> Page:
    """Returns the task of an exercise as a text."""
    return get(number).page


def hint(number: int, which: int = 1) -> Page:
    """Returns a hint of an exercise; later ones say more.

    Raises:
        ValueError: if there is none.
    """
    hints = get(number).hints
    if not 1 <= which <= len(hints):
        raise ValueError(f"expected the number of a hint, 1 to {len(hints)}, found {which!r}")
    return Page(f"Hint {which} of {len(hints)}: {hints[which - 1]}")


def solution(number: int) -> Solution:
    """Returns the solution of an exercise, which shows its source and can be called."""
    return get(number).solution


def check(number: int, function: Any) -> Result:
    """Checks an answer to an exercise.

    Args:
        number: number of the exercise.
        function: the function (in exercise 3: the class) that was written.

    Returns:
        :class:`Result`: whether the exercise is passed, and what was found. Errors of the function are findings; it is called with
        time limits.

    Raises:
        ValueError: if there is no such exercise.
    """
    exercise = get(number)
    notes = Notes()
    function = function.function if isinstance(function, Solution) else function
    try:
        if not callable(function):
            kind = type(function).__name__
            raise notes.stop(
                "not-a-function",
                f"Expected the {'class' if number == 3 else 'function'} {exercise.name} itself, found a value of type {kind}: write "
                f"check({number}, {exercise.name}), without a call.",
            )
        exercise.check(function, notes)
    except Stop:
        pass
    return Result(exercise.number, exercise.title, tuple(notes.findings), tuple(notes.details))
