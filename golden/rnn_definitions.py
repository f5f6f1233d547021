"""Runs the definitions of rnn_cells.py, with gradients from PyTorch's autograd."""

import rnn_cells as cells
import torch
from rnn_autograd import array, leaf, record, set_parameters
from rnn_case import Draw, File, settings

SIZE = (6, 3, 4, 5)
LARGE = (7, 4, 13, 17)
VARIATIONS = {
    "plain": {},
    "zero_state": {"zero_state": True},
    "eps": {"eps": 0.05},
    "large": {"size": LARGE},
}


def parameters(draw, shapes):
    p = {name: torch.empty(s, dtype=torch.float64) for name, s in shapes.items()}
    set_parameters(draw, p)
    return {name: t.requires_grad_() for name, t in p.items()}


def run(step, p, x, state, eps, lengths=None, reverse=False):
    """The time loop. After its end a sequence keeps its state."""
    outputs = [None] * len(x)
    for t in reversed(range(len(x))) if reverse else range(len(x)):
        new = step(p, x[t], state, eps)
        if lengths is not None:
            on = (t < lengths)[:, None]
            new = tuple(torch.where(on, a, b) for a, b in zip(new, state))
        state = new
        outputs[t] = state[0]
    return torch.stack(outputs), state


class Definitions:
    """The cases of one file."""

    def __init__(self, source, about):
        self.source = source
        self.file = File(f"{about}; written from the text and run in f64 with PyTorch {torch.__version__}")

    def case(self, name, cell, step, shapes, size=SIZE, eps=1e-5, lengths=False, zero_state=False, **others):
        """One layer in one direction."""
        steps, batch, inputs, hidden = size
        draw = Draw(f"{self.source}-{name}")
        p = parameters(draw, shapes(inputs, hidden))
        states = ("h0", "c0") if cell == "lstm" else ("h0",)
        given = {"x": leaf(draw.x((steps, batch, inputs)))}
        if zero_state:
            state = tuple(torch.zeros(batch, hidden, dtype=torch.float64) for _ in states)
        else:
            given.update({s: leaf(draw.normal((batch, hidden))) for s in states})
            state = tuple(given[s] for s in states)
        lens = torch.from_numpy(draw.lengths(batch, steps)) if lengths else None
        y, final = run(step, p, given["x"], state, eps, lens)
        tensors = record(draw, given, p, {"y": y, **dict(zip(("hn", "cn"), final))})
        values = settings(cell, self.source, size, variant=self.source, eps=eps, **others)
        if lengths:
            tensors["lengths"] = array(lens)
            values["padding"] = "repeat"
        self.file.add(name, values, tensors)

    def write(self):
        self.file.write(self.source)


def paper():
    cases = Definitions("paper", "equations 4, 20 to 22 and 26 to 28 of arXiv 1607.06450")
    lstm = cells.paper_lstm_step, cells.paper_lstm_shapes
    gru = cells.paper_gru_step, cells.paper_gru_shapes
    for label, arguments in VARIATIONS.items():
        cases.case(f"lstm-{label}", "lstm", *lstm, gates="fiog", **arguments)
        cases.case(f"gru-{label}", "gru", *gru, gates="zrh", reset="after", bias=False, **arguments)
        for name, activation in (("tanh", torch.tanh), ("relu", torch.relu)):
            step = cells.paper_rnn_step(activation)
            cases.case(
                f"rnn_{name}-{label}",
                "rnn",
                step,
                cells.paper_rnn_shapes,
                gates="h",
                bias=False,
                activation=name,
                **arguments,
            )
    cases.write()


def theano():
    cases = Definitions("theano", "lnlstm_layer and lngru_layer of ryankiros/layer-norm")
    lstm = cells.theano_lstm_step, cells.theano_lstm_shapes
    gru = cells.theano_gru_step, cells.theano_gru_shapes
    for label, arguments in {**VARIATIONS, "lengths": {"lengths": True}}.items():
        cases.case(f"lstm-{label}", "lstm", *lstm, gates="ifog", **arguments)
        cases.case(f"gru-{label}", "gru", *gru, gates="ruh", reset="after", **arguments)
    cases.write()


