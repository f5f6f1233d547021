"""A layer-normalized LSTM that reads MNIST row by row: eager PyTorch, `layernorm.torch` and the `layernorm train` command.

All train the same network (hidden size 128, batches of 64, Adam, a decaying learning rate) on the same images, one after the
other on the same cores. In eager PyTorch it is a loop over time steps with nn.LayerNorm, as it is usually written; with
`layernorm.torch` only the LSTM is another one, and before anything is timed its outputs and gradients are compared with those
of the loop. The command trains without Python. The times include only training steps.
"""

import argparse
import gzip
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import numpy as np

import layernorm.torch
import torch
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
HIDDEN, BATCH, RATE = 128, 64, 2e-3
# Of 28 steps in f32, relative to the largest number: compare.py recurrent derives it.
TOLERANCE = 2e-5


class Cell(nn.Module):
    """The cell of the paper: LN(W x) + LN(U h) + b, and LN of c before the output."""

    def __init__(self, inputs, hidden):
        super().__init__()
        self.input = nn.Linear(inputs, 4 * hidden, bias=False)
        self.recurrent = nn.Linear(hidden, 4 * hidden, bias=False)
        self.bias = nn.Parameter(torch.zeros(4 * hidden))
        self.input_norm, self.recurrent_norm = nn.LayerNorm(4 * hidden), nn.LayerNorm(4 * hidden)
        self.cell_norm = nn.LayerNorm(hidden)
        with torch.no_grad():
            self.bias[hidden : 2 * hidden] = 1.0

    def forward(self, x, h, c):
        gates = self.input_norm(self.input(x)) + self.recurrent_norm(self.recurrent(h)) + self.bias
        i, f, g, o = gates.chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(self.cell_norm(c)), c


class Loop(nn.Module):
    """The LSTM in eager PyTorch: a loop over the rows [B, T, I]. Returns the last h [B, H]."""

    def __init__(self):
        super().__init__()
        self.cell = Cell(28, HIDDEN)

    def forward(self, images):
        h = c = images.new_zeros(images.shape[0], HIDDEN)
        for row in images.unbind(1):
            h, c = self.cell(row, h, c)
        return h


class Package(nn.Module):
    """The same by layernorm.torch."""

    def __init__(self):
        super().__init__()
        self.lstm = layernorm.torch.LSTM(28, HIDDEN, batch_first=True, variant="paper")

    def forward(self, images):
        return self.lstm(images)[1][0][0]

    def load(self, cell):
        """Takes the parameters of a Cell."""
        self.lstm.load_state_dict(
            {
                "weight_ih_l0": cell.input.weight,
                "weight_hh_l0": cell.recurrent.weight,
                "bias_gates_l0": cell.bias,
                "norm_ih_weight_l0": cell.input_norm.weight,
                "norm_ih_bias_l0": cell.input_norm.bias,
                "norm_hh_weight_l0": cell.recurrent_norm.weight,
                "norm_hh_bias_l0": cell.recurrent_norm.bias,
                "norm_c_weight_l0": cell.cell_norm.weight,
                "norm_c_bias_l0": cell.cell_norm.bias,
            }
        )


def prove():
    """Compares the two LSTMs: h, and the gradients of input and weights."""
    torch.manual_seed(2)
    loop, package = Loop(), Package()
    package.load(loop.cell)
    x, dh = torch.randn(BATCH, 28, 28, requires_grad=True), torch.randn(BATCH, HIDDEN)
    found = []
    for model, weights in (
        (loop, (loop.cell.input.weight, loop.cell.recurrent.weight)),
        (package, (package.lstm.weight_ih_l0, package.lstm.weight_hh_l0)),
    ):
        h = model(x)
        found.append([h.detach(), *torch.autograd.grad(h, (x, *weights), dh)])
    for name, expected, ours in zip(("h", "dx", "dW", "dU"), *found):
        error = ((ours - expected).abs().max() / expected.abs().max()).item()
        # Both sides round.
        if not error <= 2 * TOLERANCE:
            sys.exit(
                f"mnist.py: {name} of layernorm.torch differs from the loop's by {error:.3g} of its largest number"
            )


