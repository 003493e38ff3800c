import gzip
import json
import logging
import pathlib
import sys

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from keras_attn import Translator

pytest.importorskip(
    "apache_beam", reason="apache-beam is not installed (the extra 'beam')"
)

from apache_beam.io.filesystems import FileSystems

import trainers
from trainers.beam_pipeline import TranslationModelHandler

DECODING = {"beam_width": 2, "max_length": 12, "length_penalty": 0.5}
TWO_WORKERS = ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]
# Blank, unseen, too long for the model, between many that are none of it.
TEXTS = ["abc", "", " \t", "北京 ไทย", "a" * 100, "e\u0301<s></s>"]
TEXTS += ["abcdefgh"[i % 7 :] * (1 + i % 2) for i in range(21)]
LATIN = b"caf\xe9\n"
LONG = b"x" * 1_000_001 + b"\n"


@pytest.fixture(scope="module")
def translator(model_dir):
    return Translator.load(model_dir)


@pytest.fixture(scope="module")
def export_dir(translator, tmp_path_factory):
    """A directory of versions, of which 10 is the latest."""
    directory = tmp_path_factory.mktemp("served")
    translator.export(directory, version=10, **DECODING)
    (directory / "9").mkdir()
    (directory / "notes").mkdir()
    return directory


@pytest.fixture(scope="module")
def model(export_dir):
    return TranslationModelHandler(str(export_dir / "10")).load_model()


@pytest.fixture(autouse=True)
def log_level():
    """The script sets the level of the root logger."""
    level = logging.root.level
    yield
    logging.root.setLevel(level)


@pytest.fixture
def translate(run_script, export_dir, model, monkeypatch, tmp_path):
    """Runs the script on one worker in this process, with the model at hand."""
    monkeypatch.setattr(TranslationModelHandler, "load_model", lambda self: model)

    def translate(*arguments):
        flags = [f"--export_dir={export_dir}", f"--output={tmp_path}/out"]
        return run_script("translate_beam", *flags, *arguments)

    return translate


def write(path, lines):
    content = b"".join(
        line if isinstance(line, bytes) else f"{line}\n".encode() for line in lines
    )
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def parts(directory):
    return sorted(path.name for path in directory.glob("part-*"))


def joined(directory):
    """What `cat directory/part-*` prints."""
    return "".join((directory / name).read_text("utf-8") for name in parts(directory))


def states(directory):
    """What tells whether a file was written anew."""
    stats = {path: path.stat() for path in directory.glob("part-*")}
    return {path: (stat.st_ino, stat.st_mtime_ns) for path, stat in stats.items()}


