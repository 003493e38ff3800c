"""The sweeps over sizes: what is run, and the exponents made of it."""

import dataclasses
import json
import pathlib

import pytest
from absl.testing import flagsaver

from benchmarks import scaling, scaling_figure, scaling_side
from benchmarks.scaling_sweeps import (
    SWEEPS,
    Measurement,
    Point,
    exponent,
    growing_share,
    growth,
    run_sweep,
)

MIB = 2**20
SMALL = ("--embedding_dim=4", "--encoder_units=4", "--decoder_units=4", "--dropout=0")


def of_power(power, constant=0.0):
    """A measurement whose seconds and MiB are source^power, plus a constant."""

    def measure(point):
        value = point.source**power + constant
        return Measurement(float(value), int(value * MIB))

    return measure


def test_the_exponent_is_that_of_the_upper_half():
    # Below 100, the geometric middle, nothing grows.
    sizes, values = [10, 30, 100, 300, 1000], [9.0, 9.0, 1e4, 9e4, 1e6]
    assert exponent(sizes, values) == pytest.approx(2.0)
    assert exponent([10, 1000], [1.0, 2.0]) is None
    assert exponent([], []) is None


def test_growth_of_one_is_linear():
    assert growth([10, 40], [3.0, 12.0]) == pytest.approx(1.0)
    assert growth([10, 40], [3.0, 48.0]) == pytest.approx(4.0)
    assert growth([10], [3.0]) is None


def test_the_share_is_what_the_size_adds_to_the_constant():
    sizes = [1, 10, 20, 30]
    assert growing_share(sizes, [70.0 + x for x in sizes]) == pytest.approx(0.3)
    assert growing_share(sizes, [x - 0.5 for x in sizes]) == pytest.approx(1.0)
    assert growing_share([1, 30], [1.0, 30.0]) is None


@pytest.mark.parametrize("name", SWEEPS)
def test_a_sweep_varies_its_own_sizes_only(name):
    sweep = SWEEPS[name]
    values = dataclasses.asdict(sweep.point(77))
    varied = {key for key, value in values.items() if value == 77}
    assert varied == set(sweep.fields)
    assert list(sweep.sizes) == sorted(sweep.sizes)


def test_sizes_that_would_not_fit_are_skipped_with_the_reason():
    lines = []
    result = run_sweep(
        SWEEPS["source"],
        of_power(1),
        300 * MIB,
        lambda result: lines.append(scaling.row(result)),
    )
    assert result.sizes == [16, 250]
    assert list(result.skipped) == [500, 1000]
    assert lines[:2] == [
        "| 16 | 16.000 |  | 16 |  |",
        "| 250 | 250.000 | 1.00 | 250 | 1.00 |",
    ]
    assert lines[2].startswith("| 500 | skipped: would take up to 0.5 GiB of memory")
    assert "Too few sizes" in scaling.describe(result)


def test_what_grows_faster_than_the_mathematics_is_told():
    for power, expected in ((1, False), (2, True)):
        result = run_sweep(SWEEPS["source"], of_power(power), float("inf"))
        assert ("more than it should" in scaling.describe(result)) is expected
    both = run_sweep(SWEEPS["both"], of_power(2), float("inf"))
    assert scaling.describe(both).endswith(
        "by the mathematics: time 2.00, memory 2.00."
    )


def test_the_figures_are_written_and_drawn(tmp_path):
    results = {
        ("source", work): run_sweep(SWEEPS["source"], of_power(1, 5), float("inf"))
        for work in scaling.WORKS
    }
    scaling_figure.save(results, tmp_path / "scaling.png", scaling.WORKS)
    assert (tmp_path / "scaling.png").read_bytes().startswith(b"\x89PNG")
    scaling.write(results, tmp_path / "scaling.json", threads=2)
    written = json.loads((tmp_path / "scaling.json").read_text())
    assert written["threads"] == 2
    training, search = written["sweeps"]
    assert (training["name"], training["work"]) == ("source", "training")
    assert search["sizes"] == [16, 250, 500, 1000]
    assert search["measurements"][0] == {"seconds": 21.0, "memory_bytes": 21 * MIB}
    assert search["time_exponent"] == pytest.approx(0.99, abs=0.01)


@pytest.mark.skipif(
    not pathlib.Path("/proc/self/clear_refs").exists(), reason="needs Linux's /proc"
)
def test_a_tiny_sweep_of_the_search(monkeypatch):
    monkeypatch.setattr(scaling_side, "ARGUMENTS", SMALL)
    monkeypatch.setattr(scaling_side, "BEAM_WIDTH", 2)
    base = Point(source=3, vocabulary=12, batch=2)
    sweep = dataclasses.replace(SWEEPS["target"], sizes=(2, 40), base=base)
    # The trainer's flags are gone after it.
    with flagsaver.flagsaver():
        result = run_sweep(
            sweep, lambda point: scaling_side.measure("search", point, 0.0), 2**40
        )
    assert result.sizes == [2, 40]
    assert 0 < result.seconds[0] < result.seconds[1]


def test_the_batch_has_the_sizes_of_the_point():
    batch = scaling_side._batch(Point(source=5, target=3, vocabulary=12, batch=2))
    shapes = {name: ids.shape for name, ids in batch.items()}
    assert shapes == {"source_ids": (2, 5), "target_ids": (2, 3), "labels": (2, 3)}
