"""Recurrent passes composed of PyTorch operations, which can be differentiated any number of times. They are slow, and used for
what the extension module lacks: second-order gradients, gradients of zoneout's expectation, and on a GPU whatever its kernels lack.

With W and U the weights of x and h, and LN a layer norm (the identity if a variant has none), every cell is an instance of

    zx = W x + bx        zh = U h + bh        s = LNx(zx) + LNh(zh) + p∘c        a = LNs(s) + b + offset
    LSTM  c = σ(a_f)∘c + σ(a_i)∘tanh(a_g)     h = σ(a_o)∘tanh(LNc(c)), then a projection
    GRU   r = σ(a_r)  z = σ(a_z)  n = tanh(…)  h = z∘h + (1 − z)∘n
    RNN   h = tanh(a) or relu(a)

``_core.describe`` returns the parts that a variant has; ``crates/layernorm-rnn/src/variant.rs`` has the full definition.
"""

from __future__ import annotations

import torch

from .. import _core
from . import _noise
from ._types import acc_of


def _root(v):
    """Returns the square root, whose derivative at 0 is 0 here, as in the extension module: rows may be constant."""
    above = v > 0
    return torch.where(above, torch.where(above, v, 1.0).sqrt(), 0.0)


def _norm(norm, t, gain, bias, gates):
    """Applies a layer norm ``(over, eps, to_deviation)`` over the last axis; γ and β may be None."""
    if norm is None:
        return t
    over, eps, to_deviation = norm
    size = t.shape[-1] // gates
    widths = {"all": [gates * size], "each": [size] * gates, "apart": [(gates - 1) * size, size]}[over]
    parts = []
    for part in t.split(widths, -1):
        d = part - part.mean(-1, keepdim=True)
        beside = eps
        if eps < (2**-32 if to_deviation else 2**-64):
            # Squares may underflow: scale the row by its largest element, or by ε if that is larger, and ε with it.
            scale = d.detach().abs().amax(-1, keepdim=True).clamp(min=eps if to_deviation else eps**0.5)
            scale = torch.where(scale > 0, scale, torch.ones_like(scale))
            d, beside = d / scale, eps / scale if to_deviation else eps / scale / scale
        v = d.square().mean(-1, keepdim=True)
        parts.append(d / (_root(v) + beside) if to_deviation else d * torch.rsqrt(v + beside))
    t = torch.cat(parts, -1)
    t = t if gain is None else t * gain
    return t if bias is None else t + bias


def _plus(t, *others):
    for other in others:
        t = t if other is None else t + other
    return t