def test_two_workers_give_the_answers_of_the_translator(
    run_script, export_dir, translator, tmp_path
):
    write(tmp_path / "in-2.txt", TEXTS[9:])
    write(tmp_path / "in-1.gz", TEXTS[:9])
    done = run_script(
        "translate_beam",
        f"--export_dir={export_dir}/10",
        f"--input={tmp_path}/in-*",
        f"--output={tmp_path}/out",
        "--output_format=json",
        "--attention",
        "--gzip",
        "--shard_lines=4",
        "--",
        *TWO_WORKERS,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == (f"27 line(s) in 8 part(s), 8 of them new: {tmp_path}/out\n")
    files = sorted(path.name for path in (tmp_path / "out").iterdir())
    # No shard is of two files: 9 lines are 3 parts, 18 are 5.
    assert files == [*(f"part-0000{i}-of-00008.jsonl.gz" for i in range(8)), "run.json"]
    rows = [
        json.loads(line)
        for name in files[:-1]
        for line in gzip.decompress((tmp_path / "out" / name).read_bytes()).splitlines()
    ]
    assert [row["id"] for row in rows] == list(range(len(TEXTS)))
    expected = translator.translate(TEXTS, **DECODING)
    cut = sum(translation.truncated for translation in expected)
    assert cut
    assert (
        done.stderr == f"warning: {cut} text(s) longer than the model reads were cut\n"
    )
    assert len({translation.text for translation in expected}) > 5
    for row, translation in zip(rows, expected, strict=True):
        assert row["text"] == translation.text
        assert row["tokens"] == translation.tokens
        assert row["source_tokens"] == translation.source_tokens
        assert row["score"] == pytest.approx(translation.score, abs=1e-5)
        assert row["truncated"] == translation.truncated
        matrix = np.reshape(row["attention"], translation.attention.shape)
        np.testing.assert_allclose(matrix, translation.attention, atol=1e-5)


def test_each_line_has_its_line_and_dead_letters_an_empty_one(
    translate, translator, tmp_path
):
    lines = [b"\xef\xbb\xbfabc\r\n", LATIN, "gh", LONG, "", "hgf", b"bc\xff\xfe"]
    write(tmp_path / "in.txt", lines)
    done = translate(f"--input={tmp_path}/in.txt", "--shard_lines=3")
    assert done.returncode == 3
    assert done.stdout == f"7 line(s) in 3 part(s), 3 of them new: {tmp_path}/out\n"
    assert done.stderr == (
        f"warning: 3 line(s) could not be translated: {tmp_path}/out/dead-*.jsonl\n"
    )
    abc, gh, hgf = (
        t.text for t in translator.translate(["abc", "gh", "hgf"], **DECODING)
    )
    assert joined(tmp_path / "out") == "".join(
        f"{text}\n" for text in [abc, "", gh, "", "", hgf, ""]
    )
    dead = sorted((tmp_path / "out").glob("dead-*"))
    assert [path.name for path in dead] == [
        f"dead-0000{i}-of-00003.jsonl" for i in range(3)
    ]
    letters = [json.loads(line) for path in dead for line in path.open()]
    place = {"file": str(tmp_path / "in.txt")}
    assert letters == [
        {
            **{"id": 1, **place, "line": 2, "text": "caf\\xe9"},
            "reason": "Invalid UTF-8: unexpected end of data at byte 4 of the line",
        },
        {
            **{"id": 3, **place, "line": 4, "text": "x" * 1000},
            "reason": "Line too long. Expected at most 1000000 bytes",
        },
        {
            **{"id": 6, **place, "line": 7, "text": "bc\\xff\\xfe"},
            "reason": "Invalid UTF-8: invalid start byte at byte 3 of the line",
        },
    ]
    # They are still told when there is nothing left to do.
    assert translate(f"--input={tmp_path}/in.txt", "--shard_lines=3").returncode == 3


def test_json_has_an_object_for_a_line_that_failed(translate, translator, tmp_path):
    write(tmp_path / "in.txt", [LATIN, "gh"])
    done = translate(f"--input={tmp_path}/in.txt", "--output_format=json")
    assert done.returncode == 3
    failed, row = map(json.loads, joined(tmp_path / "out").splitlines())
    reason = "Invalid UTF-8: unexpected end of data at byte 4 of the line"
    assert failed == {"id": 0, "text": "", "error": reason}
    [translation] = translator.translate(["gh"], **DECODING)
    assert row == {
        "id": 1,
        "text": translation.text,
        "tokens": translation.tokens,
        "source_tokens": translation.source_tokens,
        "score": pytest.approx(translation.score, abs=1e-5),
        "truncated": False,
    }


def test_only_what_is_missing_is_done_again(translate, tmp_path):
    source = write(tmp_path / "in.txt", TEXTS)
    output = tmp_path / "out"
    flags = [f"--input={source}", "--shard_lines=5"]
    assert translate(*flags).returncode == 0
    whole, before = joined(output), states(output)
    assert len(before) == 6
    # One is lost and one, as after a power cut, lacks its end.
    (output / "part-00001-of-00006.txt").unlink()
    cut = output / "part-00003-of-00006.txt"
    cut.write_bytes(cut.read_bytes()[:-1])
    done = translate(*flags)
    assert done.returncode == 0
    assert done.stdout == f"27 line(s) in 6 part(s), 2 of them new: {output}\n"
    assert joined(output) == whole
    after = states(output)
    assert {path.name[:10] for path in after if after[path] != before[path]} == {
        "part-00001",
        "part-00003",
    }
    assert ", 0 of them new: " in translate(*flags).stdout
    assert states(output) == after


def test_a_run_that_is_interrupted_goes_on(translate, monkeypatch, tmp_path):
    source = write(tmp_path / "in.txt", [*TEXTS[:8], LATIN])
    output = tmp_path / "out"
    flags = [f"--input={source}", "--shard_lines=3"]
    rename, renamed = FileSystems.rename, []

    def rename_or_fail(sources, targets):
        if len(renamed) == 3:  # run.json, and two parts
            raise OSError("No space left on device")
        renamed.extend(targets)
        rename(sources, targets)

    monkeypatch.setattr(FileSystems, "rename", rename_or_fail)
    done = translate(*flags)
    assert done.returncode == 1
    assert "error: No space left on device" in done.stderr
    before = states(output)
    unfinished = list((output / ".unfinished").iterdir())
    assert 1 <= len(before) <= 2
    assert len(unfinished) == 1
    monkeypatch.setattr(FileSystems, "rename", rename)
    done = translate(*flags)
    assert done.returncode == 3
    assert f" {3 - len(before)} of them new" in done.stdout
    assert states(output).items() >= before.items()
    assert joined(output).count("\n") == 9
    assert not (output / ".unfinished").exists()


def test_a_directory_of_another_run_is_left_alone(translate, tmp_path):
    source = write(tmp_path / "in.txt", ["abc", "gh"])
    output = tmp_path / "out"
    assert translate(f"--input={source}").returncode == 0
    before = states(output)
    expected = (
        "error: --output: Expected a new directory, or that of the same run. Received: "
        f"{output}, which has "
    )
    done = translate(f"--input={source}", "--shard_lines=1", "--output_format=json")
    assert done.returncode == 1
    assert (
        done.stderr == f"{expected}a run.json of another output_format, shard_lines\n"
    )
    write(source, ["abc", "hg"])
    done = translate(f"--input={source}")
    assert done.stderr == f"{expected}a run.json of another files\n"
    (output / "run.json").write_text("")  # as after a power cut
    done = translate(f"--input={source}")
    assert done.stderr.startswith(f"{expected}a corrupt run.json (")
    (output / "run.json").unlink()
    done = translate(f"--input={source}")
    assert done.stderr == f"{expected}parts but no run.json\n"
    assert states(output) == before


def test_another_model_is_another_run(translate, export_dir, tmp_path, monkeypatch):
    class Fingerprint:
        def singleprint(self):
            return "another"

    source = write(tmp_path / "in.txt", ["abc"])
    assert translate(f"--input={source}").returncode == 0
    monkeypatch.setattr(
        tf.saved_model.experimental, "read_fingerprint", lambda path: Fingerprint()
    )
    done = translate(f"--input={source}")
    assert done.returncode == 1
    assert done.stderr.endswith("which has a run.json of another model\n")


def test_no_line_gives_a_part_without_a_line(translate, tmp_path):
    source = write(tmp_path / "in.txt", [])
    done = translate(f"--input={source}")
    assert done.returncode == 0
    assert parts(tmp_path / "out") == ["part-00000-of-00001.txt"]
    assert joined(tmp_path / "out") == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--attention"], "--attention: Expected --output_format=json. Received: text"),
        (["--input={tmp}/none"], "File not found: {tmp}/none"),
        (["--input={tmp}/*.none"], "File not found: {tmp}/*.none"),
        (["--input={tmp}"], "Cannot read {tmp}: Is a directory"),
        (["--input={tmp}/no.gz"], "Not a whole gzip file: {tmp}/no.gz (Not a gzipped"),
        (["--input={tmp}/cut.gz"], "Not a whole gzip file: {tmp}/cut.gz (Compressed"),
        (
            ["--output={tmp}/in.txt"],
            "--output: Expected a directory that can be written to. Received: "
            "{tmp}/in.txt; {tmp}/in.txt is not a directory",
        ),
        (
            ["--export_dir={tmp}/none"],
            "--export_dir: Expected what trainers.export wrote, such as a version "
            "{tmp}/none/1. Received: {tmp}/none, which has no version",
        ),
        (["--export_dir={tmp}/bad"], "--export_dir: Cannot read {tmp}/bad/1/saved_mod"),
        (
            ["--export_dir={tmp}/other"],
            "--export_dir: Expected a signature serving_default with the outputs text, "
            "tokens, lengths, score, source_tokens, source_lengths, source_truncated. "
            "Received: {tmp}/other/1, which lacks text, tokens, lengths, score, ",
        ),
        (["--runner=NoRunner"], "Unexpected pipeline runner: NoRunner. Valid values"),
        (
            ["--", "--direct_num_worker=2"],
            "Expected options of Beam's DirectRunner after --. Received: "
            "--direct_num_worker",
        ),
    ],
)
def test_flags_that_make_no_sense_are_told_before_any_work(
    arguments, message, translate, tmp_path
):
    write(tmp_path / "in.txt", ["abc"])
    write(tmp_path / "cut.gz", ["abc"])
    (tmp_path / "cut.gz").write_bytes((tmp_path / "cut.gz").read_bytes()[:-3])
    (tmp_path / "no.gz").write_text("abc\n")
    for name, content in (("bad", b"\xff"), ("other", b"")):
        (tmp_path / name / "1").mkdir(parents=True)
        (tmp_path / name / "1" / "saved_model.pb").write_bytes(content)
    done = translate(
        f"--input={tmp_path}/in.txt", *(a.format(tmp=tmp_path) for a in arguments)
    )
    assert done.returncode == 1
    assert f"error: {message.format(tmp=tmp_path)}" in done.stderr
    assert not pathlib.Path(tmp_path, "out").exists()


