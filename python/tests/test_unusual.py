"""Mistakes on NumPy's side: each is refused with words, or does what it says."""

import numpy as np
import pytest

import layernorm

X = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)


@pytest.mark.parametrize("threads", [0, -1, 10**30])
def test_threads(threads):
    with pytest.raises(ValueError, match=f"threads: expected 1 or more, found {threads}"):
        layernorm.set_num_threads(threads)


@pytest.mark.parametrize("field", ["m", "delta", "rstd"])
def test_statistics_that_were_replaced_are_used(field):
    _, stats = layernorm.layer_norm(X, return_stats=True)
    whole = layernorm.layer_norm_backward(X, X, stats=stats).x
    changed = stats._replace(**{field: getattr(stats, field) + np.float32(1)})
    assert not np.array_equal(whole, layernorm.layer_norm_backward(X, X, stats=changed).x)
    swapped = layernorm.Stats(stats.m, stats.delta, stats.m)
    assert not np.array_equal(whole, layernorm.layer_norm_backward(X, X, stats=swapped).x)
    with pytest.raises(ValueError, match="statistics: expected shape"):
        layernorm.layer_norm_backward(X, X, stats=layernorm.Stats(*(part[:2] for part in stats)))


def test_groups_are_checked_before_memory_is_taken():
    for call in (
        lambda: layernorm.group_norm(X, 10**12, return_stats=True),
        lambda: layernorm.group_norm_backward(X, X, 10**30),
    ):
        with pytest.raises(ValueError, match="groups: expected a divisor of the 4 channels"):
            call()


def test_running_statistics():
    mean, var = np.zeros(4, np.float32), np.ones(4, np.float32)
    run = lambda mean, var, **rest: layernorm.batch_norm(X, mean, var, training=True, **rest)
    with pytest.raises(ValueError, match="memory of their own"):
        run(mean, mean)
    with pytest.raises(ValueError, match="read-only"):
        run(np.broadcast_to(np.float32(0), 4), var)
    with pytest.raises(ValueError, match="num_batches_tracked: expected 0 or more, found -1"):
        run(mean, var, momentum=None, num_batches_tracked=-1)
    # Not where its elements should be: computed in a copy and written back.
    odd = np.zeros(17, np.uint8)[1:].view(np.float32)
    assert not odd.flags.aligned
    run(odd, var.copy())
    run(mean, var)
    assert np.array_equal(odd, mean) and mean.any()


def test_recurrent_networks_take_swapped_and_misplaced_bytes():
    lstm = layernorm.LSTM(3, 5)
    x = np.random.default_rng(1).standard_normal((7, 2, 3)).astype(np.float32)
    y = lstm(x)[0]
    odd = np.zeros(x.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(x.shape)
    odd[...] = x
    assert np.array_equal(lstm(x.astype(">f4"))[0], y) and np.array_equal(lstm(odd)[0], y)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_seeds(seed):
    with pytest.raises(ValueError, match="seed: expected"):
        layernorm.LSTM(3, 5, seed=seed)
    with pytest.raises(ValueError, match="seed: expected"):
        layernorm.LSTM(3, 5).train(np.zeros((1, 1, 3), np.float32), seed=seed)
