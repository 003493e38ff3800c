"""What is said of the machine."""

import pathlib
import re
import time

import pytest

from benchmarks import machine


def test_the_description_has_processor_and_versions():
    assert re.search(r"\d+ cores; tensorflow [\d.]+, keras [\d.]+", machine.describe())


def test_other_work_is_told(monkeypatch):
    # Idle and all ticks before and after: 75 of 100 were idle, then 99 of 100.
    ticks = iter([(1000, 2000), (1075, 2100), (1000, 2000), (1099, 2100)])
    monkeypatch.setattr(machine, "_ticks", lambda: next(ticks))
    assert machine.other_work(0) == "Other programs kept the machine 25% busy."
    assert machine.other_work(0) == ""


@pytest.mark.skipif(
    not pathlib.Path("/proc/stat").exists(), reason="needs Linux's /proc"
)
def test_ticks_go_on():
    before = machine._ticks()
    time.sleep(0.05)
    idle, total = (b - a for a, b in zip(before, machine._ticks(), strict=True))
    assert 0 <= idle <= total
    assert total > 0
