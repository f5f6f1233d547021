"""Cases of `fuzz_boundary.py` for the NumPy functions and networks."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from numpy.lib.stride_tricks import as_strided

import layernorm
from fuzz_boundary import Wrong

ALLOWED = (TypeError, ValueError, MemoryError, OverflowError)
layernorm.set_num_threads(2)

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = [np.dtype(np.float16), BFLOAT16, np.dtype(np.float32), np.dtype(np.float64)]
OTHERS = ["i4", "u1", "?", "c8", "O", "U3", "M8[s]", "g", "V3", [("a", "f4")]]
# 16 times half a unit in the last place: sums, the square root, and the rounding of the result.
CLOSE = {dtype.name: 16 * float(eps) for dtype, eps in zip(FLOATS, (2.0**-11, 2.0**-8, 2.0**-24, 2.0**-53))}
EPS = [1e-5, 1e-3, 1.0, 1e-5, np.float32(1e-5)]
BAD_EPS = [-1.0, float("nan"), float("inf"), "x", None, 1j]


class Lies(np.ndarray):
    """A subclass with wrong attributes."""

    shape = property(lambda self: (2, 2))
    strides = property(lambda self: (8, 4))
    base = property(lambda self: None)
    __array_interface__ = property(lambda self: {"data": (8, False), "shape": (2,), "typestr": "<f4", "version": 3})


def pick(rng, values):
    return values[int(rng.integers(len(values)))]


def shape_of(rng, low=0, high=5):
    """Draws a shape: usually small, sometimes with a 0, sometimes larger than any memory."""
    shape = [int(pick(rng, [1, 2, 3, 4, 5, 7, 8, 16, 17, 33])) for _ in range(rng.integers(low, high + 1))]
    roll = rng.random()
    if shape and roll < 0.08:
        shape[rng.integers(len(shape))] = 0
    elif shape and roll < 0.12:
        # At most 2^58 elements: NumPy arrays have at most 2^63 bytes.
        at = rng.integers(len(shape))
        shape = [int(pick(rng, [2**31, 2**32 + 1, 2**40])) if i == at else min(n, 8) for i, n in enumerate(shape)]
    elif shape and roll < 0.16 and len(shape) > 1:
        # Empty, but with a huge number of rows or statistics.
        shape = [int(pick(rng, [2**16, 2**31, 2**40])), *(1 for _ in shape[2:]), 0]
    elif roll < 0.17:
        shape = [1] * int(rng.integers(15, 33))
    return tuple(shape)


def filled(rng, shape, dtype):
    """Draws an array with a random layout."""
    dtype = np.dtype(dtype)
    if np.prod([float(n) for n in shape]) > 2**20:
        return as_strided(np.ones(1, dtype) if dtype.kind != "U" else np.array(["1"]), shape, (0,) * len(shape))
    values = np.asarray(rng.standard_normal(shape)) * pick(rng, [1.0, 1.0, 1.0, 100.0]) + pick(rng, [0.0, 0.0, 3.0])
    if dtype.kind in "fc" or dtype == BFLOAT16 or dtype.name == "bfloat16":
        plain = np.asarray(values.astype(dtype))
    else:
        plain = np.zeros(shape, dtype)
    return laid_out(rng, plain)


def laid_out(rng, plain):
    """Returns the same numbers in another layout."""
    how, rank = int(rng.integers(12)), plain.ndim
    if how == 0:
        return np.asfortranarray(plain)
    if how == 1 and rank:  # every second element of a larger array
        room = np.zeros([2 * n for n in plain.shape], plain.dtype)[(slice(None, None, 2),) * rank]
        room[...] = plain
        return room
    if how == 2 and rank:
        return plain[(slice(None, None, -1),) * rank].copy()[(slice(None, None, -1),) * rank]
    if how == 3 and rank > 1:
        return plain.swapaxes(0, -1).copy().swapaxes(0, -1)
    if how == 4 and plain.dtype.kind == "f":
        return plain.astype(plain.dtype.newbyteorder())
    if how == 5 and plain.dtype.itemsize:
        memory = np.zeros(plain.nbytes + 1, np.uint8)[1:]
        if plain.dtype.kind != "O" and plain.nbytes:
            return memory_view(memory, plain)
    if how == 6 and plain.size:
        axis = int(rng.integers(rank)) if rank else None
        return plain if axis is None else np.broadcast_to(plain.take([0], axis), plain.shape)
    if how == 7 and rank and plain.size:  # overlapping windows
        step = plain.itemsize
        line = plain.ravel()[: sum(n - 1 for n in plain.shape) + 1]
        return as_strided(line.copy(), plain.shape, (step,) * rank) if line.size else plain
    if how == 8:
        plain.flags.writeable = False
    if how == 9:
        return plain.view(Lies)
    return plain


def memory_view(memory, plain):
    found = memory.view(plain.dtype).reshape(plain.shape)
    found[...] = plain
    return found


def spoiled(rng, value, shape):
    """Returns an argument, sometimes made invalid."""
    how = int(rng.integers(10))
    if how == 0:
        other = [*shape, 1] if rng.random() < 0.5 else [*shape][1:]
        return filled(rng, other, np.float32)
    if how == 1 and shape:
        other = list(shape)
        other[rng.integers(len(other))] += int(pick(rng, [-1, 1, 7]))
        return filled(rng, [max(n, 0) for n in other], np.float32)
    if how == 2:
        return np.zeros(shape if np.prod([float(n) for n in shape]) < 2**20 else (1,), pick(rng, OTHERS))
    if how == 3:
        return pick(rng, [None, 1.0, "x", [], [1.0, 2.0], object(), {}, np.float32(2), b"abcd", [[1.0], [2.0, 3.0]]])
    if how == 4:
        return np.ma.array(np.asarray(value), mask=False) if value is not None else None
    if how == 5:
        other = [*(min(n, 8) for n in shape[-2:]), 2**40]
        return as_strided(np.ones(1, np.float32), other, (0,) * len(other))
    return filled(rng, shape, pick(rng, FLOATS))


def maybe(rng, value, shape, rate=0.06):
    return spoiled(rng, value, shape) if rng.random() < rate else value


def wide(value):
    """Returns an argument in float64, as the library should read it."""
    if isinstance(value, np.ma.MaskedArray):
        raise Wrong("a masked array was accepted")
    found = np.asarray(value)
    if isinstance(value, np.ndarray) and found.dtype.newbyteorder("=") not in FLOATS:
        raise Wrong(f"an array of {found.dtype} was accepted")
    return found.astype(np.float64)


def snapshot(*values):
    return [(v, np.asarray(v).tobytes()) for v in values if isinstance(v, np.ndarray) and np.asarray(v).nbytes < 2**20]


def unchanged(before, but=()):
    for value, content in before:
        if (
            not any(o is not None and np.may_share_memory(value, o) for o in but)
            and np.asarray(value).tobytes() != content
        ):
            raise Wrong("an input was changed")


def same(what, found, wanted, scale, dtype, terms=1.0):
    """Compares with float64; ``scale`` is the magnitude of the summands."""
    found = np.asarray(found)
    if found.shape != wanted.shape:
        raise Wrong(f"{what}: shape {found.shape} instead of {wanted.shape}")
    if not found.size:
        return
    # float16 overflows where float64 does not.
    most = float(np.finfo(np.float16).max) if dtype == np.float16 else np.inf
    limit = terms * CLOSE[dtype.name] * (np.abs(wanted) + scale)
    off = np.abs(found.astype(np.float64) - wanted)
    ok = (off <= limit) | (np.abs(wanted) * 1.01 >= most) | ~np.isfinite(wanted)
    if not ok.all():
        raise Wrong(f"{what}: off by {np.nanmax(np.where(ok, 0, off))}, {np.count_nonzero(~ok)} of {ok.size} numbers")


def parameter(rng, shape, dtype):
    value = None if rng.random() < 0.3 else filled(rng, shape, dtype if rng.random() < 0.6 else np.float32)
    return maybe(rng, value, shape)


def result_memory(rng, x, shape, dtype):
    """Draws ``out``: None, the input, memory that overlaps it, or other memory."""
    roll = rng.random()
    if roll < 0.5:
        return None
    if roll < 0.6:
        return x
    if roll < 0.7 and type(x) is np.ndarray and x.flags.writeable and x.ndim and x.size < 2**16:
        return x[::-1] if rng.random() < 0.5 else x.swapaxes(0, -1)
    return maybe(rng, filled(rng, shape, dtype), shape, 0.3)


def grouped(name, shape, axes, groups):
    """Returns ``(shape to compute in, axes to reduce, shape of the parameters)``."""
    if name in ("layer", "rms"):
        return shape, axes, tuple(shape[a] for a in axes)
    n, c, *rest = shape
    parameters = (1, c, *(1 for _ in rest))
    if name == "batch":
        return shape, tuple(a for a in range(len(shape)) if a != 1), parameters
    return (n, groups, c // max(groups, 1), *rest), tuple(range(2, len(shape) + 1)), parameters


def reference(name, x, axes, groups, weight, bias, eps, zero_centered, given=None):
    """Returns x̂, 1/σ, the gain and y in float64."""
    split, reduce, parameters = grouped(name, x.shape, axes, groups)
    v = x.reshape(split)
    mean = np.zeros_like(v) if name == "rms" else v.mean(reduce, keepdims=True)
    var = ((v - mean) ** 2).mean(reduce, keepdims=True)
    if given is not None:
        mean, var = (np.asarray(g, np.float64).reshape(parameters) for g in given)
    rstd = 1 / np.sqrt(var + float(eps))
    hat = ((v - mean) * rstd).reshape(x.shape)

    def spread(p, expected):
        if p.shape != expected:
            raise Wrong(f"a parameter of shape {p.shape} was accepted, {expected} expected")
        if name not in ("layer", "rms"):
            return p.reshape(parameters)
        ends = [1] * x.ndim
        for a in axes:
            ends[a] = x.shape[a]
        return p.reshape(ends)

    expected = tuple(x.shape[a] for a in axes) if name in ("layer", "rms") else (x.shape[1],)
    gain = np.ones(()) if weight is None else spread(wide(weight), expected)
    gain = 1 + gain if zero_centered and weight is not None else gain
    shift = np.zeros(()) if bias is None else spread(wide(bias), expected)
    size = np.abs(v).max(reduce, keepdims=True, initial=0) * rstd
    size = np.broadcast_to(size, split).reshape(x.shape)
    return hat, rstd, gain, hat * gain + shift, (size * np.abs(gain) + np.abs(shift))


def actual_shape(x, drawn):
    """Returns the shape of an argument; the one that was drawn, unless it was spoiled."""
    try:
        return np.asarray(x).shape
    except ValueError:  # a list of lists of different lengths
        return drawn


def make_norm(rng, show):
    name = pick(rng, ["layer", "rms", "group", "instance", "batch"])
    rows = name in ("layer", "rms")
    shape = shape_of(rng, 1 if rows else 2)
    dtype = pick(rng, FLOATS)
    x = maybe(rng, filled(rng, shape, dtype), shape, 0.04)
    eps = pick(rng, BAD_EPS) if rng.random() < 0.03 else pick(rng, EPS)
    options, axes, groups = {}, (), 1
    actual = actual_shape(x, shape)
    if rows:
        axes = (len(actual) - 1,)
        roll = rng.random()
        if roll < 0.3:
            count = int(rng.integers(1, len(shape) + 1))
            axes = tuple(range(len(actual) - count, len(actual)))
            options["normalized_shape"] = maybe(rng, shape[-count:], (2,))
        elif roll < 0.5:
            axes = tuple(int(a) for a in rng.permutation(len(shape))[: rng.integers(1, len(shape) + 1)])
            options["axis"] = pick(rng, [axes, axes, axes, (0, 0), 99, -99, 2**70, 1.5])
        if options.get("axis", axes) != axes:
            axes = None
        else:  # Parameters have the axis order of x, whatever the order of `axis`.
            axes = tuple(sorted(axes))
        options["zero_centered"] = bool(rng.random() < 0.2)
    elif name == "group":
        divisors = [d for d in range(1, 40) if len(shape) > 1 and shape[1] and shape[1] % d == 0] or [1]
        groups = options["num_groups"] = pick(rng, divisors)
        if rng.random() < 0.05:
            options["num_groups"] = pick(rng, [0, -1, max(shape[1:2], default=1) + 1, 2**70, None, 1.5])
    elif name == "instance":
        groups = actual[1] if len(actual) > 1 else 1
    if not rows:
        inner = shape[1:2]
    elif "axis" in options:
        inner = tuple(shape[a] for a in axes or ())
    else:
        inner = shape[-len(axes) :]
    weight, bias = parameter(rng, inner, dtype), parameter(rng, inner, dtype)
    show(name, "x", describe(x), "weight", describe(weight), "bias", describe(bias), "eps", eps, options)
    common = dict(weight=weight, bias=bias, eps=eps, **options)
    if rng.random() < 0.5:
        return forward_case(rng, show, name, x, shape, dtype, axes, groups, common)
    return backward_case(rng, show, name, x, shape, dtype, axes, groups, common)


def describe(value):
    if isinstance(value, np.ndarray):
        plain = np.asarray(value)
        return f"{type(value).__name__}{plain.shape} {plain.dtype} {plain.strides}"
    return repr(value)[:60]


def forward_case(rng, show, name, x, shape, dtype, axes, groups, common):
    out = result_memory(rng, x, shape, dtype)
    running, training = None, False
    if name == "batch" and rng.random() < 0.6:
        channels = shape[1:2]
        kind = dtype if rng.random() < 0.3 else np.float32 if dtype != np.float64 else np.float64
        running = [maybe(rng, abs_of(filled(rng, channels, kind)), channels, 0.1) for _ in range(2)]
        training = bool(rng.random() < 0.5)
        common |= dict(running_mean=running[0], running_var=running[1], training=training)
        common |= dict(momentum=pick(rng, [0.1, 1.0, None, 0.0]), num_batches_tracked=pick(rng, [0, 3, -1, 2**70, 7]))
    wanted_stats = bool(rng.random() < 0.3)
    residual = maybe(rng, filled(rng, shape, dtype), shape) if name in ("layer", "rms") and rng.random() < 0.2 else None
    if residual is not None:
        common["residual"] = residual
    show(
        "out", describe(out), "residual", describe(residual), "running", [describe(r) for r in running or []], training
    )

    def run():
        before = snapshot(x, common["weight"], common["bias"], residual)
        kept = [np.array(v) if isinstance(v, np.ndarray) and np.asarray(v).size < 2**20 else v for v in (x, residual)]
        weight, bias = (np.array(v) if isinstance(v, np.ndarray) else v for v in (common["weight"], common["bias"]))
        found = getattr(layernorm, f"{name}_norm")(x, out=out, return_stats=wanted_stats, **common)

        def check():
            unchanged(before, (out, *(running or ())))
            y, *rest = found if isinstance(found, tuple) else (found,)
            if out is not None and y is not out:
                raise Wrong("the result is not what was given as out")
            source, more = wide(kept[0]), None
            if residual is not None:
                source = (source + wide(kept[1])).astype(np.asarray(kept[0]).dtype.newbyteorder("=")).astype(np.float64)
                more = rest.pop(0)
            given = running if running is not None and not training else None
            spread = axes if axes is not None else ()
            zero_centered = common.get("zero_centered", False)
            if axes is None:
                raise Wrong(f"axis {common['axis']} was accepted")
            _, rstd, _, wanted, scale = reference(
                name, source, spread, groups, weight, bias, common["eps"], zero_centered, given
            )
            kind = np.asarray(kept[0]).dtype.newbyteorder("=")
            same("y", y, wanted, scale, np.asarray(y).dtype if kind not in FLOATS else kind, 4)
            if more is not None:
                same("h", more, source, 0, kind, 1)
            if wanted_stats:
                same("rstd", rest[0].rstd.ravel(), rstd.ravel(), rstd.ravel(), rest[0].rstd.dtype, 64)

        return check

    return run


def abs_of(value):
    plain = np.asarray(value)
    if plain.flags.writeable and plain.dtype.kind == "f":
        np.abs(plain, out=plain)
        return value
    return np.abs(plain)


def backward_case(rng, show, name, x, shape, dtype, axes, groups, common):
    dy = maybe(rng, filled(rng, shape, dtype), shape)
    stats = None
    if name == "batch":
        common["training"] = True
    show("dy", describe(dy))
    how = rng.random()

    def run():
        nonlocal stats
        before = snapshot(x, dy, common["weight"], common["bias"])
        if how < 0.4:
            extra = {k: v for k, v in common.items() if k in ("eps", "axis", "normalized_shape", "num_groups")}
            stats = getattr(layernorm, f"{name}_norm")(x, return_stats=True, **extra)[1]
            if how < 0.05:
                stats = tuple(maybe(rng, part, part.shape, 0.5) for part in stats)
            elif how < 0.1:
                stats = stats[:2]
        found = getattr(layernorm, f"{name}_norm_backward")(dy, x, stats=stats, **common)

        def check():
            unchanged(before)
            if how < 0.1:
                return
            if axes is None:
                raise Wrong(f"axis {common['axis']} was accepted")
            source, d = wide(x), wide(dy)
            weight, bias = common["weight"], common["bias"]
            hat, rstd, gain, _, _ = reference(
                name, source, axes, groups, weight, None, common["eps"], common.get("zero_centered", False)
            )
            split, reduce, parameters = grouped(name, source.shape, axes, groups)
            if d.shape != source.shape:
                raise Wrong("a gradient of another shape was accepted")
            g, h = (d * gain).reshape(split), hat.reshape(split)
            mean = 0 if name == "rms" else g.mean(reduce, keepdims=True)
            dx = (rstd * (g - mean - h * (g * h).mean(reduce, keepdims=True))).reshape(source.shape)
            size = np.abs(source.reshape(split)).max(reduce, keepdims=True, initial=0) * rstd + 1
            scale = np.broadcast_to(
                rstd * np.abs(g).max(reduce, keepdims=True, initial=0) * (1 + np.abs(h)) * size * size, split
            )
            kind = np.asarray(x).dtype.newbyteorder("=")
            same("dx", found.x, dx, scale.reshape(source.shape), kind, 16)
            rest = tuple(a for a in range(source.ndim) if a not in axes) if name in ("layer", "rms") else None
            rest = rest if rest is not None else tuple(a for a in range(source.ndim) if a != 1)
            sizes = np.broadcast_to(size, split).reshape(source.shape)
            for what, p, got, terms in (("dweight", weight, found.weight, d * hat), ("dbias", bias, found.bias, d)):
                if p is not None and isinstance(p, np.ndarray) and np.asarray(p).dtype.newbyteorder("=") in FLOATS:
                    # NumPy adds one number after the other over outer axes, and there may be 10^5.
                    total = terms.sum(rest, dtype=np.longdouble).astype(np.float64)
                    bound = (np.abs(d) * (np.abs(hat) + sizes)).sum(rest)
                    same(what, got, total, bound, got.dtype, 64)

        return check

    return run


def make_network(rng, show):
    cls = pick(rng, [layernorm.LSTM, layernorm.GRU, layernorm.RNN])
    inputs, hidden = int(rng.integers(1, 9)), int(rng.integers(1, 19))
    options = dict(variant=pick(rng, cls.variants()), num_layers=pick(rng, [1, 1, 2]))
    options |= dict(bidirectional=bool(rng.random() < 0.3), batch_first=bool(rng.random() < 0.3))
    if rng.random() < 0.1:
        options[pick(rng, ["num_layers", "proj_size", "dropout", "zoneout", "eps", "dtype", "seed", "variant"])] = pick(
            rng, [0, -1, 2, 0.5, 1.5, 2**24, 2**70, None, "x", "f8", float("nan")]
        )
    if rng.random() < 0.05:
        inputs, hidden = pick(rng, [(0, 4), (2**24, 2**24), (4, 2**20), (2**70, 1), (-1, 2), (1.5, 2), (None, 1)])
    steps, batch = int(rng.integers(0, 6)), int(rng.integers(0, 5))
    if rng.random() < 0.04:
        steps, batch = pick(rng, [(2**40, 0), (0, 2**40), (2**31, 1), (2**20, 2**20), (1, 2**50)])
    order = (batch, steps) if options["batch_first"] else (steps, batch)
    width = inputs if isinstance(inputs, int) and 0 < inputs < 64 else 4
    x = maybe(rng, filled(rng, (*order, width), pick(rng, [np.float32, np.float16, BFLOAT16])), (*order, width))
    show(cls.__name__, inputs, hidden, options, "x", describe(x))
    replaced, lengths = rng.random() < 0.25, None
    if rng.random() < 0.2 and batch < 64:
        lengths = [int(n) for n in rng.integers(1, max(steps, 1) + 1, batch)]
        if rng.random() < 0.2:
            lengths = pick(rng, [[0] * batch, lengths[1:], [2**70] * batch, "ab", None, [steps + 1] * batch, [1.5]])

    def run():
        network = cls(inputs, hidden, **options)
        name = pick(rng, list(network.parameters))
        if replaced:
            old = network.parameters[name]
            network.parameters[name] = spoiled(rng, old, old.shape)
            show(name, describe(network.parameters[name]))
            if rng.random() < 0.2:
                del network.parameters[pick(rng, list(network.parameters))]
        y, state = network(x, lengths=lengths)
        if rng.random() < 0.4:
            state = maybe(rng, state, (1, 2, 3), 0.2)
            y, state = network(x, state, lengths)
        trained, _, tape = network.train(x, lengths=lengths, recompute=bool(rng.random() < 0.5))
        dy = filled(rng, trained.shape, np.asarray(trained).dtype)
        gradients = tape.backward(maybe(rng, dy, trained.shape))
        return lambda: check_network(cls, network, x, lengths, gradients, options)

    return run


def check_network(cls, network, x, lengths, gradients, options):
    """Compares with the result of contiguous copies (equal) and of a float64 network with the same parameters (close)."""
    clean = np.ascontiguousarray(np.asarray(x)).astype(np.asarray(x).dtype.newbyteorder("="))
    y, _ = network(x, lengths=lengths)
    again, _ = network(clean, lengths=lengths)
    if y.tobytes() != again.tobytes():
        raise Wrong("another layout has other bits")
    sizes = network._shapes
    if any(gradients.parameters[n].shape != np.asarray(network.parameters[n]).shape for n in network.parameters):
        raise Wrong("gradients have other shapes than parameters")
    double = cls(sizes.inputs, sizes.hidden, **{**options, "dtype": np.float64, "seed": 0})
    for name, value in network.parameters.items():
        double.parameters[name] = np.asarray(value, np.float64)
    wanted, _ = double(clean.astype(np.float64), lengths=lengths)
    kind = y.dtype
    if np.isfinite(wanted).all() and all(
        np.abs(np.asarray(p, np.float64)).max(initial=0) < 2 for p in network.parameters.values()
    ):
        # Five steps, two layers; norms of rows with one or two elements magnify errors below their ε.
        same("y", y, wanted, 1.0 if clean.size and np.abs(clean.astype(np.float64)).max() < 8 else np.inf, kind, 4096)


def make(rng, show):
    return make_norm(rng, show) if rng.random() < 0.75 else make_network(rng, show)
