"""``layernorm.exercises``: right and wrong answers, and the guide in the terminal."""

import doctest
import json
import os
import pathlib
import subprocess
import sys
import time

import numpy as np
import pytest

from exercise_answers import RIGHT, WRONG, never_ends, one_pass, without_keepdims
from layernorm import exercises

NUMBERS = range(1, 6)


def names(result):
    return [finding.name for finding in result.findings if finding.fails]


@pytest.mark.parametrize("number", NUMBERS)
def test_solutions_pass(number):
    result = exercises.check(number, exercises.solution(number))
    assert result.passed and not result.findings and result.details, result


@pytest.mark.parametrize("number", NUMBERS)
def test_the_source_of_a_solution_is_an_answer(number, tmp_path):
    path = tmp_path / "answer.py"
    path.write_text(exercises.solution(number).source, encoding="utf-8")
    assert "passed" in guide("check", str(number), str(path)).stdout


@pytest.mark.parametrize("number, answer", [(n, answer) for n, answers in RIGHT.items() for answer in answers])
def test_right_answers_pass(number, answer):
    result = exercises.check(number, answer)
    assert result.passed, result


@pytest.mark.parametrize(
    "number, answer, expected", WRONG, ids=[f"{n}-{'-'.join(expected)}-{i}" for i, (n, _, expected) in enumerate(WRONG)]
)
def test_wrong_answers_are_named(number, answer, expected):
    result = exercises.check(number, answer)
    assert not result.passed and names(result) == expected, result


def test_advice_does_not_fail():
    result = exercises.check(1, one_pass)
    assert result.passed and [(f.name, f.fails) for f in result.findings] == [("cancellation", False)]


def test_an_answer_that_never_ends_is_stopped(monkeypatch):
    monkeypatch.setattr("layernorm.exercises._call.CALL_SECONDS", 0.5)
    for number in (1, 5):
        start = time.monotonic()
        assert names(exercises.check(number, never_ends)) == ["too-slow"]
        assert time.monotonic() - start < 5


def test_an_answer_that_becomes_endless_in_the_race_is_stopped(monkeypatch):
    monkeypatch.setattr("layernorm.exercises._speed.RACE_LIMIT_SECONDS", 0.5)
    calls = []

    def late(x, gamma, beta, eps=1e-5):
        calls.append(1)
        while len(calls) > 3:
            pass
        return exercises.solution(1)(x, gamma, beta, eps)

    assert names(exercises.check(5, late)) == ["python-loop"]


def test_a_finding_has_the_line_of_the_answer():
    (finding,) = exercises.check(1, without_keepdims).findings
    source = pathlib.Path(without_keepdims.__code__.co_filename).read_text(encoding="utf-8").splitlines()
    assert finding.line is not None and "x.mean(-1)" in source[finding.line - 1] and "x.mean(-1)" in finding.message


def test_an_exit_in_an_answer_is_a_finding():
    def leaves(x, gamma, beta, eps=1e-5):
        sys.exit(3)

    (finding,) = exercises.check(1, leaves).findings
    assert finding.name == "raises" and "SystemExit" in finding.message


@pytest.mark.parametrize("number", NUMBERS)
def test_templates_are_not_written_yet(number):
    exercise = exercises.get(number)
    scope = {}
    exec(exercise.template, scope)
    assert names(exercises.check(number, scope[exercise.name])) == ["not-written"]


def test_texts():
    assert all(exercises.get(n).title in repr(exercises.list()) for n in NUMBERS)
    for number in NUMBERS:
        exercise = exercises.get(number)
        assert exercise.template in exercises.show(number) and exercise.title in exercises.show(number)
        assert repr(exercises.hint(number)) == f"Hint 1 of {len(exercise.hints)}: {exercise.hints[0]}"
        assert repr(exercises.solution(number)).startswith("import numpy as np")
    result = exercises.check(1, without_keepdims)
    assert "not passed yet" in repr(result) and "broadcast, line" in repr(result)
    assert np.array_equal(exercises.solution(4)(np.ones((1, 2, 3)), (2, 3), 1.0, 0.5), np.full((1, 2, 3), 0.5))


@pytest.mark.parametrize(
    "call", [lambda: exercises.show(6), lambda: exercises.check("1", None), lambda: exercises.hint(1, 9)]
)
def test_numbers_that_do_not_exist(call):
    with pytest.raises(ValueError, match="expected the number of"):
        call()


