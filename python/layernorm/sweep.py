"""Runs the laboratory's studies on a Ray cluster: ``python -m layernorm.sweep --out DIR study all --seeds 5``.

The runs are divided into shards, and each shard is a Ray task that calls ``layernorm study … --shard I/N`` on its machine and
returns the records. A task whose worker dies is retried. Finished shards are stored in ``DIR/shards`` and not repeated when the same
command is run again; at the end ``layernorm study merge`` unites them in ``DIR`` and makes the report. The records have the same bytes
as those of one process.

Needs Ray (``pip install 'layernorm[ray]'``) here, and the ``layernorm`` command on every machine (``--program`` sets its path).
"""

from __future__ import annotations

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

# Options of `layernorm study` that this module sets itself.
_RESERVED = (
    "--array",
    "--engine",
    "--estimate",
    "--jobs",
    "--list",
    "--open",
    "--out",
    "--port",
    "--resume",
    "--sbatch-args",
    "--serve",
    "--shard",
    "--shared",
    "--tensorboard",
)


class Failed(Exception):
    """The command failed; the message says how."""


def study_arguments(words: list[str]) -> list[str]:
    """Checks the arguments of ``layernorm study``, which may begin with the word ``study``."""
    words = words[1:] if words[:1] == ["--"] else words
    words = words[1:] if words[:1] == ["study"] else words
    for word in words:
        if word.split("=")[0] in _RESERVED:
            raise Failed(f"{word}: not available here or set by layernorm.sweep; --out comes before the word study")
    return with_absolute_data(words)


def with_absolute_data(words: list[str]) -> list[str]:
    """Makes the path of ``--data`` absolute, because Ray's workers have another working folder."""
    found = list(words)
    for i, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name == "--data" and equals:
            found[i] = f"--data={pathlib.Path(value).absolute()}"
        elif i > 0 and words[i - 1] == "--data":
            found[i] = str(pathlib.Path(word).absolute())
    return found


def absolute_program(program: str) -> str:
    """Makes a path absolute; a name without a folder is looked up on each machine's ``PATH``."""
    return str(pathlib.Path(program).absolute()) if len(pathlib.Path(program).parts) > 1 else program


def run_shard(program: str, words: list[str], number: int, count: int) -> dict[str, bytes]:
    """Executes a shard in a temporary folder and returns its files by name."""
    with tempfile.TemporaryDirectory(prefix="layernorm-shard-") as folder:
        command = [program, "study", *words, "--shard", f"{number}/{count}", "--jobs", "1", "--out", folder]
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except OSError as error:
            raise Failed(f"{program}: {error}; --program sets the path of the layernorm command") from None
        if done.returncode != 0:
            raise Failed(f"shard {number}/{count} ended with status {done.returncode}: {done.stderr.strip()}")
        root = pathlib.Path(folder)
        paths = [path for path in root.rglob("*") if path.is_file() and path.name != ".lock"]
        return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}


def store(files: dict[str, bytes], folder: pathlib.Path) -> None:
    """Writes a shard's files: all of them or none."""
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    for name, data in files.items():
        path = part / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (part / "runs").mkdir(parents=True, exist_ok=True)
    part.rename(folder)


def check_command(shards: pathlib.Path, words: list[str]) -> None:
    """Stores the command of the shards, or raises if it is another one."""
    path = shards / "command.json"
    if not path.exists():
        path.write_text(json.dumps(words) + "\n")
    elif json.loads(path.read_text()) != words:
        raise Failed(
            f"{path}: expected the shards of {words}, found those of {path.read_text().strip()}; choose another --out"
        )


def sweep(options: argparse.Namespace) -> int:
    try:
        import ray
    except ImportError:
        raise Failed("Ray is missing: pip install 'layernorm[ray]'") from None

    words = study_arguments(options.study)
    options.program = absolute_program(options.program)
    if "--full" in words:
        subprocess.run([options.program, "study", *words, "--estimate"], stdout=sys.stderr)
    ray.init(address=options.address, num_cpus=options.workers, log_to_driver=False, include_dashboard=False)
    count = options.shards or 4 * max(1, int(ray.cluster_resources().get("CPU", 1)))
    shards = options.out / f"shards-{count}"
    shards.mkdir(parents=True, exist_ok=True)
    check_command(shards, words)
    task = ray.remote(num_cpus=1, max_retries=options.retries)(run_shard)
    numbers = [number for number in range(1, count + 1) if not (shards / str(number)).exists()]
    pending = {task.remote(options.program, words, number, count): number for number in numbers}
    done = count - len(pending)
    print(finished(done, count), file=sys.stderr)
    failures = []
    while pending:
        ready, _ = ray.wait(list(pending), num_returns=1)
        number = pending.pop(ready[0])
        try:
            store(ray.get(ready[0]), shards / str(number))
        except (ray.exceptions.RayError, Failed) as error:
            cause = getattr(error, "cause", None) or error
            failures.append(f"shard {number}: {cause}")
            continue
        done += 1
        print(finished(done, count), file=sys.stderr)
    ray.shutdown()
    if failures:
        raise Failed("\n".join([*failures, "run the same command again for the rest"]))
    folders = [str(shards / str(number)) for number in range(1, count + 1)]
    return subprocess.run([options.program, "study", "merge", str(options.out), *folders]).returncode


def finished(done: int, count: int) -> str:
    """Such as ``3 of 8 shards are finished``."""
    return f"{done} of {count} shard{'' if count == 1 else 's'} {'is' if done == 1 else 'are'} finished"


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    def positive(text: str) -> int:
        number = int(text)
        if number < 1:
            raise argparse.ArgumentTypeError(f"expected a whole number, 1 or more, found {text}")
        return number

    parser = argparse.ArgumentParser(
        prog="python -m layernorm.sweep",
        description="Run the laboratory's studies on a Ray cluster, with the records of one machine.",
    )
    parser.add_argument("--out", type=pathlib.Path, required=True, metavar="DIR", help="folder for records and report")
    parser.add_argument("--address", help="address of a Ray cluster, such as auto; default: a local one")
    parser.add_argument("--workers", type=positive, metavar="N", help="CPUs of a local cluster; default: all")
    parser.add_argument("--shards", type=positive, metavar="N", help="number of tasks; default: four per CPU")
    parser.add_argument("--retries", type=positive, default=3, metavar="N", help="retries of a task; default: 3")
    parser.add_argument("--program", default="layernorm", help="path of the layernorm command on every machine")
    parser.add_argument("study", nargs=argparse.REMAINDER, help="study and its arguments, as for `layernorm study`")
    options = parser.parse_args(arguments)
    if options.address and options.workers:
        parser.error("--workers is for a local cluster, not with --address")
    return options


def main() -> None:
    try:
        sys.exit(sweep(parse()))
    except Failed as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
