"""Memory of large results: reused when nothing references it, and never earlier."""

import multiprocessing
import os
import pickle
import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from layernorm.torch import _memory, cached_bytes, clear_cache, functional, set_cache_limit

# The smallest large result.
SHAPE = (64, 131072)
BYTES = _memory.LARGE_BYTES
assert SHAPE[0] * SHAPE[1] * 4 == BYTES


@pytest.fixture(autouse=True)
def _empty_cache():
    clear_cache()
    yield
    set_cache_limit(_memory.DEFAULT_LIMIT)
    clear_cache()


def norm(x):
    return functional.layer_norm(x, x.shape[-1:])


@pytest.fixture(scope="module")
def x():
    return torch.randn(SHAPE, generator=torch.Generator().manual_seed(0))


def test_used_again_when_free(x):
    y = norm(x)
    place, want = y.data_ptr(), y.clone()
    del y
    again = norm(x)
    assert again.data_ptr() == place and cached_bytes() == BYTES
    assert torch.equal(again, want)
    other = norm(2 * x)
    assert other.data_ptr() != place and cached_bytes() == 2 * BYTES
    assert torch.equal(again, want)


@pytest.mark.parametrize(
    "hold",
    [
        lambda y: y.view(-1)[5:9],
        lambda y: y.detach(),
        lambda y: y.numpy(),
        lambda y: memoryview(y.numpy()),
        lambda y: torch.utils.dlpack.to_dlpack(y),
        lambda y: np.from_dlpack(y),
        lambda y: y.untyped_storage(),
        lambda y: {"state": [y.t()]},
        lambda y: y.requires_grad_().square().grad_fn,
    ],
    ids=["view", "detached", "array", "memoryview", "capsule", "from_dlpack", "storage", "container", "saved"],
)
def test_not_while_anything_holds_it(x, hold):
    y = norm(x)
    place = y.data_ptr()
    held = hold(y)
    del y
    assert norm(x).data_ptr() != place
    del held
    kept = [norm(x), norm(x)]
    assert place in [y.data_ptr() for y in kept]


def test_saved_for_backward_is_held(x):
    leaf = x.clone().requires_grad_()
    loss = norm(leaf).square().sum()
    want = 2 * norm(x).double().square().sum()
    norm(3 * x), norm(5 * x)
    loss.backward()
    # Σ y·(2y) is twice the sum of squares; dx of it is nearly 0, so the loss itself shows that y was kept.
    torch.testing.assert_close(2 * loss.detach().double(), want)
    assert torch.isfinite(leaf.grad).all()


def test_gradients_are_the_users(x):
    leaf = x.clone().requires_grad_()
    dy = torch.randn_like(x)
    norm(leaf).backward(dy)
    want = leaf.grad.clone()
    for _ in range(3):
        other = x.clone().requires_grad_()
        norm(other).backward(torch.ones_like(x))
    assert torch.equal(leaf.grad, want)


def test_bounded(x):
    set_cache_limit(2 * BYTES)
    live = [norm(x) for _ in range(4)]
    assert cached_bytes() == 2 * BYTES
    assert len({y.data_ptr() for y in live}) == 4
    del live
    # Another size: one of the free blocks is dropped.
    wide = torch.zeros(SHAPE[0], SHAPE[1] + 64)
    y = norm(wide)
    assert cached_bytes() <= 2 * BYTES and y.shape == wide.shape
    assert y.untyped_storage().nbytes() == y.nbytes
    set_cache_limit(0)
    assert cached_bytes() == 0
    norm(x)
    assert cached_bytes() == 0
    with pytest.raises(ValueError, match="expected 0 or more bytes, found -1"):
        set_cache_limit(-1)


def test_small_results_are_not_kept(x):
    norm(x[:32].contiguous())
    assert cached_bytes() == 0


def _resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="no /proc here")
def test_memory_goes_back_to_the_system(x):
    norm(x)
    before = _resident()
    clear_cache()
    assert before - _resident() > BYTES // 2


def test_results_are_ordinary_tensors(x):
    norm(x)
    y = norm(x)
    want = y.clone()
    assert torch.equal(pickle.loads(pickle.dumps(y)), want)
    assert y._base is None and y.is_contiguous() and y.untyped_storage().resizable()
    y.resize_(SHAPE[0] + 1, SHAPE[1])
    assert torch.equal(y[:-1], want)
    del y
    # The block has another size now, and is not reused.
    assert norm(x).untyped_storage().nbytes() == BYTES
    y = norm(x)
    y.share_memory_()
    shared = y.data_ptr()
    del y
    again = [norm(x) for _ in range(3)]
    assert shared not in [each.data_ptr() for each in again]
    assert all(torch.equal(each, want) and not each.is_shared() for each in again)


def test_group_norm_and_rms_norm_too(x):
    for call in (lambda: functional.group_norm(x, 8), lambda: functional.rms_norm(x, x.shape[-1:])):
        clear_cache()
        y = call()
        place = y.data_ptr()
        del y
        assert call().data_ptr() == place


def test_threads_get_memory_of_their_own():
    inputs = [torch.randn(SHAPE) for _ in range(2)]
    want = [norm(x).clone() for x in inputs]
    wrong = []

    def work(i):
        for _ in range(6):
            if not torch.equal(norm(inputs[i]), want[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not wrong and cached_bytes() <= _memory.DEFAULT_LIMIT


def _child(queue, x, want):
    torch.set_num_threads(1)
    queue.put(torch.equal(norm(x), want))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
def test_a_forked_process_has_its_own(x):
    y = norm(x)
    want = y.clone()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_child, args=(queue, 2 * x, norm(2 * x)))
    child.start()
    right = queue.get(timeout=60)
    child.join()
    assert right and torch.equal(y, want)


def test_compiled(x):
    compiled = torch.compile(lambda x: norm(norm(x) + 1), fullgraph=True, backend="aot_eager")
    want = norm(norm(x) + 1)
    first = compiled(x)
    second = compiled(x + 0)
    assert first.data_ptr() != second.data_ptr()
    assert torch.equal(first, want) and torch.equal(second, want)


def test_a_finalizer_in_the_middle_gets_other_memory(monkeypatch):
    """Python may run finalizers at any time, even while a block is being examined."""
    x = torch.empty(_memory.LARGE_BYTES // 4)
    _memory.clear_cache()
    _memory.empty_like(x)  # dropped at once: a free block
    inner, asked, times = [], _memory._is_free, []

    def interrupted(block):
        answer = asked(block)
        times.append(answer)
        # The second call is the one that reuses the block.
        if len(times) == 2:
            inner.append(_memory.empty_like(x))
        return answer

    monkeypatch.setattr(_memory, "_is_free", interrupted)
    outer = _memory.empty_like(x)
    assert times[:2] == [True, True] and inner[0].data_ptr() != outer.data_ptr()
