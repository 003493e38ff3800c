import json
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_attn
from keras_attn import Translator
from tests.conftest import LINES

BLANKS = ["", " ", "\t\r\n", "\u3000\u00a0\u2009 \u0085"]
OPTIONS = {"beam_width": 3, "max_length": 12}


@pytest.fixture(
    params=["word_translator", "piece_translator", "plain_translator"], scope="module"
)
def translator(request):
    return request.getfixturevalue(request.param)


def same(a, b):
    assert (a.text, a.tokens, a.source_tokens, a.truncated) == (
        b.text,
        b.tokens,
        b.source_tokens,
        b.truncated,
    )
    assert a.score == pytest.approx(b.score, abs=1e-5)
    if a.attention is not None:
        np.testing.assert_allclose(a.attention, b.attention, atol=1e-5)


def test_a_translation_lines_up(translator):
    for translation in translator.translate(LINES, **OPTIONS):
        assert translation.source_tokens[-1] == "</s>"
        assert len(translation.tokens) <= OPTIONS["max_length"]
        assert not {"<s>", "</s>", "<pad>", ""} & set(translation.tokens)
        if translator.model.decoder.attention is None:
            assert translation.attention is None
            continue
        shape = (len(translation.tokens), len(translation.source_tokens))
        assert translation.attention.shape == shape
        np.testing.assert_allclose(translation.attention.sum(-1), 1, atol=1e-5)


def test_a_text_alone_and_in_a_batch_is_one_and_the_same(translator):
    # Two lengths in one batch, and an order that is not that of the lengths.
    texts = [LINES[0], "ein hund", "", LINES[2]]
    together = translator.translate(texts, **OPTIONS)
    for text, translation in zip(texts, together, strict=True):
        same(translator.translate([text], **OPTIONS)[0], translation)
    for i, text in enumerate(texts):
        alone = translator.translate_n_best([text], **OPTIONS)[0]
        among = translator.translate_n_best(texts, **OPTIONS)[i]
        assert len(alone) == len(among)
        for a, b in zip(alone, among, strict=True):
            same(a, b)


def test_blank_texts_have_the_empty_translation(translator):
    for translation in translator.translate(BLANKS, **OPTIONS):
        assert (translation.text, translation.tokens) == ("", [])
        assert translation.source_tokens == []
        assert translation.score == 0
        assert not translation.truncated
    assert [len(n) for n in translator.translate_n_best(BLANKS, **OPTIONS)] == [1] * 4


def test_n_best_are_sorted_and_start_with_the_best(translator):
    [hypotheses] = translator.translate_n_best([LINES[0]], **OPTIONS)
    [best] = translator.translate([LINES[0]], **OPTIONS)
    same(hypotheses[0], best)
    scores = [h.score for h in hypotheses]
    assert scores == sorted(scores, reverse=True)
    assert len({tuple(h.tokens) for h in hypotheses}) == len(hypotheses)


def test_greedy_and_wide_batches(translator):
    translations = translator.translate(
        LINES * 16, beam_width=1, max_length=8, batch_size=64
    )
    assert len(translations) == 64
    same(translations[0], translations[4])


def test_no_text_at_all(translator):
    assert translator.translate([], **OPTIONS) == []
    answer = translator.decode(tf.constant([], tf.string), **OPTIONS)
    assert answer["text"].shape == (0, 3)


def test_a_long_text_is_cut_and_says_so(translator):
    long = "hund " * 2000
    short, cut = translator.translate(["hund", long], **OPTIONS)
    assert not short.truncated
    assert cut.truncated
    assert len(cut.source_tokens) == translator.max_source_length
    assert cut.source_tokens[-1] == "</s>"


def test_a_text_of_just_the_maximum_is_not_cut(word_translator):
    limit = word_translator.max_source_length - 1
    exact, over = word_translator.translate(
        ["hund " * limit, "hund " * (limit + 1)], **OPTIONS
    )
    assert not exact.truncated
    assert over.truncated
    assert exact.source_tokens == over.source_tokens


@pytest.mark.parametrize(
    "text", ["😀👩‍👩‍👧", "ελληνικά", "中文句子", "a\x00b", "e\u0301"]
)
def test_unseen_scripts_are_translated_somehow(translator, text):
    [translation] = translator.translate([text], **OPTIONS)
    assert len(translation.source_tokens) > 1
    assert isinstance(translation.text, str)


def test_source_tokens_show_unknown_words_as_they_are(word_translator):
    [translation] = word_translator.translate(["ein drache rennt"], **OPTIONS)
    assert translation.source_tokens == ["ein", "drache", "rennt", "</s>"]


