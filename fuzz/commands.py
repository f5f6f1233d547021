#!/usr/bin/env python3
"""Feeds hand-made and mutated files to the command-line program.

    python fuzz/commands.py target/release/layernorm [--count N] [--first N] [--jobs N] [--mutate PROGRAM]

A run must end with status 0, 1 or 2, without a panic, within 20 seconds and 2 GB of memory; anything else is a finding, and its file stays in fuzz/artifacts/commands. Mutated files come from fuzz's `mutate`, which has to be built first:
`cargo build --release --no-default-features --manifest-path fuzz/Cargo.toml`.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from attacks import attacks, idx, npy, of_real_models, png

HERE = Path(__file__).resolve().parent
# What a run may take, and what it can take at all.
MEGABYTES, MOST_MEGABYTES = 2000, 6000
# Of processor time; and of the clock, which other programs may slow down.
SECONDS = 20
HANGS = 200
MODELS = ("mlp", "lstm", "cnn", "transformer")


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEGABYTES * 1_000_000,) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (2 * SECONDS,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


NORMS = ("layer-norm", "rms-norm", "batch-norm", "instance-norm", "group-norm --groups 1", "layer-norm --axes 0")
# What a file of each format can be given to.
USES = {
    "npy": [f"apply {norm} --input FILE --output OUT" for norm in NORMS]
    + ["apply lstm --weights W --input FILE --output OUT"],
    "weights": ["weights show FILE", "weights show --json FILE", "apply lstm --weights FILE --input X --output OUT"]
    + [f"weights convert FILE OUT --to {to}" for to in ("native", "torch", "keras", "onnx", "contrib", "haste")],
    "model": ["predict FILE --test 3 --data DATA", "predict FILE PICTURE"],
    "png": ["predict MODEL FILE", "predict MODEL FILE --json"],
    "records": [f"report LAB {name}.jsonl" for name in ("train", "epsilon-layer-1")],
    "idx": [
        f"{use} --data DATA {name}-ubyte"
        for name in ("train-images-idx3", "t10k-images-idx3", "train-labels-idx1")
        for use in ("predict MODEL --test 0", "train --model mlp --size 2 --batch-size 4 --epochs 1 --out OUT")
    ],
}


class Commands:
    """Command lines that read a file, in a folder of their own."""

    def __init__(self, program, folder, shared):
        self.program, self.folder = program, folder
        self.places = {
            "MODEL": shared / "models/mlp/model.layernorm",
            "PICTURE": shared / "picture.png",
            "W": shared / "lstm.safetensors",
            "X": shared / "x.npy",
            "OUT": folder / "out",
            "DATA": folder / "data",
            "LAB": folder / "lab",
        }

    def of(self, kind, file, use):
        """The command line; where a program reads a folder, the file is put there under the last word."""
        words = USES[kind][use].split()
        if kind in ("idx", "records"):
            data, runs = self.folder / "data", self.folder / "lab/runs"
            for place in (data, runs, self.folder / "out"):
                shutil.rmtree(place, ignore_errors=True)
            runs.mkdir(parents=True)
            dataset(data)
            shutil.copy(file, (data if kind == "idx" else runs) / words.pop())
        places = self.places | {"FILE": file}
        return [self.program, *(places.get(word, word) for word in words)]

    def run(self, kind, file, use):
        """What is wrong with the run, if anything, and its status."""
        words = self.of(kind, file, use)
        with open(self.folder / "stderr", "w+b") as errors:
            child = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, preexec_fn=limit
            )
            timer = threading.Timer(HANGS, child.kill)
            timer.start()
            _, status, usage = os.wait4(child.pid, 0)
            timer.cancel()
            child.returncode = os.waitstatus_to_exitcode(status)
            errors.seek(0)
            message = errors.read().decode(errors="replace")
        seconds, megabytes = usage.ru_utime + usage.ru_stime, usage.ru_maxrss // 1000
        fine = child.returncode in (0, 1, 2) and "panicked" not in message
        if fine and seconds <= SECONDS and megabytes <= MEGABYTES:
            return None, child.returncode
        shown = " ".join(map(str, words))
        return f"{shown}: status {child.returncode}, {seconds:.1f} s, {megabytes} MB: {message[:300]}", child.returncode


def dataset(folder):
    """A dataset of 3×3 pixels, enough to train and test with."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, count in (("train", 40), ("t10k", 10)):
        pixels = bytes((37 * i * i) % 256 for i in range(9 * count))
        (folder / f"{part}-images-idx3-ubyte").write_bytes(idx([count, 3, 3], pixels))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(idx([count], bytes(i % 10 for i in range(count))))