def read(folder, name, offset):
    paths = [p for p in folder.iterdir() if p.name.startswith(name)]
    if not paths:
        sys.exit(f"{folder}: expected a file {name}…, found none")
    data = paths[0].read_bytes()
    data = gzip.decompress(data) if paths[0].suffix == ".gz" else data
    return np.frombuffer(data, np.uint8, offset=offset)


def digits(folder, part):
    images = read(folder, f"{part}-images", 16).reshape(-1, 28, 28).astype(np.float32)
    return images, read(folder, f"{part}-labels", 8).astype(np.int64)


def train(name, reader, folder, epochs):
    """Trains with PyTorch. Returns the seconds per epoch and the accuracy on the test images."""
    torch.manual_seed(1)
    images, labels = digits(folder, "train")
    held_back = len(images) // 12
    images, labels = images[: len(images) - held_back], labels[: len(labels) - held_back]
    mean, deviation = images.mean(), images.std()
    x, y = torch.from_numpy((images - mean) / deviation), torch.from_numpy(labels)
    model = nn.Sequential(reader(), nn.Linear(HIDDEN, 10))
    optimizer = torch.optim.Adam(model.parameters(), RATE)
    steps = epochs * (len(x) // BATCH)
    falling = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - 0.9 * step / steps)
    took = 0.0
    for epoch in range(epochs):
        order = torch.randperm(len(x))
        begun = time.perf_counter()
        for at in range(0, len(x) - BATCH + 1, BATCH):
            batch = order[at : at + BATCH]
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
            falling.step()
        took += time.perf_counter() - begun
        print(f"{name}: epoch {epoch + 1}, {took / (epoch + 1):.1f} s per epoch", file=sys.stderr)
    images, labels = digits(folder, "t10k")
    x, y = torch.from_numpy((images - mean) / deviation), torch.from_numpy(labels)
    with torch.no_grad():
        right = sum((model(a).argmax(1) == b).sum().item() for a, b in zip(x.split(500), y.split(500)))
    return took / epochs, right / len(y)


def command(program, folder, epochs):
    """The same for the command."""
    program = [str(program)] if program else ["cargo", "run", "--release", "--quiet", "--"]
    words = [*program, "train", "--data", str(folder), "--epochs", str(epochs)]
    words += ["--batch-size", str(BATCH), "--lr", str(RATE), "--size", str(HIDDEN)]
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run([*words, "--out", out], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    seconds = re.search(r"took ([\d.]+) s per epoch", done.stdout)
    accuracy = re.search(r"test accuracy ([\d.]+) %", done.stdout)
    if not seconds or not accuracy:
        sys.exit(f"expected the time of an epoch and the test accuracy, found {done.stdout!r}")
    return float(seconds[1]), float(accuracy[1]) / 100


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=pathlib.Path, help="folder with the four files of MNIST")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument(
        "--pytorch-epochs", type=int, help="number of epochs for eager PyTorch, if only its time matters"
    )
    parser.add_argument("--only", metavar="NAME,...", help="train only these: eager, package, command")
    parser.add_argument("--program", type=pathlib.Path, help="the `layernorm` program; default: built by cargo")
    options = parser.parse_args()
    folder = options.data.resolve()
    program = options.program.resolve() if options.program else None
    their_epochs = options.pytorch_epochs or options.epochs
    eager = f"PyTorch {torch.__version__}, eager"
    runs = {
        "eager": (eager, their_epochs, lambda: train(eager, Loop, folder, their_epochs)),
        "package": (
            "PyTorch with layernorm.torch.LSTM",
            options.epochs,
            lambda: train("layernorm.torch", Package, folder, options.epochs),
        ),
        "command": ("layernorm train", options.epochs, lambda: command(program, folder, options.epochs)),
    }
    chosen = options.only.split(",") if options.only else list(runs)
    for name in chosen:
        if name not in runs:
            parser.error(f"--only: expected {', '.join(runs)}, found {name}")
    prove()
    print("| | s per epoch | test accuracy | epochs |\n|---|---:|---:|---:|")
    times = {}
    for name in chosen:
        title, epochs, run = runs[name]
        times[name], accuracy = run()
        print(f"| {title} | {times[name]:.1f} | {100 * accuracy:.2f} % | {epochs} |", flush=True)
    if "eager" in times:
        for name in times:
            if name != "eager":
                print(f"\n{runs[name][0]} takes {times[name] / times['eager']:.2f} times as long as eager PyTorch.")


if __name__ == "__main__":
    main()
