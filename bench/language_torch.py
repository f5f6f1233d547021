#!/usr/bin/env python3
"""Bits per character of the laboratory's language models and of the same networks in PyTorch, side by side.

    cargo build --release
    python3 bench/language_torch.py                 LSTM and GRU, without a norm and with layer norm; three seeds
    python3 bench/language_torch.py --steps 1000 --seeds 5 --layernorm target/release/layernorm

Needs Python 3.10 and PyTorch. Both programs train on the text that is embedded in the laboratory, with the same split,
sizes, initial weights, contiguous streams, truncated backpropagation, Adam, learning rates, clipping and number of
steps. They differ only in rounding, which training amplifies. The target is that the means over the seeds differ by less
than 1 %. With --own-start, PyTorch draws its own initial weights, from the same distribution, and its own first segment.

    layernorm, no norm       LSTM and GRU of layernorm-burn      against  torch.nn.LSTM and torch.nn.GRU
    layernorm, layer norm    the paper's LN-LSTM and LN-GRU      against  the cells below, written from the paper's equations
"""

import argparse
import gzip
import json
import math
import subprocess
import tempfile
from pathlib import Path

import torch
from torch import nn

ROOT = Path(__file__).resolve().parent.parent
TEXT = ROOT / "crates/layernorm-lab/assets/shakespeare.txt.gz"
NETWORKS = [("lstm", "none"), ("gru", "none"), ("lstm", "layer"), ("gru", "layer")]
SEGMENT = 64
CLIP = 1.0
FINAL_RATE = 0.1
EVALUATION_STREAMS = 16
CHUNK = 128


def parts():
    """Training and test characters as numbers, and the size of the vocabulary."""
    text = gzip.decompress(TEXT.read_bytes()).decode()
    number = {character: place for place, character in enumerate(sorted(set(text)))}
    symbols = torch.tensor([number[character] for character in text])
    held_out = len(text) // 20
    return symbols[: len(text) - 2 * held_out], symbols[len(text) - held_out :], len(number)


