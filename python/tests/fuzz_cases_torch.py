"""Cases of `fuzz_boundary.py` for the functions and modules of layernorm.torch."""

from __future__ import annotations

import layernorm
import layernorm.torch as lt
import layernorm.torch.functional as lf
import torch
from fuzz_boundary import Wrong
from fuzz_cases_numpy import pick, shape_of
from torch import nn

# PyTorch raises RuntimeError, not MemoryError, if memory is exhausted.
ALLOWED = (TypeError, ValueError, RuntimeError, NotImplementedError, MemoryError, OverflowError)
torch.set_num_threads(2)

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
OTHERS = [torch.int32, torch.bool, torch.complex64, torch.uint8]
# 64 times half a unit in the last place: sums, the square root, and the rounding of results.
CLOSE = {torch.float16: 64 * 2.0**-11, torch.bfloat16: 64 * 2.0**-8, torch.float32: 64 * 2.0**-24}
CLOSE[torch.float64] = 64 * 2.0**-53


def filled(rng, shape, dtype):
    """Draws a tensor with a random layout."""
    generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
    count = 1.0
    for n in shape:
        count *= n
    if count > 2**20:
        return torch.ones(1, dtype=dtype).as_strided(shape, [0] * len(shape))
    plain = torch.randn(shape, generator=generator).to(dtype)
    how = int(rng.integers(9))
    if how == 0 and plain.ndim > 1:
        return plain.transpose(0, -1).contiguous().transpose(0, -1)
    if how == 1 and plain.ndim:
        return torch.stack([plain, plain], -1)[..., 0]
    if how == 2 and plain.ndim and plain.numel():
        return plain[:1].expand(shape)
    if how == 3 and plain.ndim and plain.numel():  # overlapping windows
        line = plain.flatten()[: sum(n - 1 for n in shape) + 1].clone()
        return line.as_strided(shape, [1] * len(shape)) if line.numel() else plain
    if how == 4 and plain.ndim == 4:
        return plain.to(memory_format=torch.channels_last)
    if how == 5:
        return torch.zeros_like(plain).expand(shape) if plain.ndim else plain
    return plain


def positive(value):
    """Returns absolute values; what is larger than memory is 1 anyway."""
    return value.abs() if value.numel() <= 2**20 else value


def spoiled(rng, value, shape):
    """Returns an argument, sometimes made invalid."""
    how = int(rng.integers(9))
    if how == 0:
        return filled(rng, [*shape, 1] if rng.random() < 0.5 else [*shape][1:], torch.float32)
    if how == 1 and shape:
        other = list(shape)
        other[rng.integers(len(other))] += int(pick(rng, [-1, 1, 7]))
        return filled(rng, [max(n, 0) for n in other], torch.float32)
    if how == 2:
        return torch.zeros([min(n, 8) for n in shape], dtype=pick(rng, OTHERS))
    if how == 3:
        return pick(rng, [None, 1.0, "x", [], [1.0, 2.0], object()])
    if how == 4:
        return torch.empty([min(n, 8) for n in shape], device="meta")
    if how == 5 and torch.is_tensor(value) and value.numel() < 2**20:
        freed = value.detach().clone()
        freed.untyped_storage().resize_(0)
        return freed
    if how == 6 and torch.is_tensor(value) and value.numel() < 2**20:
        return torch.zeros_like(value).to_sparse() if value.layout == torch.strided else value
    return filled(rng, shape, pick(rng, FLOATS))


def maybe(rng, value, shape, rate=0.06):
    return spoiled(rng, value, shape) if rng.random() < rate else value


def leaf(rng, value):
    """Returns a leaf tensor that may require a gradient."""
    if torch.is_tensor(value) and value.is_floating_point() and value.numel() < 2**20 and rng.random() < 0.5:
        return value.detach().requires_grad_()
    return value


def wide(value):
    return value.detach().to(torch.float64) if torch.is_tensor(value) else value


def compare(what, found, wanted, dtype, terms=1.0):
    if found.shape != wanted.shape:
        raise Wrong(f"{what}: shape {list(found.shape)} instead of {list(wanted.shape)}")
    if not found.numel() or found.is_meta:
        return
    scale = wanted.abs().nan_to_num(0, 0).amax() + 1
    off = (found.detach().to(torch.float64) - wanted).abs()
    # float16 overflows where float64 does not.
    ok = (off <= terms * CLOSE[dtype] * scale) | ~wanted.isfinite() | (wanted.abs() > 6e4)
    if not bool(ok.all()):
        raise Wrong(f"{what}: off by {float(off[~ok].max())}, {int((~ok).sum())} of {ok.numel()} numbers")


