"""Unusual NumPy arguments: each raises with a message, or works as documented."""

import threading

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

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


@pytest.mark.parametrize("dtype", ["i8", "i4", "?", "c8", "O"])
@pytest.mark.parametrize("training", [True, False])
def test_running_statistics_of_another_kind_are_refused(dtype, training):
    mean, var = np.zeros(4, dtype), np.ones(4, dtype)
    with pytest.raises(TypeError, match=f"running_mean: expected float16, .* or float64, found {mean.dtype}"):
        layernorm.batch_norm(X, mean, var, training=training)
    with pytest.raises(TypeError, match=f"running_var: expected float16, .* or float64, found {mean.dtype}"):
        layernorm.batch_norm(X, np.zeros(4, "f4"), var, training=training)
    assert not mean.any() and var.all()
    with pytest.raises(TypeError, match="running_mean: expected float16"):
        layernorm.batch_norm_backward(X, X, mean, var)


def running(make):
    """Returns running statistics after a batch, in memory created by ``make``."""
    mean, var = make()
    mean[...], var[...] = 0.25, 2.0
    layernorm.batch_norm(X, mean, var, training=True)
    return np.stack([mean, var]).astype(np.float32)


def test_running_statistics_in_any_memory():
    plain = running(lambda: np.empty((2, 4), np.float32))
    apart = np.empty(16, np.float32)
    for make in (
        lambda: (apart[:8:2], apart[1:8:2]),  # interleaved, which is not an overlap
        lambda: (apart[7::-2], apart[8::2]),
        lambda: np.empty((2, 4), ">f4"),
        lambda: np.empty((2, 4)),
    ):
        assert np.array_equal(running(make), plain)


def test_running_statistics_that_are_the_weight():
    weight, bias = np.full(4, 1.5, np.float32), np.full(4, 0.5, np.float32)
    wanted = layernorm.batch_norm(X, np.full(4, 0.5, "f4"), np.full(4, 1.5, "f4"), weight, bias, training=True)
    assert np.array_equal(layernorm.batch_norm(X, bias, weight, weight, bias, training=True), wanted)
    assert not np.array_equal(weight, np.full(4, 1.5))


def test_running_statistics_that_overlap_are_refused():
    memory, var = np.zeros(32, np.float32), np.ones(4, np.float32)
    run = lambda mean, var, **rest: layernorm.batch_norm(X, mean, var, training=True, **rest)
    for mean, other in ((memory[:8:2], memory[2:10:2]), (memory[:4], memory[3:7]), (memory[6::-2], memory[:7:2])):
        with pytest.raises(ValueError, match="running_mean and running_var: must not share memory"):
            run(mean, other)
    for strides in ((0,), (2,), (-2,)):
        with pytest.raises(ValueError, match="running_mean: expected elements that do not overlap, found strides"):
            run(as_strided(memory[16:], (4,), strides), var)
    out = memory[:12].reshape(3, 4)
    with pytest.raises(ValueError, match="running_var and out: must not share memory"):
        run(var, memory[8:12], out=out)
    assert not memory.any() and (var == 1).all()


def test_running_statistics():
    mean, var = np.zeros(4, np.float32), np.ones(4, np.float32)
    run = lambda mean, var, **rest: layernorm.batch_norm(X, mean, var, training=True, **rest)
    with pytest.raises(ValueError, match="must not share memory"):
        run(mean, mean)
    with pytest.raises(ValueError, match="read-only"):
        run(np.broadcast_to(np.float32(0), 4), var)
    with pytest.raises(ValueError, match="num_batches_tracked: expected 0 or more, found -1"):
        run(mean, var, momentum=None, num_batches_tracked=-1)
    # Misaligned: computed in a copy and written back.
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


