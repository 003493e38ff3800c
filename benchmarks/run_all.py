"""Runs every benchmark in both precisions and prints one table.

    python -m benchmarks.run_all --output_dir=runs/benchmarks

Each script also runs alone. Its rows are kept in OUTPUT_DIR as JSON, its output in a
log, and the table of all in `table.md`. The exit status is 1 when a script failed.
"""

import datetime
import pathlib
import subprocess
import sys
import time

from absl import flags

from benchmarks import machine, pairs

FLAGS = flags.FLAGS

SCRIPTS = ("training_step", "epoch", "decoding", "test_set")


def main() -> None:
    directory = pathlib.Path(FLAGS.output_dir)
    directory.mkdir(parents=True, exist_ok=True)
    other_work = machine.other_work()
    start = time.monotonic()
    rows: list[pairs.Row] = []
    without = {"Failed": [], "Skipped": []}
    for script in SCRIPTS:
        for dtype_policy in pairs.DTYPE_POLICIES:
            name = f"{script}-{dtype_policy}"
            status, found = run_script(script, dtype_policy, directory / name)
            rows += found
            if status or not found:
                without["Failed" if status else "Skipped"].append(name)
    minutes = (time.monotonic() - start) / 60
    lines = [
        f"{machine.describe()}; {datetime.date.today()}; {minutes:.0f} minutes.",
        other_work,
        *(f"{k}: {', '.join(v)}; see their logs." for k, v in without.items() if v),
        "",
        pairs.table(rows),
    ]
    text = "\n".join(lines) + "\n"
    (directory / "table.md").write_text(text, encoding="utf-8")
    print(f"\n{text}")
    if without["Failed"]:
        sys.exit(1)


def run_script(
    script: str, dtype_policy: str, path: pathlib.Path
) -> tuple[int, list[pairs.Row]]:
    """Exit status and rows of one script, which are none where it was skipped."""
    result = path.with_suffix(".json")
    result.unlink(missing_ok=True)
    command = [
        sys.executable,
        "-m",
        f"benchmarks.{script}",
        f"--dtype_policy={dtype_policy}",
        f"--json={result}",
    ]
    print(f"benchmarks.{script} --dtype_policy={dtype_policy}", flush=True)
    with path.with_suffix(".log").open("w", encoding="utf-8") as log:
        status = subprocess.run(
            command, stdout=log, stderr=subprocess.STDOUT
        ).returncode
    return status, pairs.read_rows(result) if result.exists() else []


if __name__ == "__main__":
    flags.DEFINE_string(
        "output_dir", "runs/benchmarks", "Directory of tables, rows and logs."
    )
    pairs.run(main)