def test_attention_of_a_model_without_is_told(translate, export_dir, tmp_path):
    write(tmp_path / "in.txt", ["abc"])
    content = (export_dir / "10" / "saved_model.pb").read_bytes()
    saved_model = saved_model_pb2.SavedModel.FromString(content)
    for meta_graph in saved_model.meta_graphs:
        del meta_graph.signature_def["serving_default"].outputs["attention"]
    (tmp_path / "saved_model.pb").write_bytes(saved_model.SerializeToString())
    flags = [f"--input={tmp_path}/in.txt", f"--export_dir={tmp_path}"]
    done = translate(*flags, "--output_format=json", "--attention")
    assert done.returncode == 1
    assert "error: --export_dir: Expected a signature serving_default with" in (
        done.stderr
    )
    assert done.stderr.endswith(f"Received: {tmp_path}, which lacks attention\n")
    assert not (tmp_path / "out").exists()


def test_a_missing_package_is_named(run_script, monkeypatch, tmp_path):
    for name in ("beam_pipeline", "beam_shards"):
        monkeypatch.delitem(sys.modules, f"trainers.{name}")
        monkeypatch.delattr(trainers, name)
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    done = run_script("translate_beam", "--export_dir=a", "--input=b", "--output=c")
    assert done.returncode == 1
    assert (
        "error: trainers.translate_beam needs the package apache-beam (" in done.stderr
    )
    assert done.stderr.endswith("it with: pip install 'keras_attn[beam]'\n")