def train(program, folder):
    """Small models of each kind, for images of 3×3 pixels; and a valid file of each other format."""
    dataset(folder / "data")
    seeds = folder / "seeds/model"
    seeds.mkdir(parents=True)
    for model in MODELS:
        out = folder / "models" / model
        size = {"cnn": "4", "transformer": "8"}.get(model, "4")
        words = [program, "train", "--model", model, "--size", size, "--batch-size", "4", "--epochs", "1"]
        done = subprocess.run([*words, "--data", folder / "data", "--out", out], capture_output=True)
        if done.returncode == 0:
            shutil.copy(out / "model.layernorm", seeds / model)
        else:
            print(f"{model}: no model: {done.stderr.decode(errors='replace').strip()[-200:]}")

    (folder / "picture.png").write_bytes(png(3, 3, pixels=bytes(12)))
    (folder / "x.npy").write_bytes(npy("(2, 1, 2)", data=bytes(16)))
    words = [program, "weights", "init", folder / "lstm.safetensors", "--cell", "lstm", "--variant", "paper"]
    subprocess.run([*words, "--input", "2", "--hidden", "2"], check=True, capture_output=True)


def mutated(mutate, kind, folder, options):
    """Mutated files of a format, from the kept seeds; models are mutated from real ones."""
    seeds = folder / "seeds" if kind == "model" else HERE / "seeds"
    to = folder / "mutated" / kind
    words = [mutate, "--save", to, "--format", kind, "--seeds", seeds]
    subprocess.run([*words, "--first", str(options.first), "--count", str(options.count)], check=True)
    return sorted(to.iterdir())


def play(options, folder, work):
    """Runs the program on every file: how many there were of each format and status, and what was found."""
    kept = HERE / "artifacts/commands"
    statuses, findings = Counter(), []

    def some(part):
        place = folder / f"worker-{part}"
        commands = Commands(options.program, place, folder)
        dataset(place / "data")
        for number in range(part, len(work), options.jobs):
            kind, file, use = work[number]
            finding, status = commands.run(kind, file, use)
            statuses[kind, status] += 1
            if finding:
                kept.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, kept / file.name)
                findings.append(finding)
                print(f"{kept / file.name}: {finding}", flush=True)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(some, range(options.jobs)))
    return statuses, findings


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path)
    parser.add_argument("--count", type=int, default=100, help="mutated files of each format")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--mutate", type=Path, default=HERE / "target/release/mutate")
    options = parser.parse_args()
    options.program = options.program.resolve()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        train(options.program, folder)
        work = []
        for kind, name, content in [*attacks(), *of_real_models(folder / "seeds/model")]:
            file = folder / "attacks" / name
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(content)
            work += [(kind, file, use) for use in range(len(USES[kind]))]
        if options.count:
            for kind, uses in USES.items():
                files = mutated(options.mutate, kind, folder, options)
                work += [(kind, file, number % len(uses)) for number, file in enumerate(files)]
        statuses, findings = play(options, folder, work)
    for kind in sorted({kind for kind, _ in statuses}):
        counts = {str(status): count for (of, status), count in sorted(statuses.items(), key=str) if of == kind}
        print(f"{kind:<8} {sum(counts.values()):>7} runs, by status {json.dumps(counts)}")
    print(f"{len(work)} runs, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
