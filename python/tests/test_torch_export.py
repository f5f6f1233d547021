"""Modules in torch.export."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is missing: layernorm.torch is not tested")

import layernorm.torch as lt

MODULES = {
    "layer": (lambda: lt.LayerNorm(8), (4, 8)),
    "rms": (lambda: lt.RMSNorm(8), (4, 8)),
    "group": (lambda: lt.GroupNorm(2, 8), (4, 8, 3)),
    "batch": (lambda: lt.BatchNorm1d(8).eval(), (4, 8)),
    "instance": (lambda: lt.InstanceNorm2d(8), (4, 8, 3, 3)),
    "lstm": (lambda: lt.LSTM(8, 5), (7, 4, 8)),
    "gru": (lambda: lt.GRU(8, 5), (7, 4, 8)),
    "rnn": (lambda: lt.RNN(8, 5), (7, 4, 8)),
}


@pytest.mark.parametrize("name", MODULES)
def test_exported_programs(name):
    make, shape = MODULES[name]
    ours, x = make(), torch.randn(shape)
    program = torch.export.export(ours, (torch.randn(shape),))
    found, expected = program.module()(x), ours(x)
    found, expected = (t[0] if isinstance(t, tuple) else t for t in (found, expected))
    assert torch.equal(found, expected)