class _Cell:
    """One layer in one direction. ``p`` maps the extension module's names to its parameters."""

    def __init__(self, core, spec, p, layer, direction, seed):
        self.v, self.p, self.kind = _core.describe(core), p, spec.kind
        self.place, self.seed, self.device = (layer, direction), seed, p["recurrent_weight"].device
        self.rates = dict(zip(_noise.NAMES, spec.noise))
        self.gates = self.v["gates"]
        self.hidden = p["input_weight"].shape[0] // self.gates
        self.u = p["recurrent_weight"] * self._dropped("drop_connect", p["recurrent_weight"])
        self.bias = self._bias()

    def _bias(self):
        """Returns b plus the offset, or None."""
        bias, offset = self.p.get("bias"), self.v["offset"]
        if offset == 0.0:
            return bias
        whole = torch.zeros_like(self.p["input_weight"][:, 0])
        # The forget gate of an LSTM is third from the end, the update gate of a GRU second.
        at = (self.gates - (3 if self.kind == "lstm" else 2)) * self.hidden
        whole[at : at + self.hidden] = offset
        return whole if bias is None else whole + bias

    def _hits(self, what, shape):
        return _noise.hits(what, self.rates[what], self.seed, *self.place, shape, self.device)

    def _dropped(self, what, like):
        """Returns the factor of a dropout: 1 outside training or if its rate is 0."""
        rate = self.rates[what]
        if self.seed is None or rate == 0.0:
            return 1.0
        return _noise.factor(rate, self._hits(what, like.shape), like.dtype)

    def input(self, x):
        """Applies dropout to the output of the layer below. Both directions share the mask."""
        return x * self._dropped("dropout", x)

    def norm(self, name, t):
        gates = 1 if name == "cell_norm" else self.gates
        return _norm(self.v[name], t, self.p.get(name + ".gain"), self.p.get(name + ".bias"), gates)

    def sides(self, x, h):
        """Returns LNx(zx), LNh(zh) and zh."""
        own = self.p.get("bias") if self.v["tied_bias"] else self.p.get("input_bias")
        zx = _plus(x @ self.p["input_weight"].mT, own)
        zh = _plus(h @ self.u.mT, self.p.get("recurrent_bias"))
        return self.norm("input_norm", zx), self.norm("recurrent_norm", zh), zh

    def step(self, x, h, c):
        """Computes one step and returns the new h and c. A GRU interpolates with h before its dropout."""
        seen = h * self.mask
        if self.kind == "lstm":
            return self._lstm(x, seen, c)
        if self.kind == "gru":
            return self._gru(x, seen, h), None
        a = _plus(self.norm("sum_norm", sum(self.sides(x, seen)[:2])), self.bias)
        return (a.relu() if self.v["relu"] else a.tanh()), None

    def _peep(self, s, c, which):
        """Adds p∘c to the gates ``which`` of s (None: to all but the candidate and the output gate)."""
        p = self.p["peephole"]
        parts = list(s.chunk(self.gates, -1))
        early = list(range(len(p) - 1))
        for row in early if which is None else which:
            gate = row if row in early else self.gates - 1
            parts[gate] = parts[gate] + p[row] * c
        return torch.cat(parts, -1)

    def _lstm(self, x, h, c):
        v, p = self.v, self.p
        s = sum(self.sides(x, h)[:2])
        peephole = "peephole" in p
        if peephole:
            s = self._peep(s, c, None)
        *first, f, g, o = _plus(self.norm("sum_norm", s), self.bias).chunk(self.gates, -1)
        f = f.sigmoid()
        i = 1 - f if v["coupled"] else first[0].sigmoid()
        new = f * c + i * g.tanh()
        if v["cell_clip"] is not None:
            new = new.clamp(-v["cell_clip"], v["cell_clip"])
        if peephole:
            late = self._peep(s, new, [len(p["peephole"]) - 1])
            o = _plus(self.norm("sum_norm", late), self.bias).chunk(self.gates, -1)[-1]
        shown = self.norm("cell_norm", new)
        h = o.sigmoid() * shown.tanh()
        if "projection" in p:
            h = _plus(h @ p["projection"].mT, p.get("projection_bias"))
            if v["projection_clip"] is not None:
                h = h.clamp(-v["projection_clip"], v["projection_clip"])
        return h, shown if v["carried"] else new

    def _gru(self, x, seen, h):
        v, last = self.v, 2 * self.hidden
        lx, lh, zh = self.sides(x, seen)
        s = self.norm("sum_norm", lx + lh)
        r, z, whole = s.chunk(3, -1) if self.bias is None else (s + self.bias).chunk(3, -1)
        r, z = r.sigmoid(), z.sigmoid()
        bias = None if self.bias is None else self.bias[last:]
        if v["reset"] == "sum":
            n = _plus(r * s[..., last:], bias)
        elif v["reset"] == "product":
            n = _plus(lx[..., last:] + r * lh[..., last:], bias)
        else:
            candidate = _plus((r * seen) @ self.u[last:].mT, _tail(self.p.get("recurrent_bias"), last))
            lh = self.norm("recurrent_norm", torch.cat([zh[..., :last], candidate], -1))
            n = _plus(lx[..., last:] + lh[..., last:], bias)
        n = n.tanh()
        return z * h + (1 - z) * n if v["keeps_old"] else (1 - z) * h + z * n

    def _zoned(self, what, t, old, new):
        """Applies zoneout: keeps some old values; outside training, returns the expectation."""
        rate = self.rates[what]
        if rate == 0.0 or new is None:
            return new
        return rate * old + (1 - rate) * new if self.seed is None else torch.where(self.kept[what][t], old, new)

    def over(self, x, h, c, lengths):
        """Runs over x ``[T, B, I]`` and returns y, last h and last c."""
        self.mask = self._dropped("recurrent_dropout", h)
        self.kept = {
            what: self._hits(what, (len(x), *state.shape))
            for what, state in (("zoneout", h), ("zoneout_cell", c))
            if self.seed is not None and self.rates[what] > 0.0
        }
        y = [None] * len(x)
        for t in reversed(range(len(x))) if self.place[1] else range(len(x)):
            new_h, new_c = self.step(x[t], h, c)
            new_h, new_c = self._zoned("zoneout", t, h, new_h), self._zoned("zoneout_cell", t, c, new_c)
            if lengths is None:
                h, c, y[t] = new_h, new_c, new_h
                continue
            there = (torch.tensor(lengths, device=h.device) > t).unsqueeze(-1)
            h = torch.where(there, new_h, h)
            c = None if c is None else torch.where(there, new_c, c)
            y[t] = torch.where(there, new_h, torch.zeros_like(new_h))
        return torch.stack(y), h, c