CALLS = {
    "layer_norm": lambda x, **rest: layernorm.layer_norm(x, **rest),
    "rms_norm": lambda x, **rest: layernorm.rms_norm(x, **rest),
    "group_norm": lambda x, **rest: layernorm.group_norm(x, 2, **rest),
    "instance_norm": lambda x, **rest: layernorm.instance_norm(x[..., None], **rest),
    "batch_norm": lambda x, **rest: layernorm.batch_norm(x, **rest),
}


class Liar(np.ndarray):
    """An array with wrong attributes."""

    shape = property(lambda self: (3, 4))
    strides = property(lambda self: (16, 4))
    dtype = property(lambda self: np.dtype(np.float32))
    size = property(lambda self: 12)
    itemsize = property(lambda self: 4)
    ctypes = property(lambda self: type("C", (), {"data": 64}))
    base = property(lambda self: np.zeros((3, 3), np.float32))

    @property
    def __array_interface__(self):
        return {"data": (64, False), "shape": (3, 4), "typestr": "<f4", "version": 3}


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm", "group_norm", "batch_norm"])
def test_subclasses_are_what_their_memory_is(name):
    call = CALLS[name]
    y = call(X)
    liar = X.copy().view(Liar)
    assert np.array_equal(call(liar), y)
    # Its memory is written, and the object itself is returned.
    assert call(X, out=liar) is liar and np.array_equal(np.asarray(liar), y)
    with pytest.raises(ValueError, match=r"out: expected shape \[3, 4\], found \[1\]"):
        call(X, out=np.zeros(1, np.float32).view(Liar))
    with pytest.raises(TypeError, match="out: expected float32, found float64"):
        call(X, out=np.zeros((3, 4)).view(Liar))
    with pytest.raises((ValueError, TypeError), match="expected"):
        call(X, weight=np.zeros(1, np.int8).view(Liar))


def test_subclasses_as_statistics_and_states():
    liar = np.zeros(1, np.float32).view(Liar)
    with pytest.raises(ValueError, match=r"statistics: expected shape \[3\], found \[1\]"):
        layernorm.layer_norm_backward(X, X, stats=(liar, liar, liar))
    with pytest.raises(ValueError, match=r"running_mean: expected shape \[4\], found \[1\]"):
        layernorm.batch_norm(X, liar, liar, training=True)
    gru = layernorm.GRU(3, 4)
    with pytest.raises(ValueError, match=r"h of shape \[1, 2, 4\], found \[1\]"):
        gru(np.zeros((5, 2, 3), np.float32), liar)
    with pytest.raises(ValueError, match=r"found shape \[1\]"):
        gru(liar)
    gru.parameters["weight_hh_l0"] = liar
    with pytest.raises(ValueError, match=r"weight_hh_l0: expected shape \[12, 4\], found \[1\]"):
        gru(np.zeros((5, 2, 3), np.float32))


@pytest.mark.parametrize("name", CALLS)
def test_masks_are_refused(name):
    masked = np.ma.array(X, mask=X > 0)
    with pytest.raises(TypeError, match="input: expected an array without a mask, found a masked array"):
        CALLS[name](masked)
    with pytest.raises(TypeError, match="out: expected an array without a mask"):
        CALLS[name](X, out=masked[..., None] if name == "instance_norm" else masked)
    with pytest.raises(TypeError, match="weight: expected an array without a mask"):
        CALLS[name](X, weight=masked[0])
    with pytest.raises(TypeError, match="running_mean: expected an array without a mask"):
        layernorm.batch_norm(X, masked[0], np.ones(4, "f4"))
    with pytest.raises(TypeError, match="initial state: expected an array without a mask"):
        layernorm.GRU(3, 4)(np.zeros((5, 3, 3), "f4"), masked)


def test_swapped_bytes_of_bfloat16():
    bfloat16 = np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    x = X.astype(bfloat16)
    swapped = x.astype(bfloat16.newbyteorder())
    assert swapped.tobytes() != x.tobytes()
    assert np.array_equal(layernorm.layer_norm(swapped), layernorm.layer_norm(x))
    with pytest.raises(TypeError, match="out: expected bfloat16, found"):
        layernorm.layer_norm(x, out=swapped)


