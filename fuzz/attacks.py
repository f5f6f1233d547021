"""Files made by hand to break a reader: sizes that nothing pays for, lengths that lie, nesting, names that are no names."""

import gzip
import hashlib
import json
import struct
import zlib

MODEL = "layernorm model"


def npy(shape, descr="<f4", data=b"", extra=""):
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, {extra}}}".encode()
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def idx(shape, data=b""):
    return bytes([0, 0, 8, len(shape)]) + b"".join(struct.pack(">I", length) for length in shape) + data


def safetensors(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, depth=8, colour=0, pixels=b"", before=b"", interlaced=0):
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)
    data = chunk(b"IDAT", zlib.compress(pixels, 9))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + before + data + chunk(b"IEND", b"")


def model(header, blobs=(), version=2, lengths=None):
    lengths = [len(blob) for blob in blobs] if lengths is None else lengths
    contents = json.dumps({"header": header, "blobs": lengths}).encode() + b"\n" + b"".join(blobs)
    title = {"format": MODEL, "version": version, "sha256": hashlib.sha256(contents).hexdigest()}
    return json.dumps(title).encode() + b"\n" + contents


def records(*lines):
    total, text = "0" * 16, b""
    for line in lines:
        line = line if isinstance(line, bytes) else json.dumps(line, separators=(",", ":")).encode()
        total = hashlib.sha256(total.encode() + line).hexdigest()[:16]
        text += line[:-1] + b',"sum":"' + total.encode() + b'"}\n'
    return text


def start(**settings):
    return {"record": "start", "version": 2, "study": "epsilon", "run": "epsilon-layer-1", "settings": settings}


def of_npy():
    for name, shape in {
        "rows-of-nothing": "(536870912, 0)",
        "columns-of-nothing": "(0, 536870912)",
        "channels-of-nothing": "(1, 536870912, 0)",
        "overflow": "(4294967296, 4294967296, 0)",
        "negative": "(-1, 2)",
        "huge": "(18446744073709551616,)",
        "nested": "(" * 5000,
        "many": "(" + "1," * 20000 + ")",
        "two-halves": "(3037000500, 3037000500)",
    }.items():
        yield name, npy(shape)
    yield "long-header", b"\x93NUMPY\x02\x00\xff\xff\xff\xff{"
    yield "structured", npy("(2,)", "[('a', '<f4')]", bytes(8))
    yield "object", npy("(2,)", "|O", bytes(16))


def lstm(hidden, inputs, count=16):
    """torch's LSTM with shapes whose data is not there."""
    names = {"weight_ih_l0": [4 * hidden, inputs], "weight_hh_l0": [4 * hidden, hidden]}
    return {name: {"dtype": "F32", "shape": shape, "data_offsets": [0, count]} for name, shape in names.items()}


def of_weights():
    yield "length-that-lies", struct.pack("<Q", 2**62) + b"{}"
    yield "length-of-a-gigabyte", struct.pack("<Q", 10**9) + b"{}"
    yield "nested-header", safetensors(b'{"a":' + b"[" * 100_000)
    yield "overflowing-shapes", safetensors(lstm(2**62, 2**62))
    yield "missing-data", safetensors(lstm(2**24, 2**24))
    yield "long-name", safetensors({"x" * 70_000: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, bytes(4))
    yield "escapes", safetensors({"\x1b]0;x\x07\x1b[2J": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}})
    empty = {"dtype": "F32", "data_offsets": [0, 0]}
    yield "rows-of-nothing", safetensors({"weight_ih_l0": empty | {"shape": [2**40, 0]}})
    wide = {"weight_ih_l0": empty | {"shape": [4 * 10_000, 0]}, "weight_hh_l0": empty | {"shape": [0, 10_000]}}
    yield "hidden-without-data", safetensors(wide)
    tensor = {"dtype": "F32", "shape": [4, 1], "data_offsets": [0, 16]}
    layers = {f"weight_ih_l{layer}": empty | {"shape": [0, 1]} for layer in range(5000)}
    yield (
        "many-layers",
        safetensors({"weight_ih_l0": tensor, **{n: t for n, t in layers.items() if n[-2:] != "l0"}}, bytes(16)),
    )
    many = {f"t{i}": empty | {"shape": [0]} for i in range(12_000)}
    yield "many-tensors", safetensors(many)
    yield (
        "half-bytes",
        safetensors({"weight_ih_l0": {"dtype": "F4", "shape": [2**20], "data_offsets": [0, 2**19]}}, bytes(2**19)),
    )
    for key, value in {"hidden": 10_000, "input": 2**24, "layers": 1024, "projection": 2**24}.items():
        yield f"described-{key}", described(**{key: value})
    yield "described-noise", described(dropout="NaN")
    yield "described-offset", described(offset="inf")