def _tail(t, start):
    return None if t is None else t[start:]


def composed(core, spec, x, h, c, parameters, lengths, batch_first, seed):
    """Returns y, last h and last c (or None): the results of the extension module up to rounding. ``seed`` is None outside training."""
    acc, dtype = acc_of(x.dtype), x.dtype
    x = x.to(acc)
    x = x.transpose(0, 1) if batch_first else x
    shapes = spec.shapes(x.shape[1])
    h, c = (t.to(acc) if t is not None else None if s is None else x.new_zeros(s) for t, s in zip((h, c), shapes))
    named = {}
    for (layer, direction, slot, *_), p in zip(core.places(), parameters):
        named.setdefault((layer, direction), {})[slot] = p.to(acc)
    last_h, last_c = [], []
    for layer in range(spec.layers):
        sides = []
        for direction in range(spec.directions):
            cell = _Cell(core, spec, named[layer, direction], layer, direction, seed)
            x = cell.input(x) if layer and not direction else x
            at = len(last_h)
            y, *last = cell.over(x, h[at], None if c is None else c[at], lengths)
            sides.append(y)
            last_h.append(last[0])
            last_c.append(last[1])
        x = torch.cat(sides, -1)
    y = x.transpose(0, 1) if batch_first else x
    last_c = None if c is None else torch.stack(last_c).to(dtype)
    return y.to(dtype), torch.stack(last_h).to(dtype), last_c


def _present(tensors):
    return [t for t in tensors if t is not None]


def _spread(found, like):
    """Returns ``found`` in the places of the tensors of ``like``, and None in the others."""
    found = iter(found)
    return [None if t is None else next(found) for t in like]


def _pulled(how, tensors, cotangents):
    """Computes the gradients of those of ``tensors = (x, h, c, *parameters)`` that are not None, from those of y, h and c."""
    core, spec, lengths, batch_first, seed = how

    def forward(*given):
        x, h, c, *parameters = _spread(given, tensors)
        return tuple(_present(composed(core, spec, x, h, c, parameters, lengths, batch_first, seed)))

    return torch.func.vjp(forward, *_present(tensors))[1](tuple(cotangents))


def gradients(how, tensors, cotangents):
    """Computes the gradients of ``tensors``; None where there is no tensor."""
    return _spread(_pulled(how, tensors, _present(cotangents)), tensors)


def gradients_of_gradients(how, tensors, cotangents, u):
    """Computes the gradients of ``⟨u, gradients(how, tensors, cotangents)⟩`` with respect to the cotangents and the tensors."""
    outer, count = _present(cotangents), len(_present(cotangents))

    def backward(*given):
        return _pulled(how, _spread(given[count:], tensors), given[:count])

    present = [torch.zeros_like(t) if v is None else v for t, v in zip(tensors, u) if t is not None]
    found = torch.func.vjp(backward, *outer, *_present(tensors))[1](tuple(present))
    return _spread(found[:count], cotangents), _spread(found[count:], tensors)
