"""Saved tokenizers, and what is said about broken ones."""

import json
import os

import pytest

from keras_attn.text import (
    CharacterTokenizer,
    SentencePieceTokenizer,
    WordTokenizer,
    files,
    load_tokenizer,
)

PROBE = ["ein Hund  . ", "漢字 <s> é", ""]


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_a_loaded_tokenizer_is_the_saved_one(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "made" / "here")
    for loaded in (
        load_tokenizer(tmp_path / "made" / "here"),
        type(tokenizer).load(str(tmp_path / "made" / "here")),
    ):
        assert type(loaded) is type(tokenizer)
        assert loaded.vocabulary == tokenizer.vocabulary
        ids = loaded.tokenize(PROBE)
        assert ids.to_list() == tokenizer.tokenize(PROBE).to_list()
        assert loaded.split(PROBE).to_list() == tokenizer.split(PROBE).to_list()
        assert (loaded.detokenize(ids) == tokenizer.detokenize(ids)).numpy().all()


def test_save_load_save_is_byte_identical(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "a")
    load_tokenizer(tmp_path / "a").save(tmp_path / "b")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert len(contents(tmp_path / "a")) == 2


def test_saving_over_another_kind_replaces_it(tokenizers, tmp_path):
    tokenizers["words"].save(tmp_path)
    tokenizers["characters"].save(tmp_path)
    assert isinstance(load_tokenizer(tmp_path), CharacterTokenizer)


def test_options_and_awkward_characters_survive(tmp_path):
    words = WordTokenizer(['"', "\\n", "<s>", "\u200b", "é"], lowercase=True)
    words.save(tmp_path / "words")
    assert load_tokenizer(tmp_path / "words").vocabulary[4:] == words.vocabulary[4:]
    assert load_tokenizer(tmp_path / "words").lowercase is True
    characters = CharacterTokenizer(["\n", "\t", "\r", "\u2028", "\x00", "\x85", " "])
    characters.save(tmp_path / "characters")
    loaded = load_tokenizer(tmp_path / "characters")
    assert loaded.vocabulary[4:] == ["\n", "\t", "\r", "\u2028", "\x00", "\x85", " "]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    WordTokenizer(["alt"]).save(tmp_path)
    before = contents(tmp_path)

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        WordTokenizer(["neu"]).save(tmp_path)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("kind", ["bpe", "words", "characters"])
def test_a_missing_file_is_named(tokenizers, tmp_path, kind):
    with pytest.raises(FileNotFoundError, match=r"not found: .*tokenizer\.json"):
        load_tokenizer(tmp_path / "nowhere")
    tokenizers[kind].save(tmp_path)
    name = "model.spm" if kind == "bpe" else "vocabulary.json"
    (tmp_path / name).unlink()
    with pytest.raises(FileNotFoundError, match=f"not found: .*{name}"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff\xfe", b"[]", b'{"kind": "words"}', b"3"],
)
def test_a_corrupt_config_is_named(tmp_path, content):
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"Corrupt tokenizer file .*tokenizer\.json"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"{}", b'["a", "a"]', b"[]", b"[1, 2]", b'["\xff"]', b'["a"']
)
def test_a_corrupt_vocabulary_is_named(tmp_path, content):
    WordTokenizer(["a"]).save(tmp_path)
    (tmp_path / "vocabulary.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"Corrupt tokenizer file.*vocabulary\.json"):
        load_tokenizer(tmp_path)


def test_a_corrupt_model_is_named(tokenizers, tmp_path):
    tokenizers["bpe"].save(tmp_path)
    model = (tmp_path / "model.spm").read_bytes()
    (tmp_path / "model.spm").write_bytes(model[: len(model) // 2])
    with pytest.raises(ValueError, match=r"Corrupt tokenizer file .*model\.spm"):
        load_tokenizer(tmp_path)


def test_an_option_of_another_version_is_named(tmp_path):
    WordTokenizer(["a"]).save(tmp_path)
    files.write_config(tmp_path, "words", {"stemming": True})
    with pytest.raises(ValueError, match=r"tokenizer\.json: .*'stemming'"):
        load_tokenizer(tmp_path)


def test_another_format_version_is_refused(tmp_path):
    WordTokenizer(["a"]).save(tmp_path)
    config = json.loads((tmp_path / "tokenizer.json").read_text())
    config["format_version"] = 2
    (tmp_path / "tokenizer.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"Expected: 1\. Received: format_version=2"):
        load_tokenizer(tmp_path)


def test_options_that_are_no_object_are_refused(tmp_path):
    files.write_config(tmp_path, "words", [])
    with pytest.raises(ValueError, match=r"Expected `options` to be an object"):
        load_tokenizer(tmp_path)


def test_an_unknown_kind_and_a_wrong_kind_are_refused(tmp_path):
    WordTokenizer(["a"]).save(tmp_path)
    with pytest.raises(ValueError, match=r"'sentencepiece'\. Received: kind='words'"):
        SentencePieceTokenizer.load(tmp_path)
    files.write_config(tmp_path, "morphemes", {})
    with pytest.raises(ValueError, match=r"one of \['characters'.*kind='morphemes'"):
        load_tokenizer(tmp_path)
