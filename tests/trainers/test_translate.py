import gzip
import json
import os
import threading

import numpy as np
import pytest

from keras_attn import Translator
from keras_attn.translator import Translation

GREEDY = ("--beam_width=1", "--max_length=12")
# Blank, unseen, broken and too long, between two that are none of it.
TEXTS = [
    "abc",
    "",
    " \t\u3000\u00a0 ",
    "😀 👩‍👩‍👧",
    "北京 ไทย",
    "a" * 10_000,
    "\u0301",
    "e\u0301<s></s>",
    "hgfe",
]


@pytest.fixture(scope="module")
def translator(model_dir):
    return Translator.load(model_dir)


@pytest.fixture
def translate(run_script, model_dir):
    """Runs the script on the shared model."""

    def translate(*arguments, stdin=b""):
        return run_script(
            "translate", f"--model_dir={model_dir}", *arguments, stdin=stdin
        )

    return translate


@pytest.fixture
def spoken(monkeypatch):
    """Sets what every text is translated to."""

    def speak(text):
        translation = Translation(text, ["x"], ["y"], np.ones([1, 1]), -1.0, False)
        monkeypatch.setattr(
            Translator,
            "translate",
            lambda self, texts, **_: [translation for _ in texts],
        )

    return speak


def write(path, texts):
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return path


def test_a_process_translates_its_input_to_its_output(
    run_process, model_dir, translator
):
    done = run_process("translate", f"--model_dir={model_dir}", stdin="abc\n\nhgf\n")
    assert done.returncode == 0, done.stderr
    expected = translator.translate(["abc", "", "hgf"])
    assert done.stdout == "".join(f"{t.text}\n" for t in expected)


