"""Variants whose originals are not in a package: one step of each, reimplemented.

Each follows the original source or the paper. Parameters have the original's names
and shapes: `x @ W` in one and `x @ W.T` in another is intended.

A step maps (p, x, state, eps) to the new state, a tuple with h first. p holds the
parameters by name, x is [B, I], h and c are [B, H].
"""

import torch.nn.functional as F

import torch


def ln(x, gain, bias, eps):
    return F.layer_norm(x, x.shape[-1:], gain, bias, eps)


def numbered(name, *sizes):
    """Returns the shapes of vectors called name1, name2, ..."""
    return {f"{name}{i}": (size,) for i, size in enumerate(sizes, 1)}


def fastrnns_step(p, x, state, eps):
    """LayerNormLSTMCell of pytorch/pytorch, benchmarks/fastrnns/custom_lstms.py."""
    h, c = state
    gates = ln(x @ p["weight_ih"].T, p["layernorm_i.weight"], p["layernorm_i.bias"], eps)
    gates = gates + ln(h @ p["weight_hh"].T, p["layernorm_h.weight"], p["layernorm_h.bias"], eps)
    i, f, g, o = gates.chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    c = ln(c, p["layernorm_c.weight"], p["layernorm_c.bias"], eps)
    return o.sigmoid() * c.tanh(), c


def fastrnns_shapes(inputs, hidden):
    shapes = {"weight_ih": (4 * hidden, inputs), "weight_hh": (4 * hidden, hidden)}
    for name, size in (("i", 4 * hidden), ("h", 4 * hidden), ("c", hidden)):
        shapes[f"layernorm_{name}.weight"] = shapes[f"layernorm_{name}.bias"] = (size,)
    return shapes


def paper_lstm_step(p, x, state, eps):
    """Equations 20 to 22 of arXiv 1607.06450."""
    h, c = state
    gates = ln(h @ p["W_h"].T, p["alpha_1"], p["beta_1"], eps) + p["b"]
    gates = gates + ln(x @ p["W_x"].T, p["alpha_2"], p["beta_2"], eps)
    f, i, o, g = gates.chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * ln(c, p["alpha_3"], p["beta_3"], eps).tanh(), c


def paper_lstm_shapes(inputs, hidden):
    wide = 4 * hidden
    shapes = {"W_h": (wide, hidden), "W_x": (wide, inputs), "b": (wide,)}
    for name in ("alpha_", "beta_"):
        shapes.update(numbered(name, wide, wide, hidden))
    return shapes


def paper_gru_step(p, x, state, eps):
    """Equations 26 to 28."""
    (h,) = state
    gates = ln(h @ p["W_h"].T, p["alpha_1"], p["beta_1"], eps)
    gates = gates + ln(x @ p["W_x"].T, p["alpha_2"], p["beta_2"], eps)
    z, r = gates.sigmoid().chunk(2, -1)
    recurrent = r * ln(h @ p["U"].T, p["alpha_4"], p["beta_4"], eps)
    candidate = (ln(x @ p["W"].T, p["alpha_3"], p["beta_3"], eps) + recurrent).tanh()
    return ((1 - z) * h + z * candidate,)


def paper_gru_shapes(inputs, hidden):
    wide = 2 * hidden
    shapes = {"W_h": (wide, hidden), "W_x": (wide, inputs)}
    shapes.update({"W": (hidden, inputs), "U": (hidden, hidden)})
    for name in ("alpha_", "beta_"):
        shapes.update(numbered(name, wide, wide, hidden, hidden))
    return shapes


def paper_rnn_step(activation):
    """Equation 4."""

    def step(p, x, state, eps):
        (h,) = state
        a = h @ p["W_hh"].T + x @ p["W_xh"].T
        return (activation(ln(a, p["g"], p["b"], eps)),)

    return step


def paper_rnn_shapes(inputs, hidden):
    return {"W_hh": (hidden, hidden), "W_xh": (hidden, inputs), "g": (hidden,), "b": (hidden,)}


def theano_lstm_step(p, x, state, eps):
    """lnlstm_layer of ryankiros/layer-norm, layers.py. b is added twice."""
    h, c = state
    below = ln(x @ p["lnlstm_W"] + p["lnlstm_b"], p["lnlstm_s1"], p["lnlstm_b1"], eps)
    gates = below + ln(h @ p["lnlstm_U"], p["lnlstm_s2"], p["lnlstm_b2"], eps) + p["lnlstm_b"]
    i, f, o, g = gates.chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * ln(c, p["lnlstm_s3"], p["lnlstm_b3"], eps).tanh(), c


