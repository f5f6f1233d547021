"""Checks event files with the real TensorBoard: `check.py PROGRAM`, in an environment that has tensorboard.

PROGRAM is `layernorm`. It trains with `--tensorboard`; TensorBoard's own readers and its server must then show what the
records say: names of runs, tags, steps and values. The last line has the number of checks.
"""

import hashlib
import io
import json
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

import numpy as np
from PIL import Image
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import plugin_data_pb2
from tensorboard.util import tensor_util

passed = 0
# More than TensorBoard would show, so that nothing is sampled.
ALL = {"tensors": 1_000_000}
PATIENCE = 120


def check(holds, words):
    global passed
    if not holds:
        sys.exit(f"FAILED: {words}")
    passed += 1


def same(found, expected, words):
    check(found == expected, f"{words}: expected {expected}, found {found}")


def records(path):
    """Settings and events of a record."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return lines[0], [line for line in lines if line["record"] == "event"], lines[-1]["record"] == "end"


def expected_scalars(events):
    """Tag to [(step, value)], for the events whose numbers are shown as they are."""
    curves, step = {}, 0

    def point(tag, value, missing=None):
        value = missing if value is None else value
        if value is not None:
            curves.setdefault(tag, []).append((step, float(np.float32(value))))

    nan = float("nan")
    for event in events:
        name, data = event["name"], event["data"]
        step = data.get("step", step)
        if name == "evaluate" and "bits" in data:
            point("bits per character/training", data["train_bits"])
            point("bits per character/validation", data["bits"], nan)
        elif name == "evaluate" and "validation" in data:
            for part in ("train", "validation"):
                if bound := data[part]:
                    part = "training" if part == "train" else part
                    point(f"bound/{part}", bound["reconstruction"] + bound["kl"])
                    point(f"reconstruction/{part}", bound["reconstruction"])
                    point(f"KL divergence/{part}", bound["kl"])
        elif name == "evaluate":
            point("loss/training", data["train_loss"])
            point("loss/validation", data["loss"], nan)
            for part, accuracy in (("training", data["train_accuracy"]), ("validation", data["accuracy"])):
                point(f"error/{part}", None if accuracy is None else 1 - accuracy)
        elif name == "test" and "bits" in data:
            point("bits per character/test", data["bits"], nan)
        elif name == "test" and "accuracy" in data:
            point("loss/test", data["loss"], nan)
            point("error/test", None if data["accuracy"] is None else 1 - data["accuracy"])
        elif name == "gradients":
            for place, norm in zip(data["places"], data["norms"]):
                point(f"gradient norm/{place}", norm)
        elif name == "moments":
            for side in ("before", "after"):
                point(f"mean {side} the norm/{data['layer']}", data[side][0], nan)
                point(f"variance {side} the norm/{data['layer']}", data[side][1], nan)
        elif name == "diverged":
            point("loss/training", nan)
    return curves


class Run:
    """A run as TensorBoard's own reader sees it, with the purges of its restarts."""

    def __init__(self, folder):
        self.events = EventAccumulator(str(folder), size_guidance=ALL, tensor_size_guidance=ALL)
        self.events.Reload()
        self.tags = self.events.Tags()["tensors"]

    def plugin(self, tag):
        return self.events.SummaryMetadata(tag).plugin_data.plugin_name

    def of(self, plugin):
        return {tag for tag in self.tags if self.plugin(tag) == plugin}

    def values(self, tag):
        return [(event.step, tensor_util.make_ndarray(event.tensor_proto)) for event in self.events.Tensors(tag)]

    def hparams(self, tag):
        return plugin_data_pb2.HParamsPluginData.FromString(self.events.SummaryMetadata(tag).plugin_data.content)


def check_scalars(run, events, name):
    curves = expected_scalars(events)
    check(curves, f"{name}: the record has numbers")
    for tag, expected in curves.items():
        found = [(step, value.item()) for step, value in run.values(tag)] if tag in run.tags else None
        check(str(found) == str(expected), f"{name}, {tag}: expected {expected}, found {found}")
    steps = [event["data"]["step"] for event in events if event["name"] == "evaluate"]
    same([step for step, _ in run.values("learning rate")], steps, f"{name}, learning rate")


def check_histograms(run, events, name):
    for tag, key in (("gain", "gain"), ("bias", "bias")):
        layers = {}
        for event in events:
            if event["name"] == "affine" and event["data"][key]:
                layers.setdefault(event["data"]["layer"], []).append((event["data"]["step"], event["data"][key]))
        for layer, expected in layers.items():
            found = run.values(f"{tag}/{layer}")
            same([step for step, _ in found], [step for step, _ in expected], f"{name}, {tag}/{layer}")
            for (_, rows), (_, numbers) in zip(found, expected):
                check(rows.shape[1] == 3 and rows[:, 2].sum() == len(numbers), f"{name}: a bucket for each number")
                inside = rows[0, 0] <= min(numbers) and rows[-1, 1] >= max(numbers)
                check(inside and (rows[1:, 0] == rows[:-1, 1]).all(), f"{name}: the edges of the buckets")