def test_bytes_that_are_no_utf8_do_not_crash(word_translator):
    text = b"ein \xff hund".decode("utf-8", "surrogateescape")
    [translation] = word_translator.translate([text], **OPTIONS)
    assert translation.source_tokens == ["ein", "\ufffd", "hund", "</s>"]


def test_progress_counts_the_texts(word_translator):
    seen = []
    word_translator.translate(LINES, **OPTIONS, batch_size=3, progress=seen.append)
    assert seen == [3, 4]


def test_one_string_is_refused(word_translator):
    with pytest.raises(TypeError, match="`texts`.*list of str.*one str"):
        word_translator.translate("ein hund")


def test_a_tokenizer_of_another_model_is_refused(word_translator, piece_translator):
    with pytest.raises(ValueError, match="target tokenizer does not fit.*Received: 60"):
        Translator(
            word_translator.model,
            word_translator.source_tokenizer,
            piece_translator.target_tokenizer,
        )


def test_a_bad_option_is_named(word_translator):
    with pytest.raises(ValueError, match="`beam_width`.*beam_width=0"):
        word_translator.translate(["ein"], beam_width=0)
    with pytest.raises(ValueError, match="`max_source_length`"):
        Translator(None, None, None, max_source_length=0)


def test_save_and_load(translator, tmp_path):
    translator.save(tmp_path / "run")
    again = Translator.load(tmp_path / "run")
    assert again.max_source_length == translator.max_source_length
    for a, b in zip(
        again.translate(LINES, **OPTIONS),
        translator.translate(LINES, **OPTIONS),
        strict=True,
    ):
        same(a, b)
    names = sorted(p.name for p in (tmp_path / "run").iterdir())
    assert names == ["config.json", "model.keras", "tokenizers"]


def test_saving_leaves_out_the_optimizer(word_translator, tmp_path):
    word_translator.save(tmp_path / "a")
    size = (tmp_path / "a" / "model.keras").stat().st_size
    word_translator.model.compile("adam", "mse")
    word_translator.model.optimizer.build(word_translator.model.trainable_variables)
    word_translator.save(tmp_path / "b")
    assert (tmp_path / "b" / "model.keras").stat().st_size == pytest.approx(
        size, rel=0.05
    )


@pytest.fixture
def saved(word_translator, tmp_path):
    word_translator.save(tmp_path / "run")
    return tmp_path / "run"


def edit_version(run):
    path = run / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format_version": 99}))


def save_another_model(run):
    inputs = keras.Input((2,))
    keras.Model(inputs, keras.layers.Dense(1)(inputs)).save(run / "model.keras")


@pytest.mark.parametrize(
    ("damage", "error", "message"),
    [
        (shutil.rmtree, FileNotFoundError, "Not a model directory: .*config.json"),
        (
            lambda run: (run / "config.json").write_text("{"),
            ValueError,
            "Corrupt file .*config.json",
        ),
        (edit_version, ValueError, "Expected format version 1. Received: 99"),
        (
            lambda run: (run / "model.keras").unlink(),
            FileNotFoundError,
            "Model file not found: .*model.keras.*saved no model yet",
        ),
        (
            lambda run: (run / "model.keras").write_bytes(b"half"),
            ValueError,
            "Corrupt or foreign model file .*model.keras",
        ),
        (save_another_model, ValueError, "Expected an AttentionSeq2Seq.*Functional"),
        (
            lambda run: shutil.rmtree(run / "tokenizers" / "target"),
            FileNotFoundError,
            "tokenizers/target/tokenizer.json",
        ),
    ],
    ids=["gone", "config", "version", "no-model", "half-model", "other", "tokenizer"],
)
def test_a_damaged_directory_is_named(saved, damage, error, message):
    damage(saved)
    with pytest.raises(error, match=message):
        Translator.load(saved)


def test_a_failed_save_keeps_the_old_model(word_translator, saved, monkeypatch):
    before = (saved / "model.keras").read_bytes()

    def fail(self, path, **kwargs):
        with open(path, "wb") as file:
            file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(type(word_translator.model), "save", fail)
    with pytest.raises(OSError, match="disk full"):
        word_translator.save(saved)
    assert (saved / "model.keras").read_bytes() == before
    assert not list(saved.glob(".tmp*"))


def test_the_package_offers_its_names_lazily():
    assert keras_attn.Translator is Translator
    assert "Translator" in dir(keras_attn)
    with pytest.raises(AttributeError, match="no attribute 'Translater'"):
        keras_attn.Translater  # noqa: B018
