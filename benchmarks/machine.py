"""What the figures were measured on."""

import contextlib
import os
import pathlib
import platform
import time
from importlib import metadata

PACKAGES = ("tensorflow", "keras", "torch")


def describe() -> str:
    """Processor and versions of what is installed, in a line."""
    versions = []
    for name in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions.append(f"{name} {metadata.version(name)}")
    return f"{_processor()}, {os.cpu_count()} cores; {', '.join(versions)}"


def other_work(seconds: float = 1.0) -> str:
    """A sentence on how busy the machine is; "" if it hardly is, or no one can tell.

    To be asked while this program does nothing: what others do makes figures worse and
    turns ratios either way.
    """
    with contextlib.suppress(OSError):
        before = _ticks()
        time.sleep(seconds)
        idle, total = (b - a for a, b in zip(before, _ticks(), strict=True))
        busy = 1 - idle / total
        return f"Other programs kept the machine {busy:.0%} busy." * (busy > 0.05)
    return ""


def _ticks() -> tuple[int, int]:
    """Idle and all ticks of the processors so far."""
    first = pathlib.Path("/proc/stat").read_text(encoding="ascii").splitlines()[0]
    user, nice, system, idle, iowait, *rest = map(int, first.split()[1:9])
    return idle + iowait, user + nice + system + idle + iowait + sum(rest)


def _processor() -> str:
    with contextlib.suppress(OSError):
        text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
        for line in text.splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
