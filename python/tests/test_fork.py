"""Calls in a forked process, which lacks the threads of its parent."""

import multiprocessing
import signal

import numpy as np
import pytest

import layernorm

pytestmark = pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")


def _in_child(compute, want, queue):
    signal.alarm(60)
    queue.put(bool((np.asarray(compute()) == want).all()))


def same_in_child(compute):
    """Returns whether a forked process computes the same results, with threads, after this one has used threads."""
    want = np.asarray(compute())
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(compute, want, queue))
    child.start()
    child.join(timeout=90)
    assert child.exitcode == 0, f"the child ended with {child.exitcode}"
    return queue.get(timeout=10)


@pytest.fixture
def two_threads():
    layernorm.set_num_threads(2)
    yield
    layernorm.set_num_threads(None)


def test_numpy(two_threads):
    x = np.random.default_rng(0).standard_normal((4096, 64)).astype(np.float32)
    assert same_in_child(lambda: layernorm.layer_norm(x))
    network, sequences = layernorm.LSTM(28, 128), x[: 28 * 64, :28].reshape(28, 64, 28)
    assert same_in_child(lambda: network(sequences)[0])


def test_torch(two_threads):
    torch = pytest.importorskip("torch")
    from layernorm.torch import LSTM, LayerNorm

    x = torch.randn(4096, 64)
    norm, network = LayerNorm(64).requires_grad_(False), LSTM(28, 128).requires_grad_(False)
    # PyTorch's own operations hang in a forked process with threads; ours do not.
    assert same_in_child(lambda: norm(x).numpy())
    sequences = torch.randn(28, 64, 28)
    assert same_in_child(lambda: network(sequences)[0].numpy())