class LayerNormLstm(nn.Module):
    """gates = LN(U h) + LN(W x) + b over 4H; c' = f c + i g; h' = o tanh(LN(c')): Ba, Kiros and Hinton (2016), eq. 20-22."""

    def __init__(self, inputs, hidden):
        super().__init__()
        self.weight_ih_l0 = nn.Parameter(torch.empty(4 * hidden, inputs))
        self.weight_hh_l0 = nn.Parameter(torch.empty(4 * hidden, hidden))
        self.bias_ih_l0 = nn.Parameter(torch.empty(4 * hidden))
        self.norm_h, self.norm_x = nn.LayerNorm(4 * hidden), nn.LayerNorm(4 * hidden)
        self.norm_c = nn.LayerNorm(hidden)

    def forward(self, x, state):
        hidden = self.weight_hh_l0.shape[1]
        h, c = (part[0] for part in state) if state else [torch.zeros(len(x), hidden)] * 2
        from_x = self.norm_x(x @ self.weight_ih_l0.T) + self.bias_ih_l0
        outputs = []
        for step in range(x.shape[1]):
            i, f, g, o = (self.norm_h(h @ self.weight_hh_l0.T) + from_x[:, step]).chunk(4, dim=1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * self.norm_c(c).tanh()
            outputs.append(h)
        return torch.stack(outputs, dim=1), (h[None], c[None])


class LayerNormGru(nn.Module):
    """r, z = σ(LN(U h) + LN(W x)); n = tanh(LN(W x) + r LN(U h)); h' = (1 - z) h + z n: the same paper, eq. 26-28."""

    def __init__(self, inputs, hidden):
        super().__init__()
        self.weight_ih_l0 = nn.Parameter(torch.empty(3 * hidden, inputs))
        self.weight_hh_l0 = nn.Parameter(torch.empty(3 * hidden, hidden))
        self.norm_gates_h, self.norm_gates_x = nn.LayerNorm(2 * hidden), nn.LayerNorm(2 * hidden)
        self.norm_new_h, self.norm_new_x = nn.LayerNorm(hidden), nn.LayerNorm(hidden)

    def forward(self, x, state):
        hidden = self.weight_hh_l0.shape[1]
        h = torch.zeros(len(x), hidden) if state is None else state[0]
        gates_x, new_x = (x @ self.weight_ih_l0.T).split([2 * hidden, hidden], dim=-1)
        gates_x, new_x = self.norm_gates_x(gates_x), self.norm_new_x(new_x)
        outputs = []
        for step in range(x.shape[1]):
            gates_h, new_h = (h @ self.weight_hh_l0.T).split([2 * hidden, hidden], dim=-1)
            r, z = (self.norm_gates_h(gates_h) + gates_x[:, step]).sigmoid().chunk(2, dim=1)
            n = (new_x[:, step] + r * self.norm_new_h(new_h)).tanh()
            h = (1 - z) * h + z * n
            outputs.append(h)
        return torch.stack(outputs, dim=1), h[None]


class Model(nn.Module):
    """One-hot characters, a recurrent layer, a linear layer."""

    def __init__(self, cell, norm, symbols, hidden):
        super().__init__()
        if norm == "layer":
            self.cells = {"lstm": LayerNormLstm, "gru": LayerNormGru}[cell](symbols, hidden)
        else:
            self.cells = {"lstm": nn.LSTM, "gru": nn.GRU}[cell](symbols, hidden, batch_first=True)
        self.last = nn.Linear(hidden, symbols)
        self.cell, self.norm, self.symbols = cell, norm, symbols
        bound = 1 / math.sqrt(hidden)
        with torch.no_grad():
            for name, parameter in self.cells.named_parameters():
                if not name.startswith("norm"):
                    parameter.uniform_(-bound, bound)
            if cell == "lstm":
                self.cells.bias_ih_l0[hidden : 2 * hidden] += 1
            # The laboratory's cells have one bias, so the second one of torch.nn stays 0.
            if norm == "none":
                self.cells.bias_hh_l0.zero_().requires_grad_(False)

    def load(self, tensors):
        """Takes the weights of a network of the laboratory."""
        cell = {name.rpartition(".0.")[2]: tensor for name, tensor in tensors.items()}
        if (self.cell, self.norm) == ("gru", "none"):
            # The paper's update gate z is 1 - z of torch.nn: the middle third changes its sign.
            for name in ("input_weight", "recurrent_weight", "bias"):
                cell[name].chunk(3)[1].neg_()
        names = {"weight_ih_l0": "input_weight", "weight_hh_l0": "recurrent_weight", "bias_ih_l0": "bias"}
        with torch.no_grad():
            for ours, theirs in names.items():
                # The paper's GRU has no bias besides those of its norms.
                if hasattr(self.cells, ours):
                    getattr(self.cells, ours).copy_(cell[theirs])
            self.last.weight.copy_(tensors["last.weight"].T)
            self.last.bias.copy_(tensors["last.bias"])

    def forward(self, characters, state=None):
        x = nn.functional.one_hot(characters, self.symbols).float()
        y, state = self.cells(x, state)
        return self.last(y), state


def detached(state):
    return tuple(part.detach() for part in state) if isinstance(state, tuple) else state.detach()


def torch_bits(cell, norm, seed, options):
    """Trains in PyTorch; returns the test bits per character."""
    torch.manual_seed(seed)
    train, test, symbols = parts()
    model = Model(cell, norm, symbols, options.size)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=options.lr, eps=1e-5)
    length = (len(train) - 1) // options.batch_size
    segments = length // SEGMENT
    first = int(torch.randint(segments, ()))
    if not options.own_start:
        model.load(initial(cell, norm, seed, options))
        first = first_segment(seed, segments)
    starts = torch.arange(options.batch_size)[:, None] * length + torch.arange(SEGMENT)
    state = None
    for step in range(options.steps):
        number = (first + step) % segments
        places = starts + number * SEGMENT
        logits, state = model(train[places], state if step > 0 and number > 0 else None)
        state = detached(state)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), train[places + 1].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(trained, CLIP)
        for group in optimizer.param_groups:
            group["lr"] = options.lr * (1 - (1 - FINAL_RATE) * step / options.steps)
        optimizer.step()
    return bits(model, test)