def described(**changes):
    """A file of the project's own that describes a network of other sizes than its tensors."""
    norm, off = "none", "false"
    lines = {
        "version": 1, "kind": "lstm", "input": 1, "hidden": 1, "layers": 1, "direction": "both", "projection": norm,
        "dropout": 0.0, "recurrent_dropout": 0.0, "drop_connect": 0.0, "zoneout_hidden": 0.0, "zoneout_cell": 0.0,
        "input_norm": norm, "recurrent_norm": norm, "sum_norm": norm, "cell_norm": norm, "input_bias": off,
        "recurrent_bias": off, "bias": off, "tied_bias": off, "offset": 0.0, "peephole": off, "coupled": off,
        "cell_clip": norm, "projection_bias": off, "projection_clip": norm, "reset": "product", "update": "keeps-old",
        "activation": "tanh", "name": "none",
    }  # fmt: skip
    text = "\n".join(f"{key} = {value}" for key, value in (lines | changes).items())
    tensor = {"dtype": "F32", "shape": [4, 1], "data_offsets": [0, 16]}
    return safetensors({"__metadata__": {"layernorm-rnn": text}, "l0.input_weight": tensor}, bytes(16))


def of_png():
    rows = lambda width, height: (b"\0" + b"\x7f" * width) * height
    yield "bomb-124-kilobytes", png(11_000, 11_000, pixels=rows(11_000, 11_000))
    yield "bomb-one-bit", png(100_000, 8000, depth=1, pixels=bytes(12_501 * 8000))
    yield "bomb-16-bit-colour", png(12_000, 3000, depth=16, colour=6, pixels=bytes((8 * 12_000 + 1) * 3000))
    yield "pixels-that-are-not-there", png(2**31 - 1, 1)
    yield "height-that-is-not-there", png(1, 2**31 - 1)
    yield "square-that-is-not-there", png(2**16, 2**13, colour=6)
    yield "no-pixels", png(0, 0)
    for length in (0, 1, 2, 3, 4, 5, 768, 769, 771):
        yield f"palette-{length}", png(2, 2, colour=3, pixels=rows(2, 2), before=chunk(b"PLTE", bytes(length)))
    short = chunk(b"PLTE", bytes(6)) + chunk(b"tRNS", bytes(300))
    yield "more-opacities-than-colours", png(2, 2, colour=3, pixels=rows(2, 2), before=short)
    yield "no-palette", png(2, 2, colour=3, pixels=rows(2, 2))
    yield "short-transparency", png(2, 2, pixels=rows(2, 2), before=chunk(b"tRNS", b"\0"))
    yield "interlaced", png(3, 3, pixels=bytes(20), interlaced=1)
    text = chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(100_000_000), 9))
    yield "text-bomb", png(2, 2, pixels=rows(2, 2), before=text)
    profile = chunk(b"iCCP", b"a\0\0" + zlib.compress(bytes(100_000_000), 9))
    yield "profile-bomb", png(2, 2, pixels=rows(2, 2), before=profile)
    yield "too-many-pixels", png(2, 2, pixels=bytes(50_000_000))
    yield "many-chunks", png(2, 2, pixels=rows(2, 2), before=chunk(b"tEXt", b"") * 80_000)