@pytest.mark.parametrize("name", CALLS)
def test_results_that_cannot_be_written(name):
    shape = (3, 4, 1) if name == "instance_norm" else (3, 4)
    fixed = np.zeros(shape, "f4")
    fixed.flags.writeable = False
    for out, error, words in (
        (fixed, ValueError, "out: expected a writable array, found a read-only one"),
        (np.zeros(shape, ">f4"), TypeError, "out: expected float32, found >f4"),
        (np.zeros(shape, "i4"), TypeError, "out: expected float32, found int32"),
        (np.zeros(shape, "O"), TypeError, "out: expected float32, found object"),
        ([[0.0] * 4] * 3, TypeError, "out: expected a writable array, found list"),
        (as_strided(np.zeros(8, "f4"), shape, (4,) * len(shape)), ValueError, "overlap"),
    ):
        with pytest.raises(error, match=words):
            CALLS[name](X, out=out)


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm", "group_norm", "batch_norm"])
def test_results_that_overlap_the_input(name):
    memory = np.zeros(32, np.float32)
    wanted = CALLS[name](X)
    for x, out in ((memory[:12], memory[4:16]), (memory[:24:2], memory[1:13]), (memory[11::-1], memory[:12])):
        x, out = x.reshape(3, 4), out.reshape(3, 4)
        x[...] = X
        assert np.array_equal(CALLS[name](x, out=out), wanted) and np.array_equal(out, wanted)
    memory[:12] = X.ravel()
    with pytest.raises(ValueError, match="overlap"):
        CALLS[name](memory[:12].reshape(3, 4), out=as_strided(memory[4:], (3, 4), (4, 4)))


@pytest.mark.parametrize("dtype", ["c8", "O", "U4", "M8[s]"])
def test_states_and_parameters_are_real_numbers(dtype):
    lstm, x = layernorm.LSTM(3, 4), np.zeros((5, 2, 3), np.float32)
    with pytest.raises(TypeError, match="initial state: expected real numbers, found"):
        lstm(x, (np.zeros((1, 2, 4), dtype), np.zeros((1, 2, 4))))
    lstm.parameters["weight_ih_l0"] = np.zeros((16, 3), dtype)
    with pytest.raises(TypeError, match="weight_ih_l0: expected real numbers, found"):
        lstm(x)


def test_a_number_is_no_array_of_one():
    network = layernorm.RNN(2, 1)
    network.parameters["norm_weight_l0"] = 1.0
    with pytest.raises(ValueError, match=r"norm_weight_l0: expected shape \[1\], found \[\]"):
        network(np.ones((1, 1, 2), np.float32))


def test_sizes_beyond_any_machine():
    for sizes, what in (((2**64, 4), "input_size"), ((4, 10**30), "hidden_size"), ((4, -1), "hidden_size")):
        with pytest.raises(ValueError, match=f"{what}: expected 1 to 16777216, found {sizes[what == 'hidden_size']}"):
            layernorm.LSTM(*sizes)
    with pytest.raises(ValueError, match="lengths: expected 2 integers from 1 to 5"):
        layernorm.GRU(3, 4)(np.zeros((5, 2, 3), np.float32), lengths=[1, 2**80])
    with pytest.raises(MemoryError):
        layernorm.RNN(2**24, 2**24)
    rows = np.broadcast_to(np.float32(1), (2**40, 2**10))
    for name in CALLS:
        with pytest.raises((MemoryError, ValueError)):
            CALLS[name](rows)


def test_an_array_is_not_resized_during_a_call():
    x = np.zeros((4096, 4096), np.float32)
    thread = threading.Thread(target=layernorm.layer_norm, args=(x,))
    thread.start()
    with pytest.raises(ValueError, match="resize"):
        x.resize((1, 1))
    thread.join()
