import json
import re
import shutil
import signal

import h5py
import numpy as np
import pytest

from keras_attn import Translator


def contents(directory):
    """Every file in a directory, by its path there."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def arrays(path):
    """The arrays of a weights file, by their names."""
    found = {}

    def keep(name, item):
        if isinstance(item, h5py.Dataset):
            found[name] = item[()]

    with h5py.File(path) as file:
        file.visititems(keep)
    return found


def latest(model_dir):
    return json.loads((model_dir / "checkpoints" / "latest.json").read_text("utf-8"))


def test_a_run_leaves_a_translator_logs_and_its_last_checkpoint(runs, model_dir):
    assert sorted(contents(model_dir / "checkpoints")) == [
        "epoch-0003.weights.h5",
        "latest.json",
        "options.json",
    ]
    assert latest(model_dir)["epochs"] == 3
    assert latest(model_dir)["stopped"] is False
    assert any((model_dir / "logs" / "train").iterdir())
    translator = Translator.load(model_dir)
    assert translator.max_source_length == 12
    # a to h, and four special tokens
    assert translator.target_tokenizer.vocabulary_size == 12
    # Without this the other tests would compare nothing with nothing.
    assert all(t.tokens for t in translator.translate(["abc", "ahgf"], max_length=12))


def test_a_run_says_what_it_does(runs, model_dir):
    output = runs["unbroken_process"].stdout
    assert "Training on 300 of 300 pairs" in output
    assert "source vocabulary 12, target vocabulary 12" in output
    # One line an epoch where there is no terminal, and no control characters.
    assert len(re.findall(r"^30/30 - .*val_bleu: ", output, re.MULTILINE)) == 3
    assert "\b" not in output
    assert "\r" not in output
    assert f"The model is in {model_dir}." in output


def test_the_best_dev_score_is_kept(model_dir):
    bleu = latest(model_dir)["bleu"]
    assert bleu["best"] > 0
    assert bleu["best_epoch"] in (0, 1, 2)


@pytest.fixture(scope="module")
def resumed(runs, run_script, training_flags, tmp_path_factory):
    """A run killed twice and then finished, and what the last part said."""
    model_dir = tmp_path_factory.mktemp("resumed") / "run"
    shutil.copytree(runs["broken"], model_dir)
    flags = [*training_flags, f"--model_dir={model_dir}", "--profile=3,4"]
    return model_dir, run_script("train_translation", *flags)


def test_the_killed_run_was_killed_where_the_test_needs_it(runs):
    first, second = runs["broken_processes"]
    assert first.returncode == -signal.SIGKILL, first.stderr
    assert "Resuming" not in first.stdout
    assert second.returncode == -signal.SIGKILL, second.stderr
    assert "Resuming after 1 epochs." in second.stdout
    checkpoints = runs["broken"] / "checkpoints"
    assert latest(runs["broken"])["epochs"] == 1
    assert (checkpoints / "epoch-0001.weights.h5").exists()
    assert not (checkpoints / "epoch-0002.weights.h5").exists()
    # Half a file, under a name that nothing takes for a checkpoint.
    [stray] = checkpoints.glob(".tmp-*")
    assert stray.stat().st_size == 1000


def test_a_killed_run_can_be_translated_with(runs, run_script):
    done = run_script(
        "translate", f"--model_dir={runs['broken']}", "--beam_width=1", stdin=b"ab\n"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1


def test_a_resumed_run_ends_with_the_weights_of_an_unbroken_one(resumed, model_dir):
    directory, done = resumed
    assert done.returncode == 0, done.stderr
    assert "Resuming after 1 epochs." in done.stdout
    name = "checkpoints/epoch-0003.weights.h5"
    received, expected = arrays(directory / name), arrays(model_dir / name)
    # Weights, and the two moments and the step of Adam.
    assert received.keys() == expected.keys()
    assert len(expected) > 3 * 10
    for key, value in expected.items():
        np.testing.assert_allclose(received[key], value, atol=1e-5, err_msg=key)


def test_a_resumed_run_keeps_the_best_model_of_an_unbroken_one(resumed, model_dir):
    directory, _ = resumed
    received, expected = latest(directory), latest(model_dir)
    assert received["bleu"]["best"] == pytest.approx(expected["bleu"]["best"], abs=1e-3)
    assert received["bleu"]["best_epoch"] == expected["bleu"]["best_epoch"]
    assert received["seeds"] == expected["seeds"]
    for one, other in zip(
        Translator.load(directory).model.get_weights(),
        Translator.load(model_dir).model.get_weights(),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_profile_writes_a_trace_of_the_steps(resumed, model_dir):
    directory, _ = resumed
    [trace] = directory.glob("logs/train/plugins/profile/*/*.xplane.pb")
    # Names of operations, as the host's tracer records them.
    content = trace.read_bytes()
    assert all(name in content for name in (b"MatMul", b"Softmax", b"train"))
    assert not (model_dir / "logs" / "train" / "plugins").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("--profile=4,3", "Expected FIRST_STEP,LAST_STEP with 1 <= FIRST_STEP <= "),
        ("--profile=0,3", "Expected FIRST_STEP,LAST_STEP with 1 <= FIRST_STEP <= "),
        ("--profile=all", "LAST_STEP. Received: --profile=all"),
        ("--profile=1,2 --notensorboard", "Expected --tensorboard, whose logs"),
    ],
)
def test_a_bad_profile_is_told(given, message, run_script, training_flags, tmp_path):
    flags = [*training_flags, f"--model_dir={tmp_path}/run", *given.split()]
    done = run_script("train_translation", *flags)
    assert done.returncode == 1
    assert "error: --profile: " in done.stderr
    assert message in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_finished_run_is_left_as_it_is(run_script, training_flags, model_dir):
    before = contents(model_dir)
    done = run_script("train_translation", *training_flags, f"--model_dir={model_dir}")
    assert done.returncode == 0, done.stderr
    assert "Nothing to do: 3 epochs are done. Best dev BLEU" in done.stdout
    assert contents(model_dir) == before


def test_other_flags_are_listed_and_nothing_is_changed(
    run_script, training_flags, model_dir
):
    before = contents(model_dir)
    done = run_script(
        "train_translation",
        *training_flags,
        f"--model_dir={model_dir}",
        "--epochs=7",
        "--rnn=lstm",
        "--valid_batch_size=3",  # has no influence, and so may differ
    )
    assert done.returncode == 1
    error = done.stderr[done.stderr.index("error: ") :]
    assert error == (
        f"error: {model_dir} holds a run with other flags. Choose another --model_dir, "
        "or the same flags to resume it.\n"
        "  --epochs: 3 there, 7 here\n"
        "  --rnn: gru there, lstm here\n"
    )
    assert contents(model_dir) == before


def test_patience_ends_a_run_and_the_run_stays_ended(
    run_script, training_flags, tmp_path
):
    command = [
        "train_translation",
        *training_flags,
        f"--model_dir={tmp_path}/run",
        # No epoch is better than the first.
        "--learning_rate=0",
        "--batch_size=100",
        "--epochs=5",
        "--patience=1",
        "--notensorboard",
    ]
    done = run_script(*command)
    assert done.returncode == 0, done.stderr
    assert latest(tmp_path / "run")["epochs"] == 2
    assert latest(tmp_path / "run")["stopped"] is True
    assert latest(tmp_path / "run")["bleu"]["best_epoch"] == 0
    assert not (tmp_path / "run" / "logs").exists()
    done = run_script(*command)
    assert done.returncode == 0, done.stderr
    assert "Nothing to do: 2 epochs are done." in done.stdout


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("latest.json", "{", "latest.json cannot be resumed: Expecting property name"),
        ("options.json", "{", "Corrupt file"),
        ("options.json", "3", "Corrupt file"),
        ("epoch-0003.weights.h5", "HDF", "latest.json cannot be resumed: "),
    ],
)
def test_a_corrupt_checkpoint_is_named(
    name, content, message, run_script, training_flags, model_dir, tmp_path
):
    directory = tmp_path / "run"
    shutil.copytree(model_dir, directory)
    (directory / "checkpoints" / name).write_text(content)
    before = contents(directory)
    done = run_script("train_translation", *training_flags, f"--model_dir={directory}")
    assert done.returncode == 1
    assert f"error: {'The checkpoint' if 'resumed' in message else ''}" in done.stderr
    assert message in done.stderr
    assert f"{directory}/checkpoints" in done.stderr
    assert contents(directory) == before


@pytest.mark.parametrize("name", ["options.json", "epoch-0003.weights.h5"])
def test_a_missing_part_of_a_checkpoint_is_no_fresh_start(
    name, run_script, training_flags, model_dir, tmp_path
):
    directory = tmp_path / "run"
    shutil.copytree(model_dir, directory)
    (directory / "checkpoints" / name).unlink()
    before = contents(directory)
    done = run_script("train_translation", *training_flags, f"--model_dir={directory}")
    assert done.returncode == 1
    assert f"{directory}" in done.stderr[done.stderr.index("error: ") :]
    assert contents(directory) == before


def test_a_lost_tokenizer_is_not_replaced_by_another(
    run_script, training_flags, model_dir, tmp_path
):
    directory = tmp_path / "run"
    shutil.copytree(model_dir, directory)
    shutil.rmtree(directory / "tokenizers" / "target")
    done = run_script("train_translation", *training_flags, f"--model_dir={directory}")
    assert done.returncode == 1
    assert (
        f"error: Tokenizer file not found: {directory}/tokenizers/target/tokenizer.json"
        in done.stderr
    )


def test_a_model_of_other_origin_is_not_written_over(
    run_script, training_flags, no_attention_dir, tmp_path
):
    directory = tmp_path / "run"
    shutil.copytree(no_attention_dir, directory)
    before = contents(directory)
    done = run_script("train_translation", *training_flags, f"--model_dir={directory}")
    assert done.returncode == 1
    assert (
        f"error: {directory} holds a model that is no run of this script" in done.stderr
    )
    assert contents(directory) == before
