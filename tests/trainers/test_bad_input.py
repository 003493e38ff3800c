"""What a stranger can get wrong, told so that it can be mended."""

import json
import shutil

import pytest

FILES = {
    "two": b"ab\ncd\n",
    "three": b"ab\ncd\nef\n",
    "empty": b"",
    "latin": b"ab\nc\xe4\n",
    "long": b"ab\n" + b"x" * 1_000_001 + b"\n",
    "pairs": b"ab\tba\nbc\tcb\n",
    "one_column": b"ab\tba\nbc\n",
    "many": "".join(f"{'abc' * i}\t{'cba' * i}\n" for i in range(4, 9)).encode(),
    "blank": b"\t\n\t\n",
}
CHARACTERS = [
    "--source_tokenizer=character",
    "--target_tokenizer=character",
    "--source_vocabulary_size=0",
    "--target_vocabulary_size=0",
]
TSV = ["--train_tsv={tmp}/pairs", "--valid_tsv={tmp}/pairs"]


@pytest.fixture
def train(run_script, tmp_path):
    """Trains on the files; nothing may come of it."""
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)

    def train(*flags):
        done = run_script(
            "train_translation",
            f"--model_dir={tmp_path}/run",
            *(flag.format(tmp=tmp_path) for flag in flags),
        )
        assert done.returncode == 1
        assert not (tmp_path / "run").exists()
        return done.stderr.replace(str(tmp_path), "{tmp}")

    return train


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (
            "three",
            "two",
            "Source and target differ in their number of lines. Received: {tmp}/three: "
            "3 lines, {tmp}/two: 2 lines",
        ),
        ("none", "two", "File not found: {tmp}/none"),
        ("two", "empty", "Empty file: {tmp}/empty. Expected at least one line"),
        (
            "latin",
            "two",
            "Invalid UTF-8 in {tmp}/latin, line 2: unexpected end of data at byte 2 of "
            "the line",
        ),
        (
            "two",
            "long",
            "Line too long in {tmp}/long, line 2. Expected at most 1000000 bytes",
        ),
    ],
)
@pytest.mark.parametrize("split", ["train", "valid"])
def test_files_that_cannot_be_used(split, source, target, message, train):
    files = {"train": ("two", "two"), "valid": ("two", "two"), split: (source, target)}
    flags = [
        f"--{name}_{side}={{tmp}}/{file}"
        for name, pair in files.items()
        for side, file in zip(("source", "target"), pair, strict=True)
    ]
    assert f"error: {message}" in train(*CHARACTERS, *flags)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            ["--train_tsv={tmp}/pairs"],
            "Expected either --valid_source and --valid_target, or --valid_tsv. "
            "Received: --valid_source=None --valid_target=None --valid_tsv=None",
        ),
        (
            [*TSV, "--train_source={tmp}/two"],
            "Expected either --train_source and --train_target, or --train_tsv. "
            "Received: --train_source={tmp}/two --train_target=None "
            "--train_tsv={tmp}/pairs",
        ),
        (
            ["--train_tsv={tmp}/one_column", "--valid_tsv={tmp}/pairs"],
            "Too few columns in {tmp}/one_column, line 2. Expected at least 2 "
            "tab-separated columns. Received: 1",
        ),
        (
            [*TSV, "--target_vocabulary_size=8"],
            "No target tokenizer can be trained with --target_tokenizer=character "
            "--target_vocabulary_size=8: Invalid value for argument `vocabulary_size`. "
            "Expected at most 7, the most that the training data allows",
        ),
        (
            [*TSV, "--source_tokenizer=sentencepiece", "--source_vocabulary_size=900"],
            "No source tokenizer can be trained with --source_tokenizer=sentencepiece "
            "--source_vocabulary_size=900: Invalid value for argument "
            "`vocabulary_size`. Expected at most ",
        ),
        (
            [*TSV, "--source_tokenizer=sentencepiece"],
            "--source_vocabulary_size=0 takes every word or character; SentencePiece "
            "needs a number.",
        ),
        (
            ["--train_tsv={tmp}/blank", "--valid_tsv={tmp}/pairs"],
            "No source tokenizer can be trained with --source_tokenizer=character "
            "--source_vocabulary_size=0: Invalid value for argument `lines`. Expected "
            "at least one line of text to train on",
        ),
        (
            [
                "--train_tsv={tmp}/many",
                "--valid_tsv={tmp}/pairs",
                "--max_source_length=9",
            ],
            "None of the 5 pairs can be trained on: 0 have a side without a token, 5 "
            "are longer than max_source_length=9",
        ),
        (
            [*TSV, "--warmup_steps=40"],
            "Invalid value for argument `warmup_steps`. Expected fewer than the 20 "
            "steps of the whole training. Received: warmup_steps=40",
        ),
    ],
)
def test_flags_that_do_not_fit_the_data(flags, message, train):
    assert f"error: {message}" in train(*CHARACTERS, *flags)


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--rnn=elman", "flag --rnn=elman: value should be one of <gru|lstm>"),
        ("--attention=all", "--attention=all: value should be one of <bahdanau|luong_"),
        (
            "--bleu_tokenize=14a",
            "--bleu_tokenize=14a: value should be one of <none|zh|",
        ),
        ("--epochs=0", "flag --epochs=0: 0 is not a positive integer"),
        ("--dropout=1.5", "flag --dropout=1.5: 1.5 is not a number in the range [0.0,"),
        ("--batch_size=many", "flag --batch_size=many: invalid literal for int()"),
        ("--seed=-1", "flag --seed=-1: -1 is not an integer in the range [0, "),
    ],
)
def test_flag_values_that_are_unknown(flag, message, train):
    assert message in train(flag)


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_file_in_the_place_of_the_model_dir(place, run_script, tmp_path):
    (tmp_path / "file").write_text("mine")
    done = run_script("train_translation", f"--model_dir={tmp_path}/{place}")
    assert done.returncode == 1
    assert (
        "error: --model_dir: Expected a directory that can be written to. Received: "
        f"{tmp_path}/{place}; {tmp_path}/file is not a directory" in done.stderr
    )
    assert (tmp_path / "file").read_text() == "mine"


