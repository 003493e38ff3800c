import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from keras_attn import Translator
from keras_attn.export import saved_model

DECODING = {"beam_width": 2, "max_length": 12, "length_penalty": 0.5}
FLAGS = [f"--{name}={value}" for name, value in DECODING.items()]


@pytest.fixture(scope="module")
def exported(run_process, model_dir, tmp_path_factory):
    """The directory of the versions, and the process that wrote version 1."""
    directory = tmp_path_factory.mktemp("served") / "not" / "there" / "yet"
    flags = [f"--model_dir={model_dir}", f"--export_dir={directory}", *FLAGS]
    return directory, run_process("export", *flags)


def test_a_process_prints_the_path_of_the_version_and_nothing_else(exported):
    directory, done = exported
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{directory}/1\n"
    assert [path.name for path in directory.iterdir()] == ["1"]


def test_the_version_translates_as_the_model_does(exported, model_dir):
    directory, _ = exported
    model = tf.saved_model.load(str(directory / "1"))
    texts = ["abc", "", "hgfedcba"]
    answer = model.signatures["serving_default"](text=tf.constant(texts))
    expected = Translator.load(model_dir).translate(texts, **DECODING)
    assert [text.decode() for text in answer["text"].numpy()] == [
        translation.text for translation in expected
    ]
    np.testing.assert_allclose(
        answer["score"], [translation.score for translation in expected], atol=1e-4
    )
    # The beam width, as the other signature shows it.
    n_best = model.signatures["nbest"](text=tf.constant(texts))
    assert n_best["text"].shape == (3, 2)


def test_a_version_that_exists_is_left_as_it_is(run_script, exported, model_dir):
    directory, _ = exported
    before = sorted(directory.rglob("*"))
    flags = [f"--model_dir={model_dir}", f"--export_dir={directory}", "--version=1"]
    done = run_script("export", *flags)
    assert done.returncode == 1
    assert (
        f"error: Version 1 exists already in {directory}. Choose another number, or "
        "none for the next one." in done.stderr
    )
    assert sorted(directory.rglob("*")) == before


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_file_in_the_place_of_the_directory_is_told(place, run_script, tmp_path):
    (tmp_path / "file").write_text("mine")
    # There is no model: it is not looked for before the flags are in order.
    done = run_script("export", "--model_dir=none", f"--export_dir={tmp_path}/{place}")
    assert done.returncode == 1
    assert (
        "error: --export_dir: Expected a directory that can be written to. Received: "
        f"{tmp_path}/{place}; {tmp_path}/file is not a directory" in done.stderr
    )
    assert (tmp_path / "file").read_text() == "mine"


def test_a_directory_without_permission_is_told(run_script, monkeypatch, tmp_path):
    # Who runs the tests may have every permission.
    monkeypatch.setattr("os.access", lambda path, mode: str(path) != str(tmp_path))
    done = run_script("export", "--model_dir=none", f"--export_dir={tmp_path}/new")
    assert done.returncode == 1
    assert f"there is no permission to write to {tmp_path}" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_version_of_zero_is_told(run_script, tmp_path):
    done = run_script("export", f"--model_dir={tmp_path}", "--version=0")
    assert done.returncode == 1
    assert "flag --version=0: 0 is not a positive integer" in done.stderr


def test_an_unknown_dtype_is_told(run_script, tmp_path):
    done = run_script("export", f"--model_dir={tmp_path}", "--export_dtype=int8")
    assert done.returncode == 1
    assert (
        "flag --export_dtype=int8: value should be one of <float32|bfloat16>"
        in done.stderr
    )


def test_the_dtype_is_handed_on(run_script, model_dir, monkeypatch, tmp_path):
    # The script prints what `export` returns.
    monkeypatch.setattr(Translator, "export", lambda *_, **options: options)
    flags = [f"--model_dir={model_dir}", f"--export_dir={tmp_path}", *FLAGS]
    done = run_script("export", *flags, "--export_dtype=bfloat16")
    assert done.returncode == 0, done.stderr
    expected = {"version": None, "export_dtype": "bfloat16", **DECODING}
    assert done.stdout == f"{expected}\n"


def test_an_export_that_fails_its_checks_is_told_and_leaves_nothing(
    run_script, model_dir, monkeypatch, tmp_path
):
    monkeypatch.setattr(saved_model, "unservable_operations", lambda path: ["Strange"])
    shutil.copytree(model_dir, tmp_path / "run")
    flags = [f"--model_dir={tmp_path}/run", "--beam_width=1", "--max_length=3"]
    done = run_script("export", *flags)
    assert done.returncode == 1
    assert done.stderr.endswith(
        "error: The exported graph holds operations that stock TF Serving cannot run: "
        "Strange\n"
    )
    assert done.stdout == ""
    # MODEL_DIR/export is where versions go by default.
    assert list((tmp_path / "run" / "export").iterdir()) == []


def test_a_model_that_cannot_be_loaded_makes_no_directory(
    run_script, model_dir, tmp_path
):
    shutil.copytree(model_dir, tmp_path / "run")
    config = json.dumps({"format_version": 2, "max_source_length": 12})
    (tmp_path / "run" / "config.json").write_text(config)
    done = run_script(
        "export", f"--model_dir={tmp_path}/run", f"--export_dir={tmp_path}/served"
    )
    assert done.returncode == 1
    assert (
        f"error: Unsupported model directory {tmp_path}/run. Expected format version "
        "1. Received: 2" in done.stderr
    )
    assert not (tmp_path / "served").exists()
