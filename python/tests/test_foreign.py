"""Weights of recurrent modules of other libraries: torchaudio, and PyTorch's fastrnns.

fastrnns is in PyTorch's repository (``benchmarks/fastrnns/custom_lstms.py``) but in no package; its layers are reimplemented here,
with its names and equations. So is torchaudio's class, for when torchaudio is not installed.
"""

import importlib.util
import os
import pathlib
import sys
import types

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is missing: layernorm.torch is not tested")

import layernorm.torch as lt
from torch import nn

# A few steps with sums over a few dozen numbers of magnitude 1, with errors on both sides.
CLOSE = dict(rtol=0, atol=512 * 2.0**-24)


def torchaudio_folder():
    """Returns the folder of torchaudio: an installed package, or the folder LAYERNORM_TORCHAUDIO."""
    if "LAYERNORM_TORCHAUDIO" in os.environ:
        return pathlib.Path(os.environ["LAYERNORM_TORCHAUDIO"], "torchaudio")
    spec = importlib.util.find_spec("torchaudio")
    return pathlib.Path(spec.submodule_search_locations[0]) if spec else pathlib.Path("torchaudio is missing")


def torchaudio_class():
    """Loads ``_CustomLSTM`` from its file, because torchaudio cannot be imported with another version of PyTorch."""
    root = torchaudio_folder()
    if not (root / "models" / "rnnt.py").exists():
        pytest.skip("torchaudio is missing: its own class is not taken over")
    before = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "torchaudio"}
    try:
        for name in ("torchaudio", "torchaudio.models"):
            empty = types.ModuleType(name)
            empty.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
            sys.modules[name] = empty
        sys.modules["torchaudio.models"].Emformer = importlib.import_module("torchaudio.models.emformer").Emformer  # type: ignore[attr-defined]
        return importlib.import_module("torchaudio.models.rnnt")._CustomLSTM
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "torchaudio"]:
            del sys.modules[name]
        sys.modules.update(before)


class _CustomLSTM(nn.Module):
    """As in `models/rnnt.py` of torchaudio 2.11."""

    def __init__(self, inputs, hidden, layer_norm=False, layer_norm_epsilon=1e-5):
        super().__init__()
        self.x2g = nn.Linear(inputs, 4 * hidden, bias=not layer_norm)
        self.p2g = nn.Linear(hidden, 4 * hidden, bias=False)
        self.c_norm = nn.LayerNorm(hidden, eps=layer_norm_epsilon) if layer_norm else nn.Identity()
        self.g_norm = nn.LayerNorm(4 * hidden, eps=layer_norm_epsilon) if layer_norm else nn.Identity()
        self.hidden_dim = hidden

    def forward(self, input, state):
        h = c = torch.zeros(input.shape[1], self.hidden_dim)
        outputs = []
        for gates in self.x2g(input).unbind(0):
            i, f, g, o = self.g_norm(gates + self.p2g(h)).chunk(4, 1)
            c = self.c_norm(f.sigmoid() * c + i.sigmoid() * g.tanh())
            h = o.sigmoid() * c.tanh()
            outputs.append(h)
        return torch.stack(outputs), [h, c]


class _Cell(nn.Module):
    """LayerNormLSTMCell of fastrnns, or, with two biases and no norms, its LSTMCell."""

    def __init__(self, inputs, hidden, norms):
        super().__init__()
        self.weight_ih = nn.Parameter(torch.randn(4 * hidden, inputs))
        self.weight_hh = nn.Parameter(torch.randn(4 * hidden, hidden))
        self.norms = norms
        if norms:
            self.layernorm_i, self.layernorm_h = nn.LayerNorm(4 * hidden), nn.LayerNorm(4 * hidden)
            self.layernorm_c = nn.LayerNorm(hidden)
        else:
            self.bias_ih, self.bias_hh = nn.Parameter(torch.randn(4 * hidden)), nn.Parameter(torch.randn(4 * hidden))

    def forward(self, x, h, c):
        zx, zh = x @ self.weight_ih.t(), h @ self.weight_hh.t()
        gates = self.layernorm_i(zx) + self.layernorm_h(zh) if self.norms else zx + self.bias_ih + zh + self.bias_hh
        i, f, g, o = gates.chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        c = self.layernorm_c(c) if self.norms else c
        return o.sigmoid() * c.tanh(), c


