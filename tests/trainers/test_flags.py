import io
import os
import sys

import pytest
from absl import app, flags
from absl.testing import flagsaver

from keras_attn.export import ExportError
from trainers import flags as common

SCRIPTS = ["train_translation", "translate", "evaluate", "export", "plot_attention"]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def run(monkeypatch):
    """Runs a function as a script; returns the exit status."""

    def run(main, *arguments):
        monkeypatch.setattr(sys, "argv", ["script.py", *arguments])
        with flagsaver.flagsaver(), pytest.raises(SystemExit) as end:
            common.run(main)
        return end.value.code or 0

    return run


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_flag_is_listed_with_a_help_text(script, run_script, monkeypatch):
    found = {}

    def list_flags(main):
        found.update(
            {f.name: f for f in flags.FLAGS.get_key_flags_for_module(sys.argv[0])}
        )

    monkeypatch.setattr(app, "run", list_flags)
    run_script(script)
    assert "model_dir" in found  # which is defined for all scripts
    assert script == "train_translation" or "beam_width" in found
    for flag in found.values():
        # An enumeration's starts with its values: "<gru|lstm>: Kind of ...".
        text = flag.help.rpartition(">: ")[2]
        assert len(text) > 10, flag.name
        assert text.endswith("."), flag.name


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_missing_model_dir_an_unknown_flag_and_an_argument_are_told(
    script, run_script
):
    done = run_script(script)
    assert done.returncode == 1
    assert "Flag --model_dir must have a value other than None" in done.stderr
    done = run_script(script, "--model_dir=x", "--modeldir=x")
    assert done.returncode == 1
    assert "Unknown command line flag 'modeldir'. Did you mean: model_dir" in (
        done.stderr
    )
    needed = ["--text=x", "--output=x.png"] if script == "plot_attention" else []
    done = run_script(script, "--model_dir=x", *needed, "stray")
    assert done.returncode == 1
    assert "Unexpected arguments: stray" in done.stderr


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (ValueError("Expected a. Received: b"), 1, "error: Expected a. Received: b\n"),
        (FileNotFoundError(2, "None there", "x"), 1, "error: [Errno 2] None there"),
        (ExportError("It failed"), 1, "error: It failed\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
    ],
)
def test_what_a_user_can_mend_is_one_line(error, status, message, run, capsys):
    def main():
        raise error

    assert run(main) == status
    assert capsys.readouterr().err.startswith(message)


def test_a_bug_shows_its_traceback(monkeypatch):
    def main():
        raise ZeroDivisionError

    monkeypatch.setattr(sys, "argv", ["script.py"])
    with flagsaver.flagsaver(), pytest.raises(ZeroDivisionError):
        common.run(main)


def test_a_reader_that_has_enough_is_told_nothing(run, monkeypatch, capsys):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        # Short of a buffer: it is written only when the script is at its end.
        assert run(lambda: print("text")) == 1
    assert capsys.readouterr().err == ""


def test_texts_are_printed_as_utf8_whatever_the_locale(run, monkeypatch):
    stdout = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stdout)
    assert run(lambda: print("北京")) == 0
    assert stdout.buffer.getvalue() == "北京\n".encode()


def test_progress_is_drawn_on_a_terminal_and_never_on_standard_output(
    monkeypatch, capsys
):
    assert common.progress_bar(10) is None
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert common.progress_bar(0) is None
    progress = common.progress_bar(10)
    progress(4)
    progress(10)
    assert "4/10" in terminal.getvalue()
    assert "10/10" in terminal.getvalue()
    assert capsys.readouterr().out == ""