def check_images(run, events, name):
    """Images have the size that they state, and a digit's pixels are where they belong."""
    for tag in run.of("images"):
        for _, (width, height, png) in run.values(tag):
            same(Image.open(io.BytesIO(png)).size, (int(width), int(height)), f"{name}, {tag}")
    digits = [event["data"] for event in events if event["name"] == "digits"]
    if not digits:
        return
    sheets = run.values("generated digits")
    same([step for step, _ in sheets], [data["step"] for data in digits], f"{name}, generated digits")
    first = digits[-1]["images"][-1][0]
    side = int(len(first) ** 0.5)
    pixels = np.asarray(Image.open(io.BytesIO(sheets[-1][1][2])))[2 : 2 + 3 * side : 3, 2 : 2 + 3 * side : 3]
    same((pixels // 17).ravel().tolist(), [int(digit, 16) for digit in first], f"{name}: the first digit")
    check("generated digits by glimpse" in run.tags, f"{name}: digits by glimpse")


def check_settings(run, header, events, finished, name):
    text = run.values("settings")[0][1].item().decode()
    shown = json.loads("".join(line.removeprefix("    ") for line in text.splitlines()))
    same(shown, header["settings"], f"{name}, settings")
    hparams = run.hparams("_hparams_/session_start_info").session_start_info.hparams
    spec = header["settings"].get("spec") or header["settings"]["draw"]
    for key in ("learning_rate", "batch_size", "steps"):
        same(hparams[key].number_value, spec[key], f"{name}, {key}")
    same(hparams["seed"].number_value, spec.get("seed", spec.get("start", {}).get("seed")), f"{name}, seed")
    if "norm" in spec:
        same(hparams["norm"].string_value, spec["norm"], f"{name}, norm")
    same("_hparams_/session_end_info" in run.tags, finished, f"{name}: the end")
    if finished:
        status = run.hparams("_hparams_/session_end_info").session_end_info.status
        diverged = any(event["name"] == "diverged" for event in events)
        same(status, 2 if diverged else 1, f"{name}: status")


def check_run(folder, record, name):
    header, events, finished = records(record)
    run = Run(folder)
    check_scalars(run, events, name)
    check_histograms(run, events, name)
    check_images(run, events, name)
    check_settings(run, header, events, finished, name)


def killed_and_resumed(program, place):
    """Events appear while training runs; after a kill, the curves continue without a step twice."""
    command = [program, *"train --model gru --size 64 --epochs 4 --out killed --tensorboard tb".split()]
    folder = place / "tb/killed"
    process = subprocess.Popen(command, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + PATIENCE
    while not (place / "killed/train.checkpoint").exists() or len(Run(folder).values("learning rate")) < 2:
        check(process.poll() is None and time.monotonic() < end, "events appear while training runs")
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    seen = len(Run(folder).values("learning rate"))
    check(2 <= seen < 9, f"the run was killed in its middle, after {seen} of 9 evaluations")
    subprocess.run(command, cwd=place, check=True, capture_output=True)
    same(len(list(folder.iterdir())), 2, "files of a resumed run")
    check_run(folder, place / "killed/train.jsonl", "killed")


def draw(folder):
    """The record of a DRAW run, which would take longer than all other checks: three images of 4×4 pixels."""
    spec = {"norms": "cell", "seed": 2, "glimpses": 2, "hidden": 4, "latent": 2, "attention": None}
    spec |= {"images": {"cropped": False, "halved": True, "permuted": False}, "learning_rate": 0.01, "batch_size": 8}
    spec |= {"steps": 10, "evaluations": 1, "data": "none", "train": 80, "validation": 8, "test": 8, "digits": 3}
    settings = {"case": "cell", "seed": 2, "full": False, "options": "", "image": [8, 8], "draw": spec}
    lines = [{"record": "start", "version": 2, "study": "draw", "run": "draw-cell-2", "settings": settings}]

    def event(name, **data):
        lines.append({"record": "event", "name": name, "data": data})

    images = [[f"{(place * 7919 + glimpse) % 16**16:016x}" for place in range(1, 4)] for glimpse in range(2)]
    for step, glimpses in ((0, [2]), (10, [1, 2])):
        event("digits", step=step, glimpses=glimpses, images=images[: len(glimpses)])
        train = {"reconstruction": 7.5, "kl": 1.25} if step else None
        event("evaluate", step=step, train=train, validation={"reconstruction": 8.0, "kl": 0.1})
    event("test", reconstruction=7.0, kl=0.5)
    lines.append({"record": "end"})
    folder.mkdir(parents=True)
    total, text = "0" * 16, ""
    for line in (json.dumps(line, separators=(",", ":")) for line in lines):
        total = hashlib.sha256((total + line).encode()).hexdigest()[:16]
        text += f'{line[:-1]},"sum":"{total}"}}\n'
    (folder / "draw-cell-2.jsonl").write_text(text)


class Server:
    """TensorBoard on a free port of 127.0.0.1."""

    def __init__(self, folder, *options):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        arguments = ["--logdir", str(folder), "--host", "127.0.0.1", "--port", str(self.port), *options]
        tensorboard = pathlib.Path(sys.executable).with_name("tensorboard")
        self.process = subprocess.Popen([tensorboard, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def get(self, path, **query):
        url = f"http://127.0.0.1:{self.port}/data/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.read()

    def wait(self, runs):
        """Until it has read all runs."""
        end, found = time.monotonic() + PATIENCE, None
        while found != runs:
            check(self.process.poll() is None and time.monotonic() < end, f"the server shows {found}, expected {runs}")
            time.sleep(0.3)
            try:
                found = set(json.loads(self.get("plugin/scalars/tags")))
            except OSError:
                continue


def check_server(server, place, by_name):
    server.wait(set(by_name))
    tags = {plugin: json.loads(server.get(f"plugin/{plugin}/tags")) for plugin in ("scalars", "histograms", "images")}
    for name, record in by_name.items():
        for tag, expected in expected_scalars(records(record)[1]).items():
            check(tag in tags["scalars"][name], f"the server has {name}, {tag}")
            found = json.loads(server.get("plugin/scalars/scalars", run=name, tag=tag))
            found = [(step, float(value)) for _, step, value in found]
            check(str(found) == str(expected), f"the server, {name}, {tag}: expected {expected}, found {found}")
    check(tags["histograms"]["gain-bias/trained-mlp/seed-01"].keys() >= {"gain/layer 1", "bias/layer 2"}, "histograms")
    check("correlation after the norm/layer 1" in tags["images"]["correlation/mlp-layer/seed-01"], "images")
    query = {"run": "text", "tag": "sample"}
    text = json.loads(server.get("plugin/text/text", **query))[0]["text"]
    sample = [event for event in records(by_name["text"])[1] if event["name"] == "sample"][0]["data"]["text"]
    words = re.findall(r"[A-Za-z]{2,}", sample)
    check(words and all(word in text for word in words), f"the server shows the sample: {words}")


def main():
    start = time.monotonic()
    program = str(pathlib.Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as name:
        place = pathlib.Path(name)

        def run(arguments):
            subprocess.run([program, *arguments.split()], cwd=place, check=True, capture_output=True)

        run("study correlation gain-bias --seeds 1 --tensorboard tb")
        run("train --text --size 16 --steps 60 --out text --tensorboard tb")
        sgd = "train --model mlp --size 8 --norm none --optimizer sgd --lr 1e30 --steps 40 --out diverged --tensorboard tb"
        same(subprocess.run([program, *sgd.split()], cwd=place, capture_output=True).returncode, 1, "divergence")
        killed_and_resumed(program, place)
        # Records that exist get event files without training; made by hand, as DRAW takes longer.
        draw(place / "drawn/runs")
        run("report drawn --tensorboard tb")

        by_name = {out: place / out / "train.jsonl" for out in ("text", "diverged", "killed")}
        for record in [*(place / "lab-out/runs").glob("*.jsonl"), *(place / "drawn/runs").glob("*.jsonl")]:
            header = records(record)[0]
            settings = header["settings"]
            if "spec" in settings or "draw" in settings:
                by_name[f"{header['study']}/{settings['case']}/seed-{settings['seed']:02}"] = record
        check(len(by_name) > 15, f"{len(by_name)} runs")
        # TensorBoard's two ways to load files: its data server, and Python.
        servers = [Server(place / "tb", f"--load_fast={fast}") for fast in ("true", "false")]
        try:
            for run_name, record in by_name.items():
                check_run(place / "tb" / run_name, record, run_name)
            for server in servers:
                check_server(server, place, by_name)
        finally:
            for server in servers:
                server.process.terminate()
                server.process.wait()
    print(f"{passed} passed in {time.monotonic() - start:.1f}s")


if __name__ == "__main__":
    main()
