"""Measures several contestants in turns, over many rounds, so that disturbances affect all of them alike."""

import dataclasses
import gc
import itertools
import statistics
import time

try:
    import resource
except ImportError:  # not a Unix
    resource = None

# Minimum duration of a measurement: several shorter calls are timed together.
STRETCH_NS = 200_000

# Calls longer than this have no warm-up call before a turn.
LONG_US = 50_000

# The threads of PyTorch's OpenMP keep spinning after a call (4 ms were measured with libgomp; other runtimes
# take up to 200 ms). A call of ours right after it would compete with them for a core.
QUIET_S, PATIENCE_S = 0.002, 0.3


@dataclasses.dataclass(frozen=True)
class Timing:
    """Microseconds per call, and page faults per call (None if the system does not count them)."""

    best: float
    median: float
    rounds: int
    faults: float | None


# Rounds are judged in blocks of this duration, and the machine for this duration before them, because the system counts
# processor time in steps of 10 ms.
BLOCK_S, CALM_S = 0.25, 0.1

# With this many calm rounds, the others are ignored.
FEWEST_CALM = 3


def race(contestants, seconds, least_rounds, threads):
    """Returns a Timing for each name in `contestants`, which maps names to functions without arguments."""
    rounds = Rounds(contestants, threads)
    with rounds:
        start = time.perf_counter()
        while len(rounds.taken) < least_rounds or time.perf_counter() - start < seconds:
            rounds.take()
    return rounds.timings(rounds.taken)


def calm_race(contestants, seconds, least_rounds, threads, patience, others, limit, stretch_ns=STRETCH_NS):
    """The same on a shared machine: only rounds in which other programs used at most `limit` of the processor count.

    `others()` starts a measurement whose `share()` returns their share. The race continues for up to `patience` seconds beyond
    `seconds` until there are enough calm rounds; if there are never enough, all rounds count. Returns the Timings and the
    share of other programs in the rounds that count.
    """
    rounds = Rounds(contestants, threads, stretch_ns)
    calm, shares, calm_s, start = [], [], 0.0, time.perf_counter()
    with rounds:
        while True:
            wait_until_calm(others, limit, min(time.perf_counter() + patience / 8, start + seconds + patience))
            watch, begin, first = others(), time.perf_counter(), len(rounds.taken)
            while len(rounds.taken) == first or time.perf_counter() - begin < BLOCK_S:
                rounds.take()
            share, now = watch.share() or 0.0, time.perf_counter()
            shares += [share] * (len(rounds.taken) - first)
            if share <= limit:
                calm += range(first, len(rounds.taken))
                calm_s += now - begin
            waited = now - start >= seconds + patience and len(rounds.taken) >= least_rounds
            if waited or len(calm) >= least_rounds and calm_s >= seconds:
                break
    used = calm if len(calm) >= FEWEST_CALM else range(len(rounds.taken))
    timings = rounds.timings([rounds.taken[i] for i in used])
    return timings, statistics.mean(shares[i] for i in used)


class Rounds:
    """Rounds in which every contestant has a turn, with the garbage collector disabled."""

    def __init__(self, contestants, threads, stretch_ns=STRETCH_NS):
        self.contestants, self.threads = contestants, threads
        self.counts = {name: calls_in_a_stretch(call, stretch_ns) for name, call in contestants.items()}
        self.taken = []  # {name: (microseconds, page faults) per call} of each round

    def __enter__(self):
        self._collecting = gc.isenabled()
        gc.disable()

    def __exit__(self, *_):
        if self._collecting:
            gc.enable()

    def take(self):
        names = list(self.contestants)
        # Every other round is in reverse order, so that none always follows the same one.
        if len(self.taken) % 2:
            names.reverse()
        self.taken.append({name: self.turn(name) for name in names})

    def turn(self, name):
        call, count = self.contestants[name], self.counts[name]
        if self.threads > 1:
            wait_until_quiet()
        # A long call warms the caches itself.
        if not self.taken or self.taken[-1][name][0] < LONG_US:
            call()
        before = page_faults()
        nanoseconds = stretch(call, count)
        return nanoseconds / count / 1e3, (page_faults() - before) / count

    def timings(self, taken):
        return {name: summary(*zip(*(turns[name] for turns in taken))) for name in self.contestants}


def summary(times, faults):
    faults = statistics.median(faults) if resource else None
    return Timing(min(times), statistics.median(times), len(times), faults)


def stretch(call, count):
    """Returns the nanoseconds of `count` calls. A result is dropped before the next call."""
    repeat = itertools.repeat(None, count)
    start = time.perf_counter_ns()
    for _ in repeat:
        call()
    return time.perf_counter_ns() - start


def calls_in_a_stretch(call, stretch_ns):
    call()
    count = 1
    # A quarter more than needed, because calls may be faster in the race.
    while (taken := stretch(call, count)) < stretch_ns * 5 // 4:
        count = max(count + 1, min(2 * count, count * stretch_ns * 3 // 2 // max(taken, 1)))
    return count


def wait_until_quiet():
    """Waits until no other thread of this process is running."""
    end = time.perf_counter() + PATIENCE_S
    while time.perf_counter() < end:
        cpu, wall = time.process_time(), time.perf_counter()
        time.sleep(QUIET_S)
        if time.process_time() - cpu < 0.2 * (time.perf_counter() - wall):
            return


def wait_until_calm(others, limit, end):
    """Waits until other programs are idle, or until the time `end`."""
    while time.perf_counter() < end:
        watch = others()
        time.sleep(CALM_S)
        if (watch.share() or 0.0) <= limit:
            return


def page_faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt if resource else 0
