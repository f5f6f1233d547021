"""Converted models."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is missing: layernorm.torch is not tested")

import layernorm.torch as lt
from torch import nn


def test_convert_says_what_it_did():
    class Odd(nn.LayerNorm):
        pass

    model = nn.Sequential(nn.LayerNorm(4), nn.Sequential(nn.GroupNorm(2, 4), nn.RMSNorm(4)), Odd(4), nn.BatchNorm1d(4))
    parameters = list(model.parameters())
    optimizer = torch.optim.SGD(parameters, 0.1)
    done = lt.convert(model)
    assert list(done.changed) == ["0", "1.0", "1.1"] and done.left == {"2": "Odd", "3": "BatchNorm1d"}
    assert "3 norms converted, 2 left unchanged" in str(done) and "1.1: RMSNorm((4,)" in str(done)
    assert type(model[0]) is lt.LayerNorm and type(model[2]) is Odd
    assert all(a is b for a, b in zip(model.parameters(), parameters)), "what the optimizer holds"
    before = model[0].weight.clone()
    torch.manual_seed(0)
    (model(torch.randn(8, 4)) * torch.randn(8, 4)).sum().backward()
    optimizer.step()
    assert not torch.equal(model[0].weight, before)
    assert not lt.convert(model).changed
    alone = nn.LayerNorm(3)
    assert list(lt.convert(alone).changed) == [""] and type(alone) is lt.LayerNorm


def encoder(**options):
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, **options)
    nested = not options.get("norm_first", False)
    return nn.Sequential(
        nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(32), enable_nested_tensor=nested), nn.Linear(32, 5)
    )


def losses(model, inputs, logits, classes, steps=30):
    """Returns the loss curve of a model that memorizes some labels."""
    torch.manual_seed(2)
    target = torch.randint(classes, logits(model, inputs).shape[:-1])
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    curve = []
    for _ in range(steps):
        loss = nn.functional.cross_entropy(logits(model, inputs).flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        curve.append(loss.item())
    return torch.tensor(curve, dtype=torch.float64)


# Outputs: five norms with four blocks between them; each keeps numbers near 1 and adds a few float32 roundings.
OUTPUTS = dict(rtol=0, atol=200 * 2.0**-24)


def same_curve(theirs, ours, inputs, logits, classes):
    """Asserts that both models learn, and with the same loss curve.

    In float64 the same two models differ by a factor of 2^29 less, which shows how much of the difference is rounding. Adam
    divides a gradient by its own magnitude: if that is near 0, a rounding error can reverse a step of 10^-3. So after t steps
    parameters differ by at most 2·10^-3·t, and the loss by much less, because these are the parameters that matter least. The
    curves may differ by 10^-4, while the loss falls by tenths; in float64 they agree to 10^-9.
    """
    expected = losses(theirs, inputs, logits, classes)
    assert expected[-1] < expected[0] - 0.1, "it learns"
    torch.testing.assert_close(losses(ours, inputs, logits, classes), expected, rtol=0, atol=1e-4)


def same_curve_in_double(theirs, ours, inputs, logits, classes):
    expected = losses(theirs.double(), inputs, logits, classes)
    torch.testing.assert_close(losses(ours.double(), inputs, logits, classes), expected, rtol=0, atol=1e-9)


def pair_of(make):
    theirs, ours = make(), make()
    done = lt.convert(ours)
    return theirs, ours, done


@pytest.mark.parametrize("options", [{}, {"norm_first": True}, {"activation": "gelu"}])
def test_a_transformer_trains_to_the_same_curve(options):
    theirs, ours, done = pair_of(lambda: encoder(**options))
    assert len(done.changed) == 5 and not done.left
    torch.manual_seed(4)
    x = torch.randn(16, 7, 32)
    torch.testing.assert_close(ours(x), theirs(x), **OUTPUTS)
    same_curve(theirs, ours, x, lambda model, x: model(x), 5)
    theirs, ours, _ = pair_of(lambda: encoder(**options))
    same_curve_in_double(theirs, ours, x.double(), lambda model, x: model(x), 5)


def test_a_transformer_outside_training(monkeypatch):
    """PyTorch's fused inference path, which does not call the norms, is disabled."""
    theirs, ours, done = pair_of(lambda: encoder()[0].eval())
    assert done.unfused == ["layers.0", "layers.1"] and "layers.1: fused inference path disabled" in str(done)
    calls, forward = [], lt.LayerNorm.forward
    monkeypatch.setattr(lt.LayerNorm, "forward", lambda self, x: (calls.append(1), forward(self, x))[1])
    x = torch.randn(3, 7, 32)
    padding = torch.zeros(3, 7, dtype=torch.bool)
    padding[1, 5:] = padding[2, 2:] = True
    for mode in (torch.no_grad, torch.inference_mode, torch.enable_grad):
        for mask in (None, padding):
            with mode():
                calls.clear()
                found, expected = ours(x, src_key_padding_mask=mask), theirs(x, src_key_padding_mask=mask)
                assert len(calls) == 5
                there = slice(None) if mask is None else ~mask
                torch.testing.assert_close(found[there], expected[there], **OUTPUTS)


def test_a_transformer_of_the_transformers_package():
    transformers = pytest.importorskip("transformers", reason="the package transformers is missing")
    sizes = dict(vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
    config = transformers.BertConfig(**sizes, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)

    def bert():
        torch.manual_seed(3)
        return transformers.BertForMaskedLM(config)

    theirs, ours, done = pair_of(bert)
    # Embeddings, two per layer, and the head.
    assert len(done.changed) == 6 and not done.left
    torch.manual_seed(4)
    ids = torch.randint(50, (8, 10))
    for model in (theirs, ours):
        model.eval()
    with torch.no_grad():
        torch.testing.assert_close(ours(ids).logits, theirs(ids).logits, **OUTPUTS)
    for model in (theirs, ours):
        model.train()
    same_curve(theirs, ours, ids, lambda model, ids: model(ids).logits, 50)
    theirs, ours, _ = pair_of(bert)
    same_curve_in_double(theirs, ours, ids, lambda model, ids: model(ids).logits, 50)
