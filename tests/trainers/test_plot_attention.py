import dataclasses
import warnings

import numpy as np
import pytest

from keras_attn import Translator

GREEDY = ("--beam_width=1", "--max_length=12")


@pytest.fixture
def plot(run_script, model_dir):
    """Runs the script on the shared model."""
    return lambda *flags: run_script(
        "plot_attention", f"--model_dir={model_dir}", *GREEDY, *flags
    )


@pytest.fixture
def translated(monkeypatch):
    """Changes what the translation of the text is."""

    def change(**fields):
        real = Translator.translate

        def translate(self, texts, **options):
            found = real(self, texts, **options)
            return [dataclasses.replace(translation, **fields) for translation in found]

        monkeypatch.setattr(Translator, "translate", translate)

    return change


def test_the_translation_is_printed_and_the_map_drawn(run_script, model_dir, tmp_path):
    output = tmp_path / "out.png"
    flags = [f"--model_dir={model_dir}", "--text=abc", f"--output={output}"]
    done = run_script("plot_attention", *flags, "--max_length=12")
    assert done.returncode == 0, done.stderr
    [translation] = Translator.load(model_dir).translate(["abc"], max_length=12)
    assert done.stdout == f"{translation.text}\n"
    assert output.read_bytes().startswith(b"\x89PNG")
    assert list(tmp_path.iterdir()) == [output]


@pytest.mark.parametrize(
    ("name", "start"), [("out.svg", b"<?xml"), ("OUT.PDF", b"%PDF")]
)
def test_the_extension_says_the_format(name, start, plot, tmp_path):
    done = plot("--text=abc", f"--output={tmp_path}/{name}", "--title=A title")
    assert done.returncode == 0, done.stderr
    content = (tmp_path / name).read_bytes()
    assert content.startswith(start)
    assert name != "out.svg" or b"A title" in content


def test_what_is_drawn_is_the_attention(plot, translated, monkeypatch, tmp_path):
    drawn = []
    monkeypatch.setattr(
        "keras_attn.plots.save_heatmap", lambda *args, **options: drawn.append(args)
    )
    matrix = np.array([[0.25, 0.75], [1.0, 0.0]], "float32")
    translated(tokens=["x", "y"], source_tokens=["a", "</s>"], attention=matrix)
    done = plot("--text=abc", f"--output={tmp_path}/out.png")
    assert done.returncode == 0, done.stderr
    [(path, attention, source_tokens, tokens)] = drawn
    assert path == f"{tmp_path}/out.png"
    assert attention is matrix
    assert (source_tokens, tokens) == (["a", "</s>"], ["x", "y"])


@pytest.mark.parametrize("text", ["", " \t", "\u3000\n"])
def test_an_empty_text_is_told_before_any_work(text, run_script, tmp_path):
    done = run_script(
        "plot_attention",
        "--model_dir=none",
        f"--text={text}",
        f"--output={tmp_path}/out.png",
    )
    assert done.returncode == 1
    assert "error: --text: Expected some text to translate. Received: " in done.stderr
    assert done.stdout == ""


def test_an_empty_translation_is_told(plot, translated, tmp_path):
    translated(text="", tokens=[], attention=np.zeros([0, 4]))
    done = plot("--text=abc", f"--output={tmp_path}/out.png")
    assert done.returncode == 1
    assert "error: --text: The model's translation of 'abc' is empty" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_model_without_attention_is_told(run_script, no_attention_dir, tmp_path):
    done = run_script(
        "plot_attention",
        f"--model_dir={no_attention_dir}",
        "--text=ein hund",
        f"--output={tmp_path}/out.png",
    )
    assert done.returncode == 1
    assert (
        "error: --output: Expected a model with attention. Received: --model_dir="
        f"{no_attention_dir}, a model without" in done.stderr
    )
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_extension_is_told_and_costs_no_old_file(plot, tmp_path):
    (tmp_path / "out.gif").write_text("old")
    done = plot("--text=abc", f"--output={tmp_path}/out.gif")
    assert done.returncode == 1
    assert "Expected a file name that ends in .png, .svg or .pdf" in done.stderr
    assert done.stdout == ""
    assert (tmp_path / "out.gif").read_text() == "old"


def test_a_missing_directory_is_told_before_any_work(run_script, tmp_path):
    done = run_script(
        "plot_attention",
        "--model_dir=none",
        "--text=abc",
        f"--output={tmp_path}/none/out.png",
    )
    assert done.returncode == 1
    assert f"there is no directory {tmp_path}/none" in done.stderr


def test_long_text_and_missing_fonts_are_warned_of(plot, monkeypatch, tmp_path):
    monkeypatch.setattr(
        "keras_attn.plots.save_heatmap",
        lambda *_, **options: warnings.warn("Install a font", stacklevel=1),
    )
    done = plot(f"--text={'a' * 10_000}", f"--output={tmp_path}/out.png")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    assert done.stderr.splitlines()[-2:] == [
        "warning: Install a font",
        "warning: --text is longer than the model reads; only its first 11 tokens were "
        "translated",
    ]
