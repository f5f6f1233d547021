"""A layer-normalized LSTM that reads MNIST row by row: eager PyTorch compared with `layernorm train`.

Both train the same network (hidden size 128, batches of 64, Adam, a decaying learning rate) on the same images, one after the
other on the same cores. In PyTorch it is a loop over time steps with nn.LayerNorm, as it is usually written; ours is the
command. The times include only training steps.
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

import torch
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
HIDDEN, BATCH, RATE = 128, 64, 2e-3


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


class Reader(nn.Module):
    """An LSTM over the rows of an image, with a classifier of its last state."""

    def __init__(self):
        super().__init__()
        self.cell, self.last = Cell(28, HIDDEN), nn.Linear(HIDDEN, 10)

    def forward(self, images):
        h = c = images.new_zeros(images.shape[0], HIDDEN)
        for row in images.unbind(1):
            h, c = self.cell(row, h, c)
        return self.last(h)


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


def theirs(folder, epochs):
    """Returns the seconds per epoch and the accuracy on the test images."""
    torch.manual_seed(1)
    images, labels = digits(folder, "train")
    held_back = len(images) // 12
    images, labels = images[: len(images) - held_back], labels[: len(labels) - held_back]
    mean, deviation = images.mean(), images.std()
    x, y = torch.from_numpy((images - mean) / deviation), torch.from_numpy(labels)
    model = Reader()
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
        print(f"PyTorch: epoch {epoch + 1}, {took / (epoch + 1):.1f} s per epoch", file=sys.stderr)
    images, labels = digits(folder, "t10k")
    x, y = torch.from_numpy((images - mean) / deviation), torch.from_numpy(labels)
    with torch.no_grad():
        right = sum((model(a).argmax(1) == b).sum().item() for a, b in zip(x.split(500), y.split(500)))
    return took / epochs, right / len(y)


def ours(folder, epochs):
    """The same for the command."""
    command = ["cargo", "run", "--release", "--quiet", "--", "train", "--data", str(folder), "--epochs", str(epochs)]
    command += ["--batch-size", str(BATCH), "--lr", str(RATE), "--size", str(HIDDEN)]
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run([*command, "--out", out], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    seconds = re.search(r"took ([\d.]+) s (?:an|per) epoch", done.stdout)
    accuracy = re.search(r"test accuracy ([\d.]+) %", done.stdout)
    if not seconds or not accuracy:
        sys.exit(f"expected the time of an epoch and the test accuracy, found {done.stdout!r}")
    return float(seconds[1]), float(accuracy[1]) / 100


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=pathlib.Path, help="folder with the four files of MNIST")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--pytorch-epochs", type=int, help="number of epochs for PyTorch, if only its time matters")
    options = parser.parse_args()
    folder = options.data.resolve()
    print("| | s per epoch | test accuracy | epochs |\n|---|---:|---:|---:|")
    epochs = options.pytorch_epochs or options.epochs
    their_time, their_accuracy = theirs(folder, epochs)
    print(
        f"| PyTorch {torch.__version__}, eager | {their_time:.1f} | {100 * their_accuracy:.2f} % | {epochs} |",
        flush=True,
    )
    our_time, our_accuracy = ours(folder, options.epochs)
    print(f"| layernorm train | {our_time:.1f} | {100 * our_accuracy:.2f} % | {options.epochs} |")
    print(f"\nOurs takes {our_time / their_time:.2f} times as long.")


if __name__ == "__main__":
    main()
