"""Recurrent layers of layernorm.torch on a GPU: results within a bound of the CPU's, and their speed compared with cuDNN."""

import copy
import functools
import math
import time

from torch.nn import functional as F

import layernorm.torch as lt
import torch
from compare_common import TYPES, elapsed, median_ms, report
from layernorm.torch import _cuda_sequences, _sequences
from torch import nn

HIDDEN, BATCHES, STEPS = [512, 1024, 2048], [1, 16, 64], 256
# Half a unit in the last place, as the recurrent kernels round (see the docs of crates/layernorm-cuda).
UNITS = {"f32": 2.0**-20, "tf32": 2.0**-11, "f16": 2.0**-11, "bf16": 2.0**-8}


def kinds_of(types):
    """Returns the cells, each with its types. GRUs take the same paths as LSTMs: one 16-bit type is enough."""
    return {"LSTM": types, "GRU": [name for name in types if name != "f16"]}


def cases(types, hidden, batches):
    return [
        (kind, name, h, b) for kind, names in kinds_of(types).items() for name in names for h in hidden for b in batches
    ]


@functools.cache
def _made(kind, h):
    # Without the variant's initialization, which is slow for many units.
    torch.manual_seed(h)
    made = nn.utils.skip_init(getattr(lt, kind), h, h)
    for name, p in made.named_parameters():
        nn.init.normal_(
            p, 1.0 if name.startswith("norm") and "weight" in name else 0.0, h**-0.5 if p.dim() > 1 else 0.1
        )
    return made


def network(kind, h, name, device):
    """Returns a layer-normalized network with H inputs and units; the same numbers for every type."""
    return copy.deepcopy(_made(kind, h)).to(device, TYPES[name])


def precision(name):
    """Sets the same precision for all: cuDNN and layernorm.torch follow the first setting, the products of the eager network the second."""
    torch.backends.cudnn.allow_tf32 = name == "tf32"
    torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")


def distance(found, expected):
    a, b = found.detach().cpu().double(), expected.detach().cpu().double()
    return ((a - b).norm() / b.norm().clamp(min=1e-30)).item()


def check_recurrent(types, hidden):
    """Checks that results are within a rounding bound of the CPU's; python/tests/test_cuda_recurrent.py derives it."""
    steps, batch = 6, 16
    for kind, names in kinds_of(types).items():
        for name in names:
            worst = 0.0
            for h in hidden:
                precision(name)
                cpu, gpu = network(kind, h, name, "cpu"), network(kind, h, name, "cuda")
                x, dy = (torch.randn(steps, batch, h).to(TYPES[name]) for _ in range(2))
                found = []
                for each, device in ((cpu, "cpu"), (gpu, "cuda")):
                    there = x.to(device).requires_grad_()
                    y = each(there)[0]
                    found.append([y, *torch.autograd.grad(y, [there, *each.parameters()], dy.to(device))])
                for at, (a, b) in enumerate(zip(*found)):
                    bound = UNITS[name] * (1 + steps**0.5) * (3 if at else 1)
                    gap = distance(b, a) / bound
                    worst = max(worst, math.inf if math.isnan(gap) else gap)
            report(f"LN-{kind} {name}, H = {hidden}, against the CPU:", worst <= 1, f"{worst:.2f} of the bound")


