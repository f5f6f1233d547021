"""Writes safetensors bytes so that the same content always gives the same file."""

import json


def write(path, data):
    # The safetensors library writes the metadata keys in a random order. Sorting
    # them keeps a file unchanged when a script is run again.
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    metadata = header.pop("__metadata__")
    header = {"__metadata__": dict(sorted(metadata.items())), **header}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size :])
