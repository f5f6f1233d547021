"""Exhausted memory raises MemoryError, and the process continues."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit is read from /proc")

SETUP = """
import resource
import numpy as np, layernorm

layernorm.set_num_threads(1)
network, small = layernorm.LSTM(1, 512), np.ones((3, 2, 1), "f4")
before = network(small)[0].tobytes()
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (600 << 20),) * 2)
x = np.zeros((1 << 12, 16, 1), "f4")
try:
    CALL
except MemoryError as error:
    print(error)
else:
    print("no error")
assert network(small)[0].tobytes() == before
"""


@pytest.mark.parametrize(
    "call, words",
    [
        # There is enough memory for y, 128 MiB, but not for the tape.
        ("network.train(x)", "out of memory: "),
        ("network(np.zeros((1 << 15, 16, 1), 'f4'))", "Unable to allocate"),
        ("layernorm.LSTM(1, 1 << 14)", "Unable to allocate"),
        ("layernorm.layer_norm(np.broadcast_to(np.float32(1), (1 << 20, 1 << 10)))", "Unable to allocate"),
    ],
)
def test_memory_error(call, words):
    ran = subprocess.run(
        [sys.executable, "-c", SETUP.replace("CALL", call)], capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    assert words in ran.stdout