def test_every_line_has_its_line_and_its_matrix(translate, translator, tmp_path):
    source = write(tmp_path / "in.txt", TEXTS)
    done = translate(
        *GREEDY,
        f"--input={source}",
        f"--output={tmp_path}/out.txt",
        f"--attention_output={tmp_path}/out.jsonl",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    expected = translator.translate(TEXTS, beam_width=1, max_length=12)
    lines = (tmp_path / "out.txt").read_text("utf-8").split("\n")
    assert lines == [*(t.text for t in expected), ""]
    assert lines[1] == lines[2] == ""
    answers = [
        json.loads(line)
        for line in (tmp_path / "out.jsonl").read_text("utf-8").split("\n")[:-1]
    ]
    assert len(answers) == len(TEXTS)
    for answer, translation in zip(answers, expected, strict=True):
        assert answer.keys() == {
            "text",
            "tokens",
            "source_tokens",
            "attention",
            "score",
            "truncated",
        }
        assert answer["text"] == translation.text
        assert answer["tokens"] == translation.tokens
        assert answer["source_tokens"] == translation.source_tokens
        assert answer["score"] == pytest.approx(translation.score, abs=1e-5)
        shape = (len(answer["tokens"]), len(answer["source_tokens"]))
        matrix = np.array(answer["attention"]).reshape(shape)
        np.testing.assert_allclose(matrix, translation.attention, atol=1e-6)
        np.testing.assert_allclose(matrix.sum(1), 1, atol=1e-5)
    blank = {"text": "", "tokens": [], "source_tokens": [], "attention": []}
    assert answers[2] == {**blank, "score": 0.0, "truncated": False}
    assert answers[4]["source_tokens"][:3] == ["北", "京", " "]
    assert [i for i, answer in enumerate(answers) if answer["truncated"]] == [5]
    assert len(answers[5]["source_tokens"]) == 12


def test_a_text_that_was_cut_is_said_so(translate):
    stdin = "\n".join(["abc", *["a" * 10_000] * 12]).encode()
    done = translate(*GREEDY, stdin=stdin)
    assert done.returncode == 0
    assert done.stdout.count("\n") == 13
    # 12 with </s>, which is none of the text.
    assert done.stderr.splitlines()[-1] == (
        "warning: 12 text(s) longer than the model reads were cut to their first 11 "
        "tokens: line 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 2 more"
    )


def test_a_text_as_long_as_the_model_reads_is_no_warning(translate):
    done = translate(*GREEDY, stdin=b"abcdefgabcd\n")
    assert done.returncode == 0
    assert "warning" not in done.stderr


def test_n_best_lists_hypotheses_as_moses_does(translate, translator, tmp_path):
    done = translate(
        "--n_best=2",
        "--beam_width=3",
        "--max_length=12",
        f"--attention_output={tmp_path}/out.jsonl",
        stdin=b"abc\n\ngh\n",
    )
    assert done.returncode == 0, done.stderr
    options = {"beam_width": 3, "max_length": 12}
    first, _, last = translator.translate_n_best(["abc", "", "gh"], **options)
    rows = [(0, 1, first[0]), (0, 2, first[1]), (1, 1, None)]
    rows += [(2, 1, last[0]), (2, 2, last[1])]
    lines = done.stdout.splitlines()
    assert len(lines) == len(rows)
    for line, (number, _, hypothesis) in zip(lines, rows, strict=True):
        received_number, text, score = line.split(" ||| ")
        assert received_number == str(number)
        assert text == (hypothesis.text if hypothesis else "")
        expected = hypothesis.score if hypothesis else 0.0
        assert float(score) == pytest.approx(expected, abs=1e-4)
    answers = [
        json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()
    ]
    received = [(a["line"], a["rank"], a["text"]) for a in answers]
    assert received == [(n, r, h.text if h else "") for n, r, h in rows]
    assert answers[1]["score"] <= answers[0]["score"]


def test_line_breaks_in_a_translation_break_no_alignment(translate, spoken, tmp_path):
    spoken("one\r\ntwo\nthree\rfour")
    done = translate(f"--attention_output={tmp_path}/out.jsonl", stdin=b"a\nb\n")
    assert done.stdout == "one two three four\n" * 2
    answers = (tmp_path / "out.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(a)["text"] for a in answers] == ["one\r\ntwo\nthree\rfour"] * 2


def test_gzip_goes_in_and_comes_out(translate, translator, tmp_path):
    with gzip.open(tmp_path / "in.gz", "wt", encoding="utf-8") as file:
        file.write("abc\ngh")  # no end of line at the end
    outputs = []
    for name in ("one.gz", "two.gz"):
        done = translate(
            *GREEDY, f"--input={tmp_path}/in.gz", f"--output={tmp_path}/{name}"
        )
        assert done.returncode == 0, done.stderr
        outputs.append((tmp_path / name).read_bytes())
    expected = translator.translate(["abc", "gh"], beam_width=1, max_length=12)
    text = gzip.decompress(outputs[0]).decode("utf-8")
    assert text == "".join(f"{t.text}\n" for t in expected)
    # No time and no name of a temporary file in it.
    assert outputs[0] == outputs[1]


def test_line_ends_and_byte_order_marks_are_no_text(translate):
    plain = translate(*GREEDY, stdin=b"abc\ngh\n")
    marked = translate(*GREEDY, stdin=b"\xef\xbb\xbfabc\r\ngh\r\n")
    assert plain.returncode == marked.returncode == 0
    assert plain.stdout == marked.stdout


def test_batches_and_their_groups_change_nothing(translate):
    texts = "".join(f"{'abcdefgh'[i % 8 :]}\n" for i in range(70)).encode()
    together = translate(*GREEDY, stdin=texts)
    one_by_one = translate(*GREEDY, "--batch_size=1", stdin=texts)
    assert together.stdout.count("\n") == 70
    assert one_by_one.stdout == together.stdout


def test_no_line_gives_no_line(translate, tmp_path):
    done = translate(f"--output={tmp_path}/out.txt")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.txt").read_bytes() == b""


def test_a_pipe_is_written_to_and_not_replaced(translate, spoken, tmp_path):
    spoken("yes")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()))
    reader.start()
    done = translate(f"--output={pipe}", stdin=b"a\nb\n")
    reader.join(timeout=60)
    assert done.returncode == 0, done.stderr
    assert received == ["yes\nyes\n"]
    assert pipe.is_fifo()


