"""The runner of all scripts."""

from benchmarks import run_all


def test_a_script_that_fails_leaves_its_log_and_no_old_rows(tmp_path):
    old = tmp_path / "none-float32.json"
    old.write_text("[]")
    status, rows = run_all.run_script("none", "float32", tmp_path / "none-float32")
    assert status != 0
    assert rows == []
    assert not old.exists()
    log = (tmp_path / "none-float32.log").read_text()
    assert "No module named benchmarks.none" in log
