"""torchaudio's _CustomLSTM and haste's LayerNormLSTM and LayerNormGRU.

Both are Python code on top of PyTorch, in packages that cannot be imported as a whole:
torchaudio requires PyTorch's version of CUDA, and haste builds CUDA kernels. So only
the files needed are imported, from the published packages.
"""

import importlib
import importlib.metadata
import importlib.util
import os
import pathlib
import sys
import types

import torch
from rnn_autograd import array, leaf, record, set_parameters
from rnn_case import Draw, File, settings

SIZE = (6, 3, 4, 5)


def hollow(name, folder, **members):
    """Registers a package without running its __init__."""
    package = types.ModuleType(name)
    package.__path__ = [str(folder)]
    package.__dict__.update(members)
    sys.modules[name] = package


def given(draw, size, names, batch_first=False):
    """Returns leaf tensors for x and the named states; a state is [*lead, B, H]."""
    steps, batch, inputs, hidden = size
    shape = (batch, steps) if batch_first else (steps, batch)
    result = {"x": leaf(draw.x((*shape, inputs)))}
    for name, lead in names.items():
        result[name] = leaf(draw.normal((*lead, batch, hidden)))
    return result


def torchaudio():
    folder = pathlib.Path(importlib.util.find_spec("torchaudio").origin).parent
    hollow("torchaudio", folder)
    # rnnt.py imports the Emformer, which the LSTM does not use.
    hollow("torchaudio.models", folder / "models", Emformer=None)
    custom_lstm = importlib.import_module("torchaudio.models.rnnt")._CustomLSTM
    version = importlib.metadata.version("torchaudio")
    file = File(
        f"torchaudio.models.rnnt._CustomLSTM of torchaudio {version}, run in f64 on the CPU "
        f"with PyTorch {torch.__version__}"
    )

    def case(name, zero_state=False, size=SIZE, **arguments):
        draw = Draw(f"torchaudio-{name}")
        module = custom_lstm(size[2], size[3], **arguments).double()
        parameters = dict(module.named_parameters())
        set_parameters(draw, parameters)
        inputs = given(draw, size, {} if zero_state else {"h0": (), "c0": ()})
        state = None if zero_state else [inputs["h0"], inputs["c0"]]
        y, (hn, cn) = module(inputs["x"], state)
        values = settings("lstm", "torchaudio", size, gates="ifgo")
        if arguments["layer_norm"]:
            eps = arguments.get("layer_norm_epsilon", 1e-5)
            values.update(variant="torchaudio", bias=False, eps=eps)
        file.add(name, values, record(draw, inputs, parameters, {"y": y, "hn": hn, "cn": cn}))

    case("lstm-layer_norm", layer_norm=True)
    case("lstm-layer_norm_zero_state", layer_norm=True, zero_state=True)
    case("lstm-layer_norm_eps", layer_norm=True, layer_norm_epsilon=0.05)
    case("lstm-layer_norm_large", layer_norm=True, size=(7, 4, 13, 17))
    case("lstm-plain", layer_norm=False)
    file.write("torchaudio")


def haste():
    try:
        folder = pathlib.Path(os.environ["HASTE_SOURCE"]) / "frameworks" / "pytorch"
    except KeyError:
        sys.exit("HASTE_SOURCE: the folder of the unpacked sdist of haste_pytorch")
    hollow("haste_pytorch", folder)
    # The CUDA kernels. Parameters on the CPU use the Python implementation.
    hollow("haste_pytorch_lib", folder)
    classes = {
        "lstm": importlib.import_module("haste_pytorch.layer_norm_lstm").LayerNormLSTM,
        "gru": importlib.import_module("haste_pytorch.layer_norm_gru").LayerNormGRU,
    }
    file = File(
        "haste.LayerNormLSTM and LayerNormGRU of haste_pytorch 0.5.0rc0, their CPU path in Python "
        f"run in f64 with PyTorch {torch.__version__}. y is not masked by the lengths, and "
        "zoneout_mask is 1 where the new h is taken"
    )

    def case(cell, label, size=SIZE, training=True, zero_state=False, lengths=False, **arguments):
        draw = Draw(f"haste-{cell}-{label}")
        module = classes[cell](size[2], size[3], **arguments).double().train(training)
        parameters = dict(module.named_parameters())
        set_parameters(draw, parameters)
        states = {"h0": (1,), "c0": (1,)} if cell == "lstm" else {"h0": (1,)}
        inputs = given(draw, size, {} if zero_state else states, module.batch_first)
        initial = list(inputs.values())[1:] or [None]
        values = settings(
            cell,
            "haste",
            size,
            variant="haste",
            batch_first=module.batch_first,
            eps=1e-5,
            gates={"lstm": "igfo", "gru": "zrh"}[cell],
            zoneout=module.zoneout,
            training=training,
        )
        if cell == "gru":
            values["reset"] = "after"
        extra = {}
        if module.zoneout and training:
            # The original draws this mask from the global generator.
            mask = draw.state.uniform(size=(*size[:2], size[3])) >= module.zoneout
            extra["zoneout_mask"] = mask.astype("float64")
            module._get_zoneout_mask = lambda _: torch.from_numpy(extra["zoneout_mask"])
        lens = torch.from_numpy(draw.lengths(size[1], size[0])) if lengths else None
        if lengths:
            extra["lengths"] = array(lens)
            values["padding"] = "run"
        state = tuple(initial) if len(initial) > 1 else initial[0]
        y, final = module(inputs["x"], state, lens)
        outputs = {"y": y, **dict(zip(("hn", "cn"), final if cell == "lstm" else [final]))}
        file.add(f"{cell}-{label}", values, {**record(draw, inputs, parameters, outputs), **extra})

    for cell in classes:
        case(cell, "plain")
        case(cell, "zero_state", zero_state=True)
        case(cell, "batch_first", batch_first=True)
        case(cell, "lengths", lengths=True)
        case(cell, "zoneout_training", zoneout=0.3)
        case(cell, "zoneout_inference", zoneout=0.3, training=False)
        case(cell, "large", size=(7, 4, 13, 17))
    file.write("haste")


SOURCES = {"torchaudio": torchaudio, "haste": haste}
