"""The machine of a measurement, and its load from other programs."""

import os
import pathlib
import platform
import subprocess


def describe():
    return f"{cpu_model()}, {os.cpu_count()} cores, {platform.machine()} {platform.system()}"


def cpu_model():
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name" and value.strip():
                return value.strip()
    if platform.system() == "Darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    return platform.processor() or "unknown processor"


class Others:
    """Processor time used by other programs, and by other guests of the same hardware, from now on."""

    def __init__(self):
        self._start = self._read()

    def share(self):
        """Returns their share of all cores, from 0 to 1; None if the system does not report it."""
        end = self._read()
        if end is None or self._start is None:
            return None
        busy, total, own = (after - before for after, before in zip(end, self._start))
        return min(max((busy - own) / total, 0.0), 1.0) if total > 0 else 0.0

    @staticmethod
    def _read():
        """Returns busy, total and this process's seconds, summed over the cores."""
        stat = pathlib.Path("/proc/stat")
        if not stat.exists():
            return None
        user, nice, system, idle, wait, irq, softirq, steal, *_ = map(int, stat.read_text().split("\n")[0].split()[1:])
        tick = os.sysconf("SC_CLK_TCK")
        busy = user + nice + system + irq + softirq + steal
        own = os.times()
        return busy / tick, (busy + idle + wait) / tick, own.user + own.system
