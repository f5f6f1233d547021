"""Measures several contestants in turn, many rounds, so that what disturbs the machine disturbs all of them alike."""

import dataclasses
import gc
import itertools
import statistics
import time

try:
    import resource
except ImportError:  # not a Unix
    resource = None

# A timed stretch lasts at least this long: shorter calls are timed several at once.
STRETCH_NS = 200_000

# The helper threads of PyTorch's OpenMP keep spinning after a call (4 ms were measured with libgomp; other runtimes
# take up to 200 ms). A call of ours right after it would have to share a core with them.
QUIET_S, PATIENCE_S = 0.002, 0.3


@dataclasses.dataclass(frozen=True)
class Timing:
    """Microseconds a call, and page faults a call (None where the system does not count them)."""

    best: float
    median: float
    rounds: int
    faults: float | None


def race(contestants, seconds, least_rounds, threads):
    """`contestants` maps names to functions without arguments; gives a Timing of each name."""
    counts = {name: calls_in_a_stretch(call) for name, call in contestants.items()}
    times = {name: [] for name in contestants}
    faults = {name: [] for name in contestants}
    names = list(contestants)
    collecting = gc.isenabled()
    gc.disable()
    try:
        start = time.perf_counter()
        for round_number in itertools.count():
            if round_number >= least_rounds and time.perf_counter() - start >= seconds:
                break
            # Every other round goes backwards: none always follows the same one.
            for name in names if round_number % 2 == 0 else reversed(names):
                if threads > 1:
                    wait_until_quiet()
                contestants[name]()
                before = page_faults()
                nanoseconds = stretch(contestants[name], counts[name])
                times[name].append(nanoseconds / counts[name] / 1e3)
                faults[name].append((page_faults() - before) / counts[name])
    finally:
        if collecting:
            gc.enable()
    return {name: summary(times[name], faults[name]) for name in names}


def summary(times, faults):
    faults = statistics.median(faults) if resource else None
    return Timing(min(times), statistics.median(times), len(times), faults)


def stretch(call, count):
    """Nanoseconds for so many calls. A result is dropped before the next one is made."""
    repeat = itertools.repeat(None, count)
    start = time.perf_counter_ns()
    for _ in repeat:
        call()
    return time.perf_counter_ns() - start


def calls_in_a_stretch(call):
    call()
    count = 1
    # A quarter more than needed: the race may go faster than this.
    while (taken := stretch(call, count)) < STRETCH_NS * 5 // 4:
        count = max(count + 1, min(2 * count, count * STRETCH_NS * 3 // 2 // max(taken, 1)))
    return count


def wait_until_quiet():
    """Waits until no thread of this process runs."""
    end = time.perf_counter() + PATIENCE_S
    while time.perf_counter() < end:
        cpu, wall = time.process_time(), time.perf_counter()
        time.sleep(QUIET_S)
        if time.process_time() - cpu < 0.2 * (time.perf_counter() - wall):
            return


def page_faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt if resource else 0
