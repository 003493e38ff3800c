import json
import sys

import pytest

from keras_attn import Translator
from keras_attn.evaluation import corpus_scores

DECODING = ("--beam_width=1", "--max_length=12")


@pytest.fixture
def evaluate(run_script, model_dir):
    """Runs the script on the shared model."""
    return lambda *flags: run_script(
        "evaluate", f"--model_dir={model_dir}", *DECODING, *flags
    )


@pytest.fixture
def two_files(words, tmp_path):
    """The paths of source and reference: 12 words, their end, and a blank line."""
    sources = [*words[300:312], ""]
    references = [*(word[::-1] for word in words[300:312]), ""]
    for name, texts in (("source", sources), ("reference", references)):
        lines = "".join(f"{text}\n" for text in texts)
        (tmp_path / name).write_text(lines, encoding="utf-8")
    return [f"--source={tmp_path}/source", f"--reference={tmp_path}/reference"]


@pytest.fixture
def answers(monkeypatch):
    """Sets what the texts are translated to, in their order."""

    def answer(texts):
        real = Translator.translate

        def translate(self, sources, **options):
            found = real(self, sources, **options)
            for translation, text in zip(found, texts, strict=True):
                object.__setattr__(translation, "text", text)
            return found

        monkeypatch.setattr(Translator, "translate", translate)

    return answer


def test_a_process_prints_one_json_object_and_nothing_else(
    run_process, model_dir, corpus
):
    flags = [f"--model_dir={model_dir}", f"--tsv={corpus}/valid.tsv", "--json"]
    done = run_process("evaluate", *flags, *DECODING)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert done.stdout.count("\n") == 1
    assert result["sentences"] == 20
    assert result["model_dir"] == str(model_dir)


def test_scores_are_those_of_the_hypotheses(evaluate, two_files, words, tmp_path):
    done = evaluate(
        *two_files,
        "--json",
        "--bleu_tokenize=char",
        "--lowercase",
        f"--hypotheses={tmp_path}/hypotheses.txt",
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    hypotheses = (tmp_path / "hypotheses.txt").read_text("utf-8").split("\n")[:-1]
    references = [*(word[::-1] for word in words[300:312]), ""]
    assert len(hypotheses) == 13
    scores = corpus_scores(hypotheses, references, tokenize="char", lowercase=True)
    assert {key: result[key] for key in scores.to_dict()} == scores.to_dict()
    assert "tok:char" in result["bleu_signature"]
    assert "case:lc" in result["chrf_signature"]
    # The blank text is right without fail.
    right = sum(map(str.__eq__, hypotheses, references))
    assert right >= 1
    assert result["exact_match"] == pytest.approx(100 * right / 13)
    assert result["sentences"] == 13
    assert result["truncated"] == 0
    rate = result["sentences"] / result["seconds"]
    assert result["sentences_per_second"] == pytest.approx(rate)
    assert (result["beam_width"], result["max_length"]) == (1, 12)


def test_text_shows_scores_with_signatures_and_speed(
    evaluate, two_files, words, answers
):
    # Half of the twelve words right, and the blank one.
    right = [word[::-1] for word in words[300:306]]
    answers([*right, *["x"] * 6, ""])
    done = evaluate(*two_files, "--bleu_tokenize=none")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("BLEU ")
    assert "|tok:none|" in lines[0]
    assert lines[1].startswith("chrF2 ")
    assert lines[2] == "exact match 53.85 %"
    assert lines[3].startswith("13 sentences in ")
    assert lines[3].endswith("--beam_width=1 --max_length=12 --length_penalty=0.6")


def test_line_breaks_in_a_hypothesis_break_no_alignment(evaluate, answers, tmp_path):
    (tmp_path / "two.tsv").write_text("ab\tb a\ncd\td c\n")
    answers(["b\na", "d\r\nc"])
    flags = [f"--tsv={tmp_path}/two.tsv", f"--hypotheses={tmp_path}/out.txt"]
    done = evaluate(*flags, "--json")
    assert (tmp_path / "out.txt").read_text() == "b a\nd c\n"
    assert json.loads(done.stdout)["exact_match"] == 100.0


def test_a_text_that_was_cut_is_said_so(evaluate, tmp_path):
    (tmp_path / "long.tsv").write_text(f"{'a' * 10_000}\taaa\nab\tba\n")
    done = evaluate(f"--tsv={tmp_path}/long.tsv", "--json")
    assert json.loads(done.stdout)["truncated"] == 1
    assert done.stderr.endswith(
        "warning: 1 source text(s) longer than the model reads were cut to their first "
        "11 tokens\n"
    )


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "Expected either --source and --reference, or --tsv. Received: --source="),
        (["--source={tmp}/a"], "Expected either --source and --reference, or --tsv."),
        (
            ["--source={tmp}/a", "--reference={tmp}/b", "--tsv={tmp}/a"],
            "Expected either --source and --reference, or --tsv.",
        ),
        (
            ["--source={tmp}/a", "--reference={tmp}/b"],
            "Source and target differ in their number of lines. Received: {tmp}/a: 2 "
            "lines, {tmp}/b: 1 lines",
        ),
        (["--tsv={tmp}/none"], "File not found: {tmp}/none"),
        (["--tsv={tmp}/empty"], "Empty file: {tmp}/empty. Expected at least one line"),
        (["--tsv={tmp}/a"], "Too few columns in {tmp}/a, line 1. Expected at least 2"),
        (
            ["--tsv={tmp}/a", "--hypotheses={tmp}/none/out"],
            "--hypotheses: Expected a file in an existing directory. Received: ",
        ),
        (["--tsv={tmp}/a", "--hypotheses=-"], "--hypotheses: Expected a file. Rec"),
    ],
)
def test_bad_flags_and_files_are_told_before_any_work(
    flags, message, run_script, tmp_path
):
    for name, content in (("a", "x\ny\n"), ("b", "x\n"), ("empty", "")):
        (tmp_path / name).write_text(content)
    flags = [flag.format(tmp=tmp_path) for flag in flags]
    done = run_script("evaluate", "--model_dir=none", *flags)
    assert done.returncode == 1
    assert f"error: {message.format(tmp=tmp_path)}" in done.stderr
    assert done.stdout == ""
    assert len(list(tmp_path.iterdir())) == 3


def test_an_unknown_tokenizer_is_told_with_those_there_are(evaluate, two_files):
    done = evaluate(*two_files, "--bleu_tokenize=14a")
    assert done.returncode == 1
    assert "--bleu_tokenize=14a: value should be one of <none|zh|13a|" in done.stderr


def test_a_tokenizer_without_its_package_is_told_before_any_work(
    run_script, monkeypatch
):
    module = "sacrebleu.tokenizers.tokenizer_ja_mecab"
    monkeypatch.setitem(sys.modules, "MeCab", None)
    monkeypatch.delitem(sys.modules, module, raising=False)
    done = run_script("evaluate", "--model_dir=none", "--bleu_tokenize=ja-mecab")
    assert done.returncode == 1
    assert "error: --bleu_tokenize=ja-mecab cannot be used: " in done.stderr
    assert "pip install sacrebleu[ja]" in done.stderr
