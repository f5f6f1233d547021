"""The machine that a page belongs to, and how busy others kept it."""

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
    """What other programs, and other guests of the same hardware, take of the processor from now on."""

    def __init__(self):
        self._start = self._read()

    def share(self):
        """Of all cores, between 0 and 1; None where the system does not tell."""
        end = self._read()
        if end is None or self._start is None:
            return None
        busy, total, own = (after - before for after, before in zip(end, self._start))
        return min(max((busy - own) / total, 0.0), 1.0) if total > 0 else 0.0

    @staticmethod
    def _read():
        """Busy, total and this process's seconds, summed over the cores."""
        stat = pathlib.Path("/proc/stat")
        if not stat.exists():
            return None
        user, nice, system, idle, wait, irq, softirq, steal, *_ = map(int, stat.read_text().split("\n")[0].split()[1:])
        tick = os.sysconf("SC_CLK_TCK")
        busy = user + nice + system + irq + softirq + steal
        own = os.times()
        return busy / tick, (busy + idle + wait) / tick, own.user + own.system