@torch.no_grad()
def bits(model, text):
    """Bits per character in a text, read as contiguous streams, each from a state of zero."""
    length = (len(text) - 1) // EVALUATION_STREAMS
    starts = torch.arange(EVALUATION_STREAMS)[:, None] * length
    state, total = None, 0.0
    for begin in range(0, length, CHUNK):
        places = starts + begin + torch.arange(min(CHUNK, length - begin))
        logits, state = model(text[places], state)
        targets = text[places + 1].flatten()
        total += nn.functional.cross_entropy(logits.flatten(0, 1), targets, reduction="sum").item()
    return total / (EVALUATION_STREAMS * length) / math.log(2)


def train(out, cell, norm, seed, steps, rate, options):
    """Trains with the `layernorm` command."""
    command = [options.layernorm, "train", "--text", "--model", cell, "--norm", norm, "--seed", seed, "--out", out]
    command += ["--size", options.size, "--batch-size", options.batch_size, "--steps", steps, "--lr", rate]
    subprocess.run([str(part) for part in command], check=True, capture_output=True)


def layernorm_bits(cell, norm, seed, options):
    """Trains with the `layernorm` command; returns the test bits per character from its records."""
    with tempfile.TemporaryDirectory() as out:
        train(out, cell, norm, seed, options.steps, options.lr, options)
        lines = (Path(out) / "train.jsonl").read_text().splitlines()
    events = [line for line in map(json.loads, lines) if line.get("name") == "test"]
    return events[-1]["data"]["bits"]


def initial(cell, norm, seed, options):
    """The laboratory's initial weights: those after a step with a learning rate that changes nothing."""
    with tempfile.TemporaryDirectory() as out:
        train(out, cell, norm, seed, 1, 1e-30, options)
        _, contents, blob = (Path(out) / "model.layernorm").read_bytes().split(b"\n", 2)
    tensors, numbers = {}, torch.frombuffer(bytearray(blob), dtype=torch.float32)
    for entry in json.loads(contents)["header"]["tensors"]:
        count = math.prod(entry["shape"])
        tensors[entry["name"]], numbers = numbers[:count].reshape(entry["shape"]), numbers[count:]
    return tensors


def first_segment(seed, segments):
    """The segment at which the laboratory starts: SplitMix64 with the seed of the order, scaled to the segments."""
    mask = (1 << 64) - 1
    bits = ((seed ^ 0x6C61_6E67_7561_6765) + 0x9E37_79B9_7F4A_7C15) & mask
    bits = (bits ^ (bits >> 30)) * 0xBF58_476D_1CE4_E5B9 & mask
    bits = (bits ^ (bits >> 27)) * 0x94D0_49BB_1331_11EB & mask
    return ((bits ^ (bits >> 31)) * segments) >> 64


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layernorm", default=ROOT / "target/release/layernorm", help="the command")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--own-start", action="store_true", help="PyTorch draws its own initial weights")
    options = parser.parse_args()
    print(f"PyTorch {torch.__version__}; {options.size} units, {options.steps} steps, {options.seeds} seeds")
    print("Test bits per character, mean over the seeds (each seed)\n")
    print(f"{'network':<14}{'layernorm':<30}{'PyTorch':<30}difference")
    for cell, norm in NETWORKS:
        seeds = range(1, options.seeds + 1)
        found = [[of(cell, norm, seed, options) for seed in seeds] for of in (layernorm_bits, torch_bits)]
        ours, theirs = (sum(each) / len(each) for each in found)
        words = [f"{sum(e) / len(e):.3f} ({', '.join(f'{bits:.3f}' for bits in e)})" for e in found]
        print(f"{cell + ', ' + norm:<14}{words[0]:<30}{words[1]:<30}{100 * (ours / theirs - 1):+.2f} %", flush=True)


if __name__ == "__main__":
    main()
