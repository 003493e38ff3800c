"""Peak memory as Linux counts it."""

import pathlib

import numpy as np
import pytest

from benchmarks.memory import peak_growth

pytestmark = pytest.mark.skipif(
    not pathlib.Path("/proc/self/clear_refs").exists(), reason="needs Linux's /proc"
)

MIB = 2**20


def test_memory_that_was_given_back_counts():
    growth = peak_growth(lambda: np.ones(50 * MIB, dtype="uint8").sum())
    assert 48 * MIB < growth < 60 * MIB


def test_earlier_peaks_do_not_count():
    np.ones(100 * MIB, dtype="uint8").sum()
    assert peak_growth(lambda: None) < 10 * MIB