def test_examples():
    result = doctest.testmod(exercises)
    assert result.attempted and result.failed == 0


# ---- The guide in the terminal ----


def guide(*words, folder=None, **environment):
    settings = {**os.environ, "PYTHONIOENCODING": "utf-8", **environment}
    command = [sys.executable, "-m", "layernorm.exercises", *words]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        cwd=folder,
        env=settings,
        stdin=subprocess.DEVNULL,
    )


def test_from_a_template_to_a_passed_exercise(tmp_path):
    begun = guide("start", "2", folder=tmp_path)
    assert (begun.returncode, begun.stderr) == (0, "") and "exercise_2.py is written" in begun.stdout
    path = tmp_path / "exercise_2.py"
    assert "Write layer norm without γ and β" in path.read_text(encoding="utf-8")
    tried = guide("--progress", "done.json", "check", "2", path.name, folder=tmp_path)
    line = path.read_text(encoding="utf-8").splitlines().index("    raise NotImplementedError") + 1
    assert tried.returncode == 1 and f"wrong: not-written, line {line}" in tried.stdout and "hint 2" in tried.stdout
    assert not (tmp_path / "done.json").exists()

    path.write_text(guide("solution", "2").stdout, encoding="utf-8")
    passed = guide("--progress", "done.json", "check", "2", path.name, folder=tmp_path)
    assert passed.returncode == 0 and "passed" in passed.stdout and "\x1b" not in passed.stdout
    assert json.loads((tmp_path / "done.json").read_text()) == {"passed": [2]}
    assert "1 of 5 passed" in guide(folder=tmp_path, LAYERNORM_PROGRESS="done.json").stdout
    assert "Progress is not kept" in guide("list", folder=tmp_path).stdout
    assert sorted(each.name for each in tmp_path.iterdir() if each.suffix != "") == ["done.json", "exercise_2.py"]


@pytest.mark.parametrize(
    "text, line, message",
    [
        ("import numpy as np\ndef layer_norm(x, gamma:\n", 2, "SyntaxError"),
        ("import numpy as np\n\nimport no_such_module\n", 3, "no_such_module"),
        ("x = 1\ny = x / 0\n", 2, "ZeroDivisionError in `y = x / 0`"),
        ("raise SystemExit(5)\n", 1, "SystemExit"),
    ],
)
def test_files_that_do_not_import(tmp_path, text, line, message):
    path = tmp_path / "answer.py"
    path.write_text(text)
    done = guide("check", "1", str(path))
    assert done.returncode == 1 and not done.stderr
    assert f"wrong: does-not-import, line {line}" in done.stdout and message in " ".join(done.stdout.split())


def test_a_file_without_the_function(tmp_path):
    path = tmp_path / "answer.py"
    path.write_text("import numpy as np\ndef norm(x):\n    return x\n")
    done = guide("check", "1", str(path))
    assert done.returncode == 1 and "does not define layer_norm; it defines norm" in " ".join(done.stdout.split())


def test_a_file_that_never_ends(tmp_path):
    path = tmp_path / "answer.py"
    path.write_text("import time\nwhile True:\n    time.sleep(60)\n")
    start = time.monotonic()
    done = guide("check", "1", str(path))
    assert done.returncode == 1 and "import-too-slow" in done.stdout and time.monotonic() - start < 60


@pytest.mark.parametrize(
    "words, message",
    [
        (["check", "1", "missing.py"], "missing.py: there is no such file"),
        (["check", "6", "missing.py"], "invalid choice"),
        (["check", "1"], "required: file"),
        (["hint", "1", "7"], "expected the number of a hint, 1 to 3, found 7"),
        (["start", "1", "folder/answer.py"], "No such file or directory"),
        (["start", "1", "there.py"], "the file exists and is not overwritten"),
        (["--progress", "there.py", "list"], "there.py: expected progress such as"),
        (["dance"], "invalid choice"),
    ],
)
def test_commands_that_are_refused(tmp_path, words, message):
    (tmp_path / "there.py").write_text("kept")
    done = guide(*words, folder=tmp_path)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr
    assert (tmp_path / "there.py").read_text() == "kept"


def test_greek_letters_on_a_terminal_that_has_none():
    done = guide("list", PYTHONIOENCODING="ascii")
    assert done.returncode == 0 and "? and stability" in done.stdout