def of_model():
    spec = {
        "arch": {"lstm": {"hidden": 2**62}}, "norm": "layer", "start": {"seed": 1}, "optimizer": "adam",
        "learning_rate": 0.1, "final_rate": 1.0, "batch_size": 1, "steps": 1, "evaluations": 1, "data": "x", "train": 1,
        "validation": 1, "test": 1, "input_scale": 1.0, "trials": [],
    }  # fmt: skip
    head = {"spec": spec, "rows": 3, "columns": 3, "pixels": [0.0] * 256, "tensors": []}
    yield "hidden", model(head, [b""])
    yield "rows", model(head | {"rows": 2**40}, [b""])
    yield "blob-that-is-not-there", model(head, [b""], lengths=[2**62])
    yield "many-blobs", model(head, lengths=[0] * 300_000)
    yield "nested", b'{"format":"layernorm model","version":2,"sha256":"' + b"[" * 100_000
    yield "version", model(head, version=2**31)
    yield "no-line", b"{" * 1_000_000


def of_records():
    yield "nested", records(b'{"record":"start","version":2,"settings":' + b"[" * 100_000 + b"}")
    yield "wrong-study", records(start() | {"study": "x" * 100_000}, {"record": "end"})
    yield "html", records(start() | {"study": "</script><b>"}, {"record": "end"})
    yield (
        "numbers",
        records(start(rate=1e308), b'{"record":"event","name":"loss","data":[1e999,-1e999]}', {"record": "end"}),
    )
    loss = {"record": "event", "name": "evaluate", "data": {"step": 2**63, "train": None}}
    yield "events", records(start(steps=2**64 - 1), *[loss] * 3000, {"record": "end"})
    yield "empty-lines", b"\n" * 1_000_000
    yield "version", records(start() | {"version": 2**64 - 1})


def of_idx():
    yield "too-many-images", idx([2**32 - 1, 2**32 - 1, 2**32 - 1])
    yield "rows-of-nothing", idx([2**30, 0, 3])
    yield "dimensions", idx([1] * 255)
    yield "bomb", gzip.compress(idx([10**9 // 9, 3, 3], bytes(10**9 // 9 * 9)), 9, mtime=0)
    yield "bomb-of-members", gzip.compress(b"", mtime=0) * 40_000
    yield "name-without-end", b"\x1f\x8b\x08\x08" + bytes(6) + b"x" * 900_000


def of_real_models(folder):
    """Trained networks, with every number of their headers made another."""
    for file in sorted(folder.iterdir()):
        _, contents = file.read_bytes().split(b"\n", 1)
        line, blob = contents.split(b"\n", 1)
        header = json.loads(line)["header"]
        for number, (path, value) in enumerate(numbers(header)):
            for to in (0, 1, value + 1, 2**20, 2**31, 2**62, 2**64 - 1, -1):
                yield "model", f"model-{file.name}-{number}-{to}", model(changed(header, path, to), [blob])


def numbers(value, path=()):
    """The whole numbers in some JSON and where they are; of long lists, those at the beginning."""
    if isinstance(value, int) and not isinstance(value, bool):
        yield path, value
    items = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, inner in items:
        yield from numbers(inner, (*path, key))


def changed(value, path, to):
    if not path:
        return to
    copy = value.copy()
    copy[path[0]] = changed(value[path[0]], path[1:], to)
    return copy


def attacks():
    """(format, name, bytes) of each."""
    kinds = {
        "npy": of_npy,
        "weights": of_weights,
        "png": of_png,
        "model": of_model,
        "records": of_records,
        "idx": of_idx,
    }
    for kind, make in kinds.items():
        for name, content in make():
            yield kind, f"{kind}-{name}", content
