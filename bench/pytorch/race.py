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

# Before a turn whose calls are longer than this there is no call that is not timed.
LONG_US = 50_000

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


# Rounds are judged in blocks of this long, and the machine before them for this long: the system counts the processor's
# time in steps of 10 ms.
BLOCK_S, CALM_S = 0.25, 0.1

# So many calm rounds are enough to leave the others out.
FEWEST_CALM = 3


def race(contestants, seconds, least_rounds, threads):
    """`contestants` maps names to functions without arguments; gives a Timing of each name."""
    rounds = Rounds(contestants, threads)
    with rounds:
        start = time.perf_counter()
        while len(rounds.taken) < least_rounds or time.perf_counter() - start < seconds:
            rounds.take()
    return rounds.timings(rounds.taken)


def calm_race(contestants, seconds, least_rounds, threads, patience, others, limit, stretch_ns=STRETCH_NS):
    """The same on a machine that others use: only rounds in which they took at most `limit` of the processor count.

    `others()` starts a watch whose `share()` says what they took. The race goes on for up to `patience` seconds beyond
    `seconds` until there are enough calm rounds; if there never are, all rounds count. Gives the Timings and the
    share of others in the rounds that count.
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
            if len(calm) >= least_rounds and calm_s >= seconds or now - start >= seconds + patience:
                break
    used = calm if len(calm) >= FEWEST_CALM else range(len(rounds.taken))
    timings = rounds.timings([rounds.taken[i] for i in used])
    return timings, statistics.mean(shares[i] for i in used)


class Rounds:
    """Rounds in which every contestant has its turn; the garbage collector rests meanwhile."""

    def __init__(self, contestants, threads, stretch_ns=STRETCH_NS):
        self.contestants, self.threads = contestants, threads
        self.counts = {name: calls_in_a_stretch(call, stretch_ns) for name, call in contestants.items()}
        self.taken = []  # {name: (microseconds, page faults) a call} of each round

    def __enter__(self):
        self._collecting = gc.isenabled()
        gc.disable()

    def __exit__(self, *_):
        if self._collecting:
            gc.enable()

    def take(self):
        names = list(self.contestants)
        # Every other round goes backwards: none always follows the same one.
        if len(self.taken) % 2:
            names.reverse()
        self.taken.append({name: self.turn(name) for name in names})

    def turn(self, name):
        call, count = self.contestants[name], self.counts[name]
        if self.threads > 1:
            wait_until_quiet()
        # A long call fills the caches by itself.
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
    """Nanoseconds for so many calls. A result is dropped before the next one is made."""
    repeat = itertools.repeat(None, count)
    start = time.perf_counter_ns()
    for _ in repeat:
        call()
    return time.perf_counter_ns() - start


def calls_in_a_stretch(call, stretch_ns):
    call()
    count = 1
    # A quarter more than needed: the race may go faster than this.
    while (taken := stretch(call, count)) < stretch_ns * 5 // 4:
        count = max(count + 1, min(2 * count, count * stretch_ns * 3 // 2 // max(taken, 1)))
    return count


def wait_until_quiet():
    """Waits until no thread of this process runs."""
    end = time.perf_counter() + PATIENCE_S
    while time.perf_counter() < end:
        cpu, wall = time.process_time(), time.perf_counter()
        time.sleep(QUIET_S)
        if time.process_time() - cpu < 0.2 * (time.perf_counter() - wall):
            return


def wait_until_calm(others, limit, end):
    """Waits until other programs leave the processor alone, or until the time `end`."""
    while time.perf_counter() < end:
        watch = others()
        time.sleep(CALM_S)
        if (watch.share() or 0.0) <= limit:
            return


def page_faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt if resource else 0
