"""``layernorm.sweep`` on a real local Ray cluster of two workers, which are killed three times. ``.ci/python ray`` runs these tests.

Needs Ray and the ``layernorm`` command, whose path is in LAYERNORM_PROGRAM.
"""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("ray", reason="Ray is missing: sweeps are not tested")
PROGRAM = os.environ.get("LAYERNORM_PROGRAM", "")
if not PROGRAM:
    pytest.skip("LAYERNORM_PROGRAM is not set: sweeps are not tested", allow_module_level=True)
STUDY = ["study", "worked-example", "compare", "epsilon", "--seeds", "1"]


def sweep(out, *words, study=STUDY):
    command = [sys.executable, "-m", "layernorm.sweep", "--out", str(out), "--program", PROGRAM, *words, *study]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process):
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def records(folder):
    return {path.name: path.read_bytes() for path in (folder / "runs").glob("*.jsonl")}


def busy_worker(killed):
    """The process of a Ray worker that is executing a shard and was not killed before; None if there is none."""
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
            process = int(path.parent.name)
            if process not in killed and any(word.startswith(b"ray::run_shard") for word in words):
                return process
        except OSError:
            pass
    return None


def test_killed_workers_change_no_record(tmp_path):
    subprocess.run([PROGRAM, *STUDY, "--out", str(tmp_path / "one")], check=True, capture_output=True)
    process = sweep(tmp_path / "ray", "--workers", "2", "--shards", "8", "--retries", "6")
    start = time.monotonic()
    killed = set()
    while len(killed) < 3:
        assert process.poll() is None and time.monotonic() - start < 120, f"only {len(killed)} workers began"
        worker = busy_worker(killed)
        if worker is not None:
            os.kill(worker, signal.SIGKILL)
            killed.add(worker)
        time.sleep(0.02)
    status, out, err = ended(process)
    assert status == 0, err
    assert "8 of 8 shards are finished" in err
    assert "report.html" in out
    assert records(tmp_path / "ray") == records(tmp_path / "one")

    # Finished shards are not repeated, and those of another command are refused.
    status, _, err = ended(sweep(tmp_path / "ray", "--workers", "1", "--shards", "8"))
    assert status == 0 and err.count("finished") == 1 and "8 of 8 shards" in err, err
    status, _, err = ended(sweep(tmp_path / "ray", "--workers", "1", "--shards", "8", study=["study", "epsilon"]))
    assert status == 2 and "choose another --out" in err, err


@pytest.mark.parametrize(
    "words, study, message",
    [
        ([], ["study", "epsilon", "--shard", "1/2"], "--shard: not available here or set by layernorm.sweep"),
        ([], ["study", "epsilon", "--serve"], "--serve: not available here"),
        (["--workers", "1", "--shards", "1"], ["study", "no-such-study"], "unknown study"),
        (["--workers", "0"], STUDY, "expected a whole number, 1 or more, found 0"),
    ],
)
def test_errors(tmp_path, words, study, message):
    status, out, err = ended(sweep(tmp_path / "out", *words, study=study))
    assert status == 2 and message in err and not out, err


def test_paths_do_not_depend_on_the_folder_of_a_worker(tmp_path, monkeypatch):
    from layernorm.sweep import absolute_program, study_arguments

    monkeypatch.chdir(tmp_path)
    data = str(tmp_path / "digits")
    assert study_arguments(["study", "epsilon", "--data", "digits"]) == ["epsilon", "--data", data]
    assert study_arguments(["epsilon", "--data=digits", "--seeds", "2"]) == [
        "epsilon",
        f"--data={data}",
        "--seeds",
        "2",
    ]
    assert absolute_program("bin/layernorm") == str(tmp_path / "bin" / "layernorm")
    assert absolute_program("layernorm") == "layernorm"
