"""Exit of a process whose threads are inside calls."""

import subprocess
import sys

import pytest

SETUP = """
import threading, time
import numpy as np, layernorm
x, network = np.ones((4096, 256), "f4"), layernorm.LSTM(16, 32)
sequences = np.ones((64, 8, 16), "f4")
calls = {
    "norm": lambda: layernorm.layer_norm(x),
    "forward": lambda: network(sequences),
    "backward": lambda: network.train(sequences)[2].backward(np.ones((64, 8, 32), "f4")),
}
def forever(call):
    while True:
        call()
"""


@pytest.mark.parametrize("name", ["norm", "forward", "backward"])
def test_daemon_threads_inside_calls(name):
    # Before Python 3.14 a thread that returns during interpreter shutdown is unwound, which aborts at a Rust frame.
    code = f"{SETUP}\nfor _ in range(3): threading.Thread(target=forever, args=(calls[{name!r}],), daemon=True).start()"
    for _ in range(2):
        ended = subprocess.run(
            [sys.executable, "-c", f"{code}\ntime.sleep(0.2)"], capture_output=True, text=True, timeout=60
        )
        assert (ended.returncode, ended.stderr) == (0, "")