def theano_lstm_shapes(inputs, hidden):
    wide = 4 * hidden
    shapes = {"lnlstm_W": (inputs, wide), "lnlstm_U": (hidden, wide), "lnlstm_b": (wide,)}
    for name in ("lnlstm_b", "lnlstm_s"):
        shapes.update(numbered(name, wide, wide, hidden))
    return shapes


def theano_gru_step(p, x, state, eps):
    """lngru_layer of the same file."""
    (h,) = state
    p = {name[len("lngru_") :]: value for name, value in p.items()}
    gates = ln(x @ p["W"] + p["b"], p["s1"], p["b1"], eps) + ln(h @ p["U"], p["s3"], p["b3"], eps)
    r, u = gates.sigmoid().chunk(2, -1)
    candidate = r * ln(h @ p["Ux"], p["s4"], p["b4"], eps)
    candidate = (candidate + ln(x @ p["Wx"] + p["bx"], p["s2"], p["b2"], eps)).tanh()
    return (u * h + (1 - u) * candidate,)


def theano_gru_shapes(inputs, hidden):
    wide = 2 * hidden
    shapes = {"W": (inputs, wide), "U": (hidden, wide), "b": (wide,)}
    shapes.update({"Wx": (inputs, hidden), "Ux": (hidden, hidden), "bx": (hidden,)})
    for name in ("b", "s"):
        shapes.update(numbered(name, wide, hidden, wide, hidden))
    return {f"lngru_{name}": shape for name, shape in shapes.items()}


def draw_step(power):
    """LSTM_LN.lua and LayerNormalization.lua of ryankiros/layer-norm.

    The centered c is divided by (mean of squares) ** power + eps.
    """

    def step(p, x, state, eps):
        h, c = state

        def linear(gate):
            below = F.linear(x, p[f"{gate}.i2h.weight"], p[f"{gate}.i2h.bias"])
            return below + F.linear(h, p[f"{gate}.h2h.weight"], p[f"{gate}.h2h.bias"])

        g = linear("in_transform").tanh()
        c = linear("forget_gate").sigmoid() * c + linear("in_gate").sigmoid() * g
        centred = c - c.mean(-1, keepdim=True)
        normal = centred / (centred.square().mean(-1, keepdim=True) ** power + eps)
        return linear("out_gate").sigmoid() * (normal * p["ln.gamma"] + p["ln.beta"]).tanh(), c

    return step


def draw_shapes(inputs, hidden):
    shapes = {"ln.gamma": (hidden,), "ln.beta": (hidden,)}
    for gate in ("in_gate", "forget_gate", "out_gate", "in_transform"):
        for side, size in (("i2h", inputs), ("h2h", hidden)):
            shapes[f"{gate}.{side}.weight"] = (hidden, size)
            shapes[f"{gate}.{side}.bias"] = (hidden,)
    return shapes


def dreamer(parts, h):
    """Computes the gates of the dreamer GRU from the normalized projection."""
    reset, candidate, update = parts.chunk(3, -1)
    candidate = (reset.sigmoid() * candidate).tanh()
    update = (update - 1).sigmoid()
    return (update * candidate + (1 - update) * h,)


def dreamer_jax_step(p, x, state, eps):
    """RSSM._gru of danijar/dreamerv3, dreamerv3/nets.py: [h, x]."""
    (h,) = state
    parts = torch.cat([h, x], -1) @ p["gru/kernel"]
    return dreamer(ln(parts, p["gru/norm/scale"], p["gru/norm/bias"], eps), h)


def dreamer_jax_shapes(inputs, hidden):
    wide = 3 * hidden
    shapes = {"gru/kernel": (hidden + inputs, wide)}
    return {**shapes, "gru/norm/scale": (wide,), "gru/norm/bias": (wide,)}


def dreamer_torch_step(p, x, state, eps):
    """GRUCell of NM512/dreamerv3-torch, networks.py: [x, h]."""
    (h,) = state
    parts = torch.cat([x, h], -1) @ p["_layer.weight"].T
    return dreamer(ln(parts, p["_norm.weight"], p["_norm.bias"], eps), h)


def dreamer_torch_shapes(inputs, hidden):
    wide = 3 * hidden
    shapes = {"_layer.weight": (wide, inputs + hidden)}
    return {**shapes, "_norm.weight": (wide,), "_norm.bias": (wide,)}
