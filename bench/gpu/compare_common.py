"""Shared by the parts of compare.py: clock, failures, types."""

import statistics
import time

import torch

TYPES = {"f32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
BEGUN = time.perf_counter()
FAILED = []


def elapsed():
    return time.perf_counter() - BEGUN


def median_ms(call, seconds=0.1, least=3):
    """Returns the median time of a call, measured for about the given seconds and at least the given number of times."""
    call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    count = max(least, min(20, int(seconds / max(time.perf_counter() - start, 1e-6))))
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(count)]
    for first, last in events:
        first.record()
        call()
        last.record()
    torch.cuda.synchronize()
    return statistics.median(first.elapsed_time(last) for first, last in events)


def report(what, good, words=""):
    if not good:
        FAILED.append(what)
    print(f"{'ok  ' if good else 'FAIL'} {what} {words}".rstrip(), flush=True)