def make_norm(rng, show):
    name = pick(rng, ["layer_norm", "rms_norm", "group_norm", "instance_norm", "batch_norm"])
    rows = name in ("layer_norm", "rms_norm")
    shape, dtype = shape_of(rng, 1 if rows else 3, 5), pick(rng, FLOATS)
    x = leaf(rng, maybe(rng, filled(rng, shape, dtype), shape, 0.05))
    inner = shape[-int(rng.integers(1, len(shape) + 1)) :] if rows else shape[1:2]
    weight, bias = (
        None if rng.random() < 0.3 else leaf(rng, maybe(rng, filled(rng, inner, dtype), inner)) for _ in range(2)
    )
    options = {
        "weight": weight,
        "eps": pick(rng, [1e-5, 1e-3, 1.0, -1.0, float("nan"), "x"][: 3 + int(rng.random() < 0.05) * 3]),
    }
    if name != "rms_norm":
        options["bias"] = bias
    running = []
    if rows:
        positional = [maybe(rng, list(inner), (2,), 0.03)]
    elif name == "group_norm":
        divisors = [d for d in range(1, 40) if shape[1] and shape[1] % d == 0] or [1]
        positional = [pick(rng, divisors) if rng.random() < 0.95 else pick(rng, [0, -1, 3, 2**40, None])]
    else:
        kind = pick(rng, [torch.float32, dtype])
        if name == "batch_norm" and rng.random() < 0.6:
            running = [maybe(rng, positive(filled(rng, shape[1:2], kind)), shape[1:2], 0.1) for _ in range(2)]
        positional = running or [None, None]
        if name == "batch_norm":
            options["training"] = not running or bool(rng.random() < 0.5)
    show(name, "x", describe(x), [describe(p) for p in positional], {k: describe(v) for k, v in options.items()})
    theirs = getattr(nn.functional, name)

    def run():
        # PyTorch itself crashes when it copies a tensor whose memory was freed.
        doubles = [wide(p.clone()) if torch.is_tensor(p) and stored(p) else p for p in positional]
        y = getattr(lf, name)(x, *positional, **options)
        gradients = None
        wanted = [
            t
            for t in (x, weight, bias)
            if torch.is_tensor(t) and t.requires_grad and (t is not bias or "bias" in options)
        ]
        if wanted and y.requires_grad:
            gradients = torch.autograd.grad(y.sum(), wanted)

        def check():
            if y.dtype != x.dtype:
                raise Wrong(f"y is of {y.dtype}, x of {x.dtype}")
            if options["eps"] < 0:
                raise Wrong("an eps below 0 was accepted")
            more = {k: wide(v) for k, v in options.items()}
            inputs = [wide(t).requires_grad_() if gradients is not None and t is x else wide(t) for t in (x,)]
            try:
                reference = theirs(inputs[0], *doubles, **more)
            except (RuntimeError, ValueError, TypeError, IndexError) as error:
                if x.numel() == 0 or "Expected more than 1" in str(error):
                    return
                raise Wrong(f"accepted what PyTorch refuses: {error}") from error
            compare("y", y, reference.detach(), y.dtype, 64 if y.dtype in (torch.float32, torch.float64) else 4)
            for t, g in zip(wanted, gradients or ()):
                if g.shape != t.shape or g.dtype != t.dtype:
                    raise Wrong("a gradient is not like its tensor")

        return check

    return run


def stored(t):
    """Returns whether the memory of a tensor is there."""
    return t.layout == torch.strided and (t.is_meta or t.untyped_storage().nbytes() >= t.nbytes)


def describe(value):
    if torch.is_tensor(value):
        stride = list(value.stride()) if value.layout == torch.strided else value.layout
        return f"{list(value.shape)} {value.dtype} {stride} {value.device} grad={value.requires_grad}"
    return repr(value)[:60]


def make_network(rng, show):
    cls = pick(rng, [lt.LSTM, lt.GRU, lt.RNN])
    inputs, hidden = int(rng.integers(1, 9)), int(rng.integers(1, 19))
    options = dict(variant=pick(rng, getattr(layernorm, cls.__name__).variants()), num_layers=pick(rng, [1, 1, 2]))
    options |= dict(bidirectional=bool(rng.random() < 0.3), batch_first=bool(rng.random() < 0.3))
    steps, batch = int(rng.integers(0, 6)), int(rng.integers(0, 5))
    if rng.random() < 0.03:
        steps, batch = pick(rng, [(2**40, 0), (2**31, 1), (2**20, 2**20), (1, 2**50)])
    shape = ((batch, steps) if options["batch_first"] else (steps, batch)) + (inputs,)
    x = leaf(rng, maybe(rng, filled(rng, shape, pick(rng, [torch.float32, torch.float32, torch.float64])), shape))
    replaced = rng.random() < 0.4
    show(cls.__name__, inputs, hidden, options, "x", describe(x))

    def run():
        network = cls(inputs, hidden, **options)
        if torch.is_tensor(x) and x.dtype == torch.float64:
            network = network.double()
        if replaced:
            name = pick(rng, [n for n, _ in network.named_parameters()])
            old = getattr(network, name)
            new = spoiled(rng, old.detach(), old.shape)
            show(name, describe(new))
            if torch.is_tensor(new) and rng.random() < 0.3:
                old.data = new
            else:
                setattr(
                    network,
                    name,
                    nn.Parameter(new, requires_grad=new.is_floating_point()) if torch.is_tensor(new) else new,
                )
        y, state = network(x)
        if rng.random() < 0.7 and y.requires_grad:
            loss = pick(
                rng, [torch.sum, lambda t: torch.sgn(t).sum(), lambda t: t.abs().sum(), lambda t: (t * t).sum()]
            )
            loss(y).backward()

        def check():
            if any(p.grad is not None and p.grad.shape != p.shape for p in network.parameters()):
                raise Wrong("a gradient has another shape than its parameter")
            again, _ = network(x.detach().clone(memory_format=torch.contiguous_format))
            if not torch.equal(y.nan_to_num(), again.nan_to_num()):
                raise Wrong("another layout has other bits")
            wanted, _ = network.double()(x.detach().double())
            if bool(wanted.isfinite().all()) and all(
                float(p.detach().abs().sum()) / max(p.numel(), 1) < 2 for p in network.parameters()
            ):
                compare("y", y, wanted.detach(), y.dtype, 256)

        return check

    return run


def make(rng, show):
    return make_norm(rng, show) if rng.random() < 0.65 else make_network(rng, show)