class EagerLstm(nn.Module):
    """The layer-normalized LSTM of the paper as it is usually written in PyTorch."""

    def __init__(self, like):
        super().__init__()
        self.w, self.u, self.b = (getattr(like, name) for name in like._names if _plain_name(name))
        self.norms = [like._parameters[name] for name in like._names if not _plain_name(name)]
        self.hidden = like.hidden_size

    def forward(self, x):
        gx, bx, gh, bh, gc, bc = self.norms
        h = c = x.new_zeros(x.shape[1], self.hidden)
        wide, ys = (4 * self.hidden,), []
        for step in x.unbind(0):
            gates = F.layer_norm(step @ self.w.t(), wide, gx, bx) + F.layer_norm(h @ self.u.t(), wide, gh, bh) + self.b
            i, f, g, o = gates.chunk(4, -1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * F.layer_norm(c, (self.hidden,), gc, bc).tanh()
            ys.append(h)
        return torch.stack(ys), None


def _plain_name(name):
    return "norm" not in name


def make_ready(pool, found):
    """Compiles and loads the kernels of all cases, on all cores; cached ones are read from disk."""
    start = time.perf_counter()

    def load(case):
        kind, name, h, b = case
        spec = _sequences.Spec(kind.lower(), "paper", h, h, 1, False, None, True, None, (0.0,) * 5)
        core = _sequences.core_of(spec)
        for training in (True, False):
            types, sizes = (TYPES[name], TYPES[name]), (STEPS, b, False, False)
            stack = _cuda_sequences._stack(spec, core, 0, types, name == "tf32", sizes, training)
            assert stack is not None, case

    for case, done in [(case, pool.submit(load, case)) for case in found]:
        try:
            done.result()
        except Exception as error:
            report(f"kernels of {case}", False, str(error))
    print(f"kernels of {len(found)} recurrent cases ready in {time.perf_counter() - start:.0f} s", flush=True)


def step_times(layer, x, dy, seconds=0.1, least=3):
    """Returns microseconds per step: forward, and forward with backward."""
    with torch.no_grad():
        there = median_ms(lambda: layer(x)[0], seconds, least)
    given = [x, *layer.parameters()]
    both = median_ms(lambda: torch.autograd.grad(layer(x)[0], given, dy), seconds, least)
    return there * 1e3 / STEPS, both * 1e3 / STEPS


def eager_times(ours, x, dy, name):
    """Returns the times of the same network in eager PyTorch, after checking that it computes the same."""
    eager = EagerLstm(ours)
    with torch.no_grad():
        gap = distance(eager(x[:8])[0], ours(x[:8])[0])
    # Eight steps; it rounds twice as often as ours, because it rounds products and gates to the type.
    if not gap <= UNITS[name] * 16:
        report(f"eager LN-LSTM {name} {ours.hidden_size}×{x.shape[1]} is the same network", False, f"{gap:.1e}")
    return step_times(eager, x, dy, 0.0, 2)


def time_recurrent(kind, name, h, b):
    """Returns ``[ours, cuDNN, eager]`` of a case, each as (forward, both); eager only for LSTMs, in float32 at one batch size."""
    precision(name)
    x = torch.randn(STEPS, b, h, device="cuda", dtype=TYPES[name], requires_grad=True)
    dy = torch.randn(STEPS, b, h, device="cuda", dtype=TYPES[name])
    ours = network(kind, h, name, "cuda")
    plain = getattr(nn, kind)(h, h, device="cuda", dtype=TYPES[name])
    # PyTorch does not flatten bfloat16 parameters: cuDNN's calls copy them, and warn. That costs at most 0.1 µs per step.
    plain.flatten_parameters()
    rows = [step_times(ours, x, dy), step_times(plain, x, dy)]
    with torch.no_grad():
        if not ours(x)[0].isfinite().all():
            report(f"{kind} {name} {h}×{b}: all results are numbers", False)
    if kind == "LSTM" and (name == "bf16" or (name == "tf32" and b == 16)):
        rows.append(eager_times(ours, x, dy, name))
    return rows


def recurrent(options, found):
    print(
        f"\nRecurrent layers, T = {STEPS}, µs per step. cuDNN's have no norms; tf32 and f32 are the same on both sides:\n"
    )
    print(
        "| cell | type | H | B | fwd ours | cuDNN | eager LN | fwd+bwd ours | cuDNN | eager LN |\n|---|---|---|---|---|---|---|---|---|---|"
    )
    measured = {}
    for at, (kind, name, h, b) in enumerate(found):
        if elapsed() > options.seconds:
            print(f"\nno time left for {len(found) - at} cases, from {kind} {name} {h}×{b} on")
            break
        try:
            rows = time_recurrent(kind, name, h, b)
        except Exception as error:
            report(f"{kind} {name} {h}×{b}", False, str(error)[:200])
            continue
        measured.setdefault((kind, name), []).append((f"{h}×{b}", rows))
        cells = [[f"{row[at]:.2f}" for row in rows] + ["–"] * (3 - len(rows)) for at in (0, 1)]
        print(f"| {kind} | {name} | {h} | {b} | " + " | ".join([*cells[0], *cells[1]]) + " |", flush=True)
    summarize(measured)


def summarize(measured):
    """Prints how many times as fast ours is, and where it is slower."""
    print()
    for (kind, name), cases in measured.items():
        for side, which in ((1, "cuDNN's plain"), (2, "eager LN")):
            for at, what in enumerate(("forward", "forward and backward")):
                ratios = {size: rows[side][at] / rows[0][at] for size, rows in cases if len(rows) > side}
                if ratios:
                    slower = [size for size, ratio in ratios.items() if ratio < 1]
                    words = f"; slower at {', '.join(slower)}" if slower else ""
                    print(
                        f"{kind} {name}, {what}: {min(ratios.values()):.2f} to {max(ratios.values()):.2f} times as fast as {which}{words}"
                    )
