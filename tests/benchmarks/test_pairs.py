"""The harness: turns, medians, child processes, rows."""

import multiprocessing
import os

import pytest

from benchmarks import pairs


def test_the_sides_take_turns_and_the_first_pair_does_not_count():
    calls = []
    # (ours, peer) of the warm-up and of three pairs.
    seconds = iter([100.0, 1.0, 1.0, 2.0, 1.0, 4.0, 2.0, 6.0])

    def side(name):
        def work():
            calls.append(name)
            return next(seconds)

        return work

    comparison = pairs.compare(side("ours"), side("peer"), pairs=3)
    assert calls == ["ours", "peer"] * 4
    assert list(comparison.ours) == [1.0, 1.0, 2.0]
    assert list(comparison.peer) == [2.0, 4.0, 6.0]
    assert comparison.ratios == [2.0, 4.0, 3.0]


def test_a_row_has_the_median_of_the_ratios_not_the_ratio_of_the_medians():
    # Ratios 2, 10 and 0.5, the medians of the sides 2 and 4.
    comparison = pairs.Comparison(ours=[1.0, 2.0, 8.0], peer=[2.0, 20.0, 4.0])
    row = pairs.ratio_row(
        "work", "float32", comparison, lambda seconds: f"{seconds:.0f} s", "bfloat16"
    )
    assert row == pairs.Row(
        "work", "float32", "2 s", "4 s, bfloat16", "2.00x", "0.50", "10.00"
    )


def test_the_table_is_markdown_with_a_line_a_row():
    rows = [
        pairs.Row("a", "float32", "1 s", "2 s, float32", "2.00x", "1.90", "2.10"),
        pairs.Row("b", "float32", "1 s", "", "70%"),
    ]
    lines = pairs.table(rows).splitlines()
    assert lines[2:] == [
        "| a | float32 | 1 s | 2 s, float32 | 2.00x | 1.90 - 2.10 |",
        "| b | float32 | 1 s |  | 70% |  |",
    ]
    assert {line.count("|") for line in lines} == {7}


def test_rows_are_read_as_they_were_written(tmp_path):
    rows = [pairs.Row("a", "float32", "1 s", "2 s", "2.00x", "1.90", "2.10")]
    pairs.write_rows(rows, tmp_path / "new" / "rows.json")
    assert pairs.read_rows(tmp_path / "new" / "rows.json") == rows


def test_an_object_in_a_process_of_its_own_keeps_its_state():
    with pairs.Process("collections:Counter", a=2) as counter:
        counter.call("update", "abc")
        assert counter.call("most_common") == [("a", 3), ("b", 1), ("c", 1)]
    assert not multiprocessing.active_children()


def test_the_process_has_the_threads_and_the_variables_asked_for():
    options = {"threads": 3, "environment": {"KERAS_BACKEND": "jax"}}
    shell = "echo $OMP_NUM_THREADS $KERAS_BACKEND"
    with pairs.Process("os:popen", shell, **options) as echo:
        assert echo.call("read") == "3 jax\n"


def test_an_error_of_the_process_comes_with_its_traceback():
    with (
        pytest.raises(RuntimeError, match=r"(?s)Counter failed.*Traceback.*'missing'"),
        pairs.Process("collections:Counter") as counter,
    ):
        counter.call("missing")


def test_a_target_that_cannot_be_made_is_named():
    with pytest.raises(RuntimeError, match=r"(?s)no_such_module:X failed.*No module"):
        pairs.Process("no_such_module:X")


def test_a_process_that_ends_is_told_with_its_exit_code():
    with pairs.Process("collections:Counter") as counter:
        (child,) = multiprocessing.active_children()
        os.kill(child.pid, 9)
        with pytest.raises(RuntimeError, match="Counter ended with exit code -9"):
            counter.call("most_common")