class _Layer(nn.Module):
    """LSTMLayer, or ReverseLSTMLayer."""

    def __init__(self, inputs, hidden, norms, reverse):
        super().__init__()
        self.cell, self.reverse, self.hidden = _Cell(inputs, hidden, norms), reverse, hidden

    def forward(self, input):
        h = c = torch.zeros(input.shape[1], self.hidden)
        outputs = []
        for x in reversed(input.unbind(0)) if self.reverse else input.unbind(0):
            h, c = self.cell(x, h, c)
            outputs.append(h)
        return torch.stack(outputs[::-1] if self.reverse else outputs)


class _Both(nn.Module):
    """BidirLSTMLayer."""

    def __init__(self, inputs, hidden, norms):
        super().__init__()
        self.directions = nn.ModuleList([_Layer(inputs, hidden, norms, reverse) for reverse in (False, True)])

    def forward(self, input):
        return torch.cat([direction(input) for direction in self.directions], -1)


class _Stacked(nn.Module):
    """StackedLSTM of LSTMLayers, or StackedLSTM2 of BidirLSTMLayers."""

    def __init__(self, inputs, hidden, norms, bidirectional):
        super().__init__()
        width = 2 * hidden if bidirectional else hidden
        sizes = (inputs, width, width)
        layers = [_Both(n, hidden, norms) if bidirectional else _Layer(n, hidden, norms, False) for n in sizes]
        self.layers = nn.ModuleList(layers)

    def forward(self, input):
        for layer in self.layers:
            input = layer(input)
        return input


def moved(module):
    """Changes the norms' parameters from their initial values."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if "norm" in name:
                parameter.add_(0.3 * torch.randn_like(parameter))
    return module


@pytest.mark.parametrize("norms", [True, False])
@pytest.mark.parametrize("real", [True, False], ids=["torchaudio's", "made again"])
def test_torchaudio(real, norms):
    torch.manual_seed(9)
    module = moved((torchaudio_class() if real else _CustomLSTM)(5, 8, norms, 1e-3))
    ours = lt.LSTM.from_module(module)
    assert ours.variant == ("torchaudio" if norms else "none")
    x = torch.randn(6, 4, 5)
    expected, (h, c) = module(x, None)
    found, (last_h, last_c) = ours(x)
    for a, b in ((found, expected), (last_h[0], h), (last_c[0], c)):
        torch.testing.assert_close(a, b, **CLOSE)
    with pytest.raises(TypeError, match="which is an LSTM"):
        lt.GRU.from_module(module)


@pytest.mark.parametrize("norms", [True, False])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_fastrnns(norms, bidirectional):
    torch.manual_seed(9)
    module = moved(_Stacked(5, 8, norms, bidirectional))
    ours = lt.LSTM.from_module(module)
    assert ours.variant == ("fastrnns" if norms else "none") and ours.num_layers == 3
    x = torch.randn(6, 4, 5)
    # Weights of standard deviation 1, as fastrnns initializes them: sums of magnitude 4; without norms, errors grow with each layer.
    torch.testing.assert_close(ours(x)[0], module(x), rtol=0, atol=4096 * 2.0**-24)
    alone = moved(_Layer(5, 8, norms, False))
    torch.testing.assert_close(lt.LSTM.from_module(alone)(x)[0], alone(x), rtol=0, atol=1024 * 2.0**-24)


def test_what_is_refused():
    with pytest.raises(TypeError, match="found Linear"):
        lt.LSTM.from_module(nn.Linear(2, 3))
    with pytest.raises(TypeError, match="expected LSTM, found GRU"):
        lt.LSTM.from_module(nn.GRU(2, 3))


def test_norms_of_different_eps_are_refused():
    theirs = _CustomLSTM(3, 4, layer_norm=True, layer_norm_epsilon=1e-5)
    lt.LSTM.from_module(theirs)
    theirs.g_norm.eps = 1e-3
    with pytest.raises(
        ValueError, match=r"expected one eps for all of its norms, found 1e-05 \(c_norm\), 0.001 \(g_norm\)"
    ):
        lt.LSTM.from_module(theirs)