def draw_source():
    cases = Definitions(
        "draw",
        "LSTM_LN.lua of ryankiros/layer-norm. LayerNormalization.lua divides by variance + eps "
        "in one version (divisor variance) and by standard deviation + eps in another (std)",
    )
    step = cells.draw_step(0.5)
    for label in ("plain", "zero_state", "eps"):
        cases.case(f"lstm-{label}", "lstm", step, cells.draw_shapes, gates="ifog", divisor="std", **VARIATIONS[label])
    cases.case("lstm-variance", "lstm", cells.draw_step(1), cells.draw_shapes, gates="ifog", divisor="variance")
    cases.write()


def dreamer_source():
    cases = Definitions("dreamer", "the GRU of danijar/dreamerv3 (jax) and of NM512's port (torch)")
    for label, arguments in VARIATIONS.items():
        arguments = {"eps": 1e-3, **arguments, "gates": "rcu", "bias": False}
        jax = cells.dreamer_jax_step, cells.dreamer_jax_shapes
        cases.case(f"gru_jax-{label}", "gru", *jax, order="hx", **arguments)
        port = cells.dreamer_torch_step, cells.dreamer_torch_shapes
        cases.case(f"gru_torch-{label}", "gru", *port, order="xh", **arguments)
    cases.write()


def fastrnns_layer(name, p, x, states, eps, bidirectional):
    """One layer of StackedLSTM and StackedLSTM2 of the original."""
    outputs, finals = [], []
    for direction, state in enumerate(states):
        prefix = f"{name}.directions.{direction}.cell." if bidirectional else f"{name}.cell."
        own = {n[len(prefix) :]: t for n, t in p.items() if n.startswith(prefix)}
        y, final = run(cells.fastrnns_step, own, x, state, eps, reverse=direction == 1)
        outputs.append(y)
        finals.append(final)
    return torch.cat(outputs, -1), finals


def fastrnns_case(file, name, size=SIZE, layers=1, bidirectional=False, eps=1e-5):
    steps, batch, inputs, hidden = size
    draw = Draw(f"fastrnns-{name}")
    directions = 2 if bidirectional else 1
    shapes = {}
    for layer in range(layers):
        below = hidden * directions if layer else inputs
        for direction in range(directions):
            middle = f"directions.{direction}." if bidirectional else ""
            for n, shape in cells.fastrnns_shapes(below, hidden).items():
                shapes[f"layers.{layer}.{middle}cell.{n}"] = shape
    p = parameters(draw, shapes)
    given = {"x": leaf(draw.x((steps, batch, inputs)))}
    for state in ("h0", "c0"):
        given[state] = leaf(draw.normal((layers * directions, batch, hidden)))

    y, finals = given["x"], []
    for layer in range(layers):
        index = range(layer * directions, (layer + 1) * directions)
        states = [(given["h0"][i], given["c0"][i]) for i in index]
        y, final = fastrnns_layer(f"layers.{layer}", p, y, states, eps, bidirectional)
        finals += final
    hn, cn = (torch.stack(s) for s in zip(*finals))
    values = settings(
        "lstm",
        "fastrnns",
        size,
        variant="fastrnns",
        layers=layers,
        bidirectional=bidirectional,
        bias=False,
        eps=eps,
        gates="ifgo",
    )
    file.add(name, values, record(draw, given, p, {"y": y, "hn": hn, "cn": cn}))


def fastrnns():
    file = File(
        "LayerNormLSTMCell in StackedLSTM and StackedLSTM2 of pytorch/pytorch, "
        "benchmarks/fastrnns/custom_lstms.py; written from the text and run in f64 with PyTorch "
        f"{torch.__version__}"
    )
    fastrnns_case(file, "lstm-plain")
    fastrnns_case(file, "lstm-layers2", layers=2)
    fastrnns_case(file, "lstm-bidirectional", bidirectional=True)
    fastrnns_case(file, "lstm-layers2_bidirectional", layers=2, bidirectional=True)
    # decompose_layernorm=True: the original's own LayerNorm, which has no eps.
    fastrnns_case(file, "lstm-decomposed", eps=0.0)
    fastrnns_case(file, "lstm-large", size=LARGE)
    file.write("fastrnns")


SOURCES = {
    "fastrnns": fastrnns,
    "paper": paper,
    "theano": theano,
    "draw": draw_source,
    "dreamer": dreamer_source,
}
