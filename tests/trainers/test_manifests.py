"""What the manifests start is a command of the scripts."""

import pathlib
import re

MANIFEST = pathlib.Path(__file__).parents[2] / "trainers" / "manifests" / "tfjob.yaml"


def test_the_flags_of_the_job_are_flags_of_the_script(run_script, tmp_path):
    text = MANIFEST.read_text(encoding="utf-8")
    [script] = re.findall(r"^ +- trainers\.(\w+)$", text, re.MULTILINE)
    flags = re.findall(r"^ +- (--\S+)$", text, re.MULTILINE)
    assert len(flags) > 5
    # Its files are those of a cluster: past its flags, the script misses the first.
    done = run_script(script, *flags, f"--model_dir={tmp_path}/run")
    assert done.returncode == 1
    assert "error: File not found: /shared/data/train.de" in done.stderr
