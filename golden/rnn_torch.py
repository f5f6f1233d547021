"""torch.nn.LSTM, GRU and RNN."""

from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import torch
from rnn_autograd import array, leaf, record, set_parameters
from rnn_case import Draw, File, settings

SMALL = (6, 3, 4, 5)
LARGE = (11, 5, 28, 33)

# Keyword arguments of the module, and our `lengths` and `zero_state`.
CASES = {
    "plain": {},
    "zero_state": {"zero_state": True},
    "no_bias": {"bias": False},
    "batch_first": {"batch_first": True},
    "layers2": {"num_layers": 2},
    "bidirectional": {"bidirectional": True},
    "layers2_bidirectional": {"num_layers": 2, "bidirectional": True},
    "lengths": {"lengths": True},
    "lengths_layers2_bidirectional": {
        "lengths": True,
        "num_layers": 2,
        "bidirectional": True,
        "batch_first": True,
    },
}
LSTM_CASES = {
    "proj": {"proj_size": 3},
    "proj_layers2_bidirectional": {"proj_size": 3, "num_layers": 2, "bidirectional": True},
    "proj_lengths": {"proj_size": 2, "lengths": True},
}
CELLS = {
    "lstm": (torch.nn.LSTM, {}),
    "gru": (torch.nn.GRU, {}),
    "rnn_tanh": (torch.nn.RNN, {"nonlinearity": "tanh"}),
    "rnn_relu": (torch.nn.RNN, {"nonlinearity": "relu"}),
}


def forward(module, x, states, lengths):
    """Returns y, and the final states as a list."""
    given = x
    if lengths is not None:
        given = pack_padded_sequence(x, lengths, module.batch_first, enforce_sorted=False)
    # One tensor for GRU and RNN, a pair for LSTM, None for zeros.
    initial = tuple(states) if len(states) > 1 else next(iter(states), None)
    y, final = module(given, initial)
    if lengths is not None:
        time = 1 if module.batch_first else 0
        y, _ = pad_packed_sequence(y, module.batch_first, total_length=x.shape[time])
    return y, list(final) if isinstance(final, tuple) else [final]


def case(file, cell, label, size, lengths=False, zero_state=False, **arguments):
    steps, batch, inputs, hidden = size
    name = f"{cell}-{label}"
    draw = Draw(f"torch-{name}")
    make, fixed = CELLS[cell]
    module = make(inputs, hidden, dtype=torch.float64, **fixed, **arguments)
    parameters = dict(module.named_parameters())
    set_parameters(draw, parameters)

    shape = (batch, steps) if module.batch_first else (steps, batch)
    given = {"x": leaf(draw.x((*shape, inputs)))}
    count = module.num_layers * (2 if module.bidirectional else 1)
    if not zero_state:
        given["h0"] = leaf(draw.normal((count, batch, module.proj_size or hidden)))
        if cell == "lstm":
            given["c0"] = leaf(draw.normal((count, batch, hidden)))
    lens = torch.from_numpy(draw.lengths(batch, steps)) if lengths else None
    y, final = forward(module, given["x"], list(given.values())[1:], lens)

    tensors = record(draw, given, parameters, {"y": y, **dict(zip(("hn", "cn"), final))})
    values = settings(
        cell.split("_")[0],
        "torch",
        size,
        layers=module.num_layers,
        bidirectional=module.bidirectional,
        batch_first=module.batch_first,
        proj=module.proj_size,
        bias=module.bias,
        gates={"lstm": "ifgo", "gru": "rzn"}.get(cell, "h"),
    )
    if cell == "gru":
        values["reset"] = "after"
    if cell == "rnn_relu":
        values["activation"] = "relu"
    if lengths:
        tensors["lengths"] = array(lens)
        values["padding"] = "zero"
    file.add(name, values, tensors)


def torch_small():
    file = File(f"torch.nn.LSTM, GRU and RNN of PyTorch {torch.__version__}, run in f64 on the CPU")
    for cell in CELLS:
        for label, arguments in {**CASES, **(LSTM_CASES if cell == "lstm" else {})}.items():
            if cell != "rnn_relu" or label in ("plain", "lengths_layers2_bidirectional"):
                case(file, cell, label, SMALL, **arguments)
    file.write("torch")


def torch_large():
    """Separate from the others because of the size of the files."""
    file = File(f"torch.nn.LSTM and GRU of PyTorch {torch.__version__}, run in f64 on the CPU")
    case(file, "lstm", "large", LARGE)
    case(file, "gru", "large", LARGE)
    file.write("torch_large")


SOURCES = {"torch": torch_small, "torch_large": torch_large}