def cut(path):
    path.write_bytes(path.read_bytes()[:-100])


def other_version(path):
    path.write_text(json.dumps({"format_version": 2, "max_source_length": 12}))


def other_tokenizer_version(path):
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "format_version": 9}))


def no_json(path):
    path.write_text("{")


def no_object(path):
    path.write_text("[1]")


def remove(path):
    path.unlink()


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            "config.json",
            remove,
            "Not a model directory: {dir} holds no config.json. Expected the "
            "--model_dir of a training run",
        ),
        ("config.json", no_json, "Corrupt file {dir}/config.json: "),
        ("config.json", no_object, "Corrupt file {dir}/config.json: "),
        (
            "config.json",
            other_version,
            "Unsupported model directory {dir}. Expected format version 1. Received: 2",
        ),
        ("model.keras", remove, "Model file not found: {dir}/model.keras. "),
        ("model.keras", cut, "Corrupt or foreign model file {dir}/model.keras: "),
        ("model.keras", no_json, "Corrupt or foreign model file {dir}/model.keras: "),
        (
            "tokenizers/source/tokenizer.json",
            remove,
            "Tokenizer file not found: {dir}/tokenizers/source/tokenizer.json",
        ),
        (
            "tokenizers/target/tokenizer.json",
            other_tokenizer_version,
            "Unsupported format version in {dir}/tokenizers/target/tokenizer.json. "
            "Expected: 1. Received: format_version=9",
        ),
        (
            "tokenizers/target/vocabulary.json",
            remove,
            "Tokenizer file not found: {dir}/tokenizers/target/vocabulary.json",
        ),
        (
            "tokenizers/target/vocabulary.json",
            no_json,
            "Corrupt tokenizer file {dir}/tokenizers/target/vocabulary.json: ",
        ),
    ],
)
def test_a_model_dir_that_is_half_written_or_foreign(
    name, change, message, run_script, model_dir, tmp_path
):
    directory, output = tmp_path / "run", tmp_path / "out.txt"
    shutil.copytree(model_dir, directory)
    change(directory / name)
    output.write_text("old\n")
    done = run_script(
        "translate", f"--model_dir={directory}", f"--output={output}", stdin=b"ab\n"
    )
    assert done.returncode == 1
    assert f"error: {message.format(dir=directory)}" in done.stderr
    assert done.stdout == ""
    assert output.read_text() == "old\n"
    assert {path.name for path in tmp_path.iterdir()} == {"run", "out.txt"}


@pytest.mark.parametrize(
    ("script", "flags"),
    [
        ("evaluate", ["--tsv={tmp}/pairs", "--hypotheses={tmp}/out"]),
        ("export", ["--export_dir={tmp}/out"]),
        ("plot_attention", ["--text=ab", "--output={tmp}/out.png"]),
    ],
)
def test_a_model_dir_that_is_none_is_told_by_every_script(
    script, flags, run_script, tmp_path
):
    (tmp_path / "pairs").write_bytes(FILES["pairs"])
    flags = [flag.format(tmp=tmp_path) for flag in flags]
    done = run_script(script, f"--model_dir={tmp_path}/none", *flags)
    assert done.returncode == 1
    assert (
        f"error: Not a model directory: {tmp_path}/none holds no config.json."
        in done.stderr
    )
    assert done.stdout == ""
    assert [path.name for path in tmp_path.iterdir()] == ["pairs"]