def test_a_link_stays_a_link(translate, spoken, tmp_path):
    spoken("new")
    (tmp_path / "file").write_text("old\n")
    (tmp_path / "link").symlink_to("file")
    assert translate(f"--output={tmp_path}/link", stdin=b"a\n").returncode == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "new\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"ab\nc\xff\n",
            "Invalid UTF-8 in {input}, line 2: invalid start byte at byte",
        ),
        (b"ab\n\n" + b"x" * 1_000_001, "Line too long in {input}, line 3. Expected at"),
        (None, "File not found: {input}"),
    ],
)
def test_input_that_cannot_be_read_costs_no_old_output(
    content, message, translate, tmp_path
):
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    if content is not None:
        source.write_bytes(content)
    output.write_text("old\n")
    done = translate(f"--input={source}", f"--output={output}")
    assert done.returncode == 1
    assert f"error: {message.format(input=source)}" in done.stderr
    assert output.read_text() == "old\n"
    assert {path.name for path in tmp_path.iterdir()} <= {"in.txt", "out.txt"}


def test_standard_input_is_checked_as_a_file_is(translate):
    done = translate(stdin=b"ab\n\xe4\n")
    assert done.returncode == 1
    assert "error: Invalid UTF-8 in standard input, line 2: " in done.stderr
    assert done.stdout == ""


def test_a_file_that_is_no_gzip_is_named(translate, tmp_path):
    (tmp_path / "in.gz").write_text("abc\n")
    done = translate(f"--input={tmp_path}/in.gz")
    assert done.returncode == 1
    assert f"error: Not a whole gzip file: {tmp_path}/in.gz" in done.stderr


def test_a_failure_on_the_way_leaves_old_output_and_no_part_of_new(
    translate, monkeypatch, tmp_path
):
    def fail(self, texts, **options):
        raise OSError("No space left on device")

    monkeypatch.setattr(Translator, "translate", fail)
    for name in ("out.txt", "out.jsonl"):
        (tmp_path / name).write_text("old\n")
    done = translate(
        f"--output={tmp_path}/out.txt",
        f"--attention_output={tmp_path}/out.jsonl",
        stdin=b"a\n",
    )
    assert done.returncode == 1
    assert done.stderr.endswith("error: No space left on device\n")
    for name in ("out.txt", "out.jsonl"):
        assert (tmp_path / name).read_text() == "old\n"
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--n_best=3", "--beam_width=2"],
            "--n_best: Expected at most --beam_width=2. Received: 3",
        ),
        (
            ["--output=-", "--attention_output=-"],
            "--attention_output: Expected another place than --output. Received: - for",
        ),
        (
            ["--output={tmp}/a", "--attention_output={tmp}/../{name}/a"],
            "--attention_output: Expected another place than --output. Received: {tmp}",
        ),
        (
            ["--output={tmp}/none/out.txt"],
            "--output: Expected a file in an existing directory. Received: "
            "{tmp}/none/out.txt; there is no directory {tmp}/none",
        ),
        (
            ["--attention_output={tmp}"],
            "--attention_output: Expected a file. Received: {tmp}, a directory",
        ),
    ],
)
def test_flags_that_make_no_sense_are_told_before_any_work(
    arguments, message, run_script, tmp_path
):
    names = {"tmp": tmp_path, "name": tmp_path.name}
    # There is no model: it is not looked for before the flags are in order.
    done = run_script(
        "translate", "--model_dir=none", *(a.format(**names) for a in arguments)
    )
    assert done.returncode == 1
    assert f"error: {message.format(**names)}" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_beam_wider_than_the_vocabulary_is_told(translate, tmp_path):
    output = tmp_path / "out.txt"
    done = translate("--beam_width=500", f"--output={output}", stdin=b"a\n")
    assert done.returncode == 1
    assert "error: Invalid value for argument `beam_width`" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_attention_of_a_model_without_is_told(run_script, no_attention_dir, tmp_path):
    flags = [f"--model_dir={no_attention_dir}", f"--output={tmp_path}/out.txt"]
    done = run_script("translate", *flags, f"--attention_output={tmp_path}/out.jsonl")
    assert done.returncode == 1
    assert (
        "error: --attention_output: Expected a model with attention. Received: "
        f"--model_dir={no_attention_dir}" in done.stderr
    )
    assert list(tmp_path.iterdir()) == []
    done = run_script("translate", *flags, *GREEDY, stdin=b"ein hund\n\n")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.txt").read_text("utf-8").count("\n") == 2
