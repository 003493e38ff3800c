"""Running the scripts, and the one small training run that the tests share."""

import concurrent.futures
import contextlib
import io
import logging
import os
import pathlib
import random
import runpy
import subprocess
import sys
import warnings
from unittest import mock

import pytest
from absl.testing import flagsaver

ROOT = pathlib.Path(__file__).parents[2]
MAX_SOURCE_LENGTH = 12

# Put before a script, ends it as a power cut would: in the middle of epoch 2, or when
# a part of its checkpoint is written.
KILLED_IN_EPOCH_2 = """
import os, signal
from keras_attn.training import ValidationBLEU

def on_epoch_begin(self, epoch, logs=None):
    self.epoch = epoch

def on_train_batch_end(self, batch, logs=None):
    if (self.epoch, batch) == (1, 3):
        os.kill(os.getpid(), signal.SIGKILL)

ValidationBLEU.on_epoch_begin = on_epoch_begin
ValidationBLEU.on_train_batch_end = on_train_batch_end
"""
KILLED_WHILE_SAVING_EPOCH_2 = """
import os, signal
replace = os.replace

def replace_or_die(partial, path):
    if os.path.basename(path) == "epoch-0002.weights.h5":
        os.truncate(partial, 1000)
        os.kill(os.getpid(), signal.SIGKILL)
    replace(partial, path)

os.replace = replace_or_die
"""


class _Standard(io.TextIOWrapper):
    """A standard stream of its own."""

    def __init__(self, content=b""):
        super().__init__(io.BytesIO(content), encoding="utf-8", newline="\n")

    def text(self):
        self.flush()
        return self.buffer.getvalue().decode("utf-8")


def _run_script(name, *arguments, stdin=b""):
    """Run `python -m trainers.NAME` within this process, which spares the start-up.

    Returns:
        What `subprocess.run` would return.
    """
    argv = [f"{name}.py", *map(str, arguments)]
    out, err = _Standard(), _Standard()
    handlers = logging.root.handlers[:]
    try:
        with (
            flagsaver.flagsaver(),
            mock.patch.object(sys, "argv", argv),
            mock.patch.object(sys, "stdin", _Standard(stdin)),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            warnings.catch_warnings(),
        ):
            runpy.run_module(f"trainers.{name}", run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as end:
        status = end.code or 0
    finally:
        # absl takes logging over.
        logging.root.handlers[:] = handlers
    return subprocess.CompletedProcess(argv, status, out.text(), err.text())


def _run_process(name, *arguments, stdin="", before=""):
    """Run `python -m trainers.NAME` as a process, after the statements `before`."""
    module = f"trainers.{name}"
    start = ["-m", module]
    if before:
        # sys.argv is ["-c", ...], as flags expect it.
        run = f"runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
        start = ["-c", f"{before}\nimport runpy\n{run}"]
    return subprocess.run(
        [sys.executable, *start, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        cwd=ROOT,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
        timeout=600,
        check=False,
        encoding="utf-8",
    )


@pytest.fixture(scope="session")
def run_script():
    return _run_script


@pytest.fixture(scope="session")
def run_process():
    return _run_process


@pytest.fixture(scope="session")
def words():
    """320 short words; the task is to spell them backwards."""
    rng = random.Random(0)
    made = {"".join(rng.choices("abcdefgh", k=rng.randint(2, 6))) for _ in range(600)}
    words = sorted(made)[:320]
    rng.shuffle(words)
    return words


@pytest.fixture(scope="session")
def corpus(words, tmp_path_factory):
    """A directory with train.tsv and valid.tsv."""
    directory = tmp_path_factory.mktemp("corpus")
    for name, part in (("train", words[:300]), ("valid", words[300:])):
        lines = "".join(f"{word}\t{word[::-1]}\n" for word in part)
        (directory / f"{name}.tsv").write_text(lines, encoding="utf-8")
    return directory


@pytest.fixture(scope="session")
def training_flags(corpus):
    """The flags of the shared run, but for its --model_dir."""
    return [
        f"--train_tsv={corpus}/train.tsv",
        f"--valid_tsv={corpus}/valid.tsv",
        "--source_tokenizer=character",
        "--target_tokenizer=character",
        "--source_vocabulary_size=0",
        "--target_vocabulary_size=0",
        f"--max_source_length={MAX_SOURCE_LENGTH}",
        "--max_target_length=12",
        "--embedding_dim=12",
        "--encoder_units=12",
        "--decoder_units=12",
        "--epochs=3",
        "--batch_size=10",
        "--learning_rate=0.02",
        "--warmup_steps=5",
        "--dropout=0.1",
        "--bleu_tokenize=char",
    ]


@pytest.fixture(scope="session")
def runs(training_flags, tmp_path_factory):
    """The directories of an unbroken run and of one that was killed twice.

    Returns:
        A dictionary of the directories, and the processes that wrote them, as
        `unbroken`, `broken`, `unbroken_process` and `broken_processes`.
    """
    directory = tmp_path_factory.mktemp("runs")
    unbroken, broken = directory / "unbroken", directory / "broken"

    def train(model_dir, before=""):
        flags = [*training_flags, f"--model_dir={model_dir}"]
        return _run_process("train_translation", *flags, before=before)

    def train_and_kill():
        return [
            train(broken, KILLED_IN_EPOCH_2),
            train(broken, KILLED_WHILE_SAVING_EPOCH_2),
        ]

    # One after the other, starting TensorFlow would take most of the time.
    with concurrent.futures.ThreadPoolExecutor() as pool:
        unbroken_process = pool.submit(train, unbroken)
        broken_processes = pool.submit(train_and_kill)
    return {
        "unbroken": unbroken,
        "broken": broken,
        "unbroken_process": unbroken_process.result(),
        "broken_processes": broken_processes.result(),
    }


@pytest.fixture(scope="session")
def model_dir(runs):
    """The directory of the unbroken run. Nothing may be written to it."""
    process = runs["unbroken_process"]
    assert process.returncode == 0, process.stderr
    return runs["unbroken"]


@pytest.fixture(scope="session")
def no_attention_dir(plain_translator, tmp_path_factory):
    """The directory of a model without attention, which has learned nothing."""
    directory = tmp_path_factory.mktemp("no_attention")
    plain_translator.save(directory)
    return directory
