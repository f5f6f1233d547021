"""Helpers of the GPU tests."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is missing: layernorm.torch is not tested")

needs_gpu = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no NVIDIA GPU that PyTorch can use: not tested here"
)

TYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]


def same_bits(found, expected):
    """Returns whether two tensors on any devices have the same bits; NaN equals NaN."""
    found, expected = found.detach().cpu(), expected.detach().cpu()
    assert found.dtype == expected.dtype and found.shape == expected.shape
    width = {2: torch.int16, 4: torch.int32, 8: torch.int64}[found.element_size()]
    a, b = found.contiguous().view(width), expected.contiguous().view(width)
    return bool(((a == b) | (found.isnan() & expected.isnan())).all())


def distance(found, expected):
    """Returns ‖a − b‖ / ‖b‖ in float64."""
    a, b = found.detach().cpu().double(), expected.detach().cpu().double()
    assert a.shape == b.shape
    return ((a - b).norm() / b.norm().clamp(min=1e-30)).item()


def no_waiting():
    """Makes PyTorch raise for operations that wait for the GPU."""

    class Strict:
        def __enter__(self):
            torch.cuda.synchronize()
            torch.cuda.set_sync_debug_mode("error")

        def __exit__(self, *_):
            torch.cuda.set_sync_debug_mode("default")

    return Strict()


def graphed(call):
    """Captures a call in a CUDA graph, after running it once to compile its kernels. Returns the results, and a function that
    replays the graph into the same memory.
    """
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = call()
    return found, graph.replay
