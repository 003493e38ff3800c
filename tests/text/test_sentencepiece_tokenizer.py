import gc
import io

import keras
import pytest
import sentencepiece
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_attn.text import SentencePieceTokenizer

ALPHABET = "abcdeß é漢字😀\t.,\u0301"
TEXT = ["abc de", "ab cd ß é", "漢字 漢字.", "😀 a, e\u0301", "\tabc  bcd  "]


@pytest.fixture(scope="module")
def models():
    return [
        SentencePieceTokenizer.train(TEXT, 26),
        SentencePieceTokenizer.train(TEXT, 22, model_type="unigram"),
        SentencePieceTokenizer.train(TEXT, 280, byte_fallback=True),
    ]


@settings(max_examples=40, deadline=None)
@given(text=st.text(alphabet=ALPHABET, max_size=40))
def test_text_over_seen_characters_comes_back_exactly(models, text):
    for tokenizer in models:
        ids = tokenizer.tokenize(text)
        assert 1 not in ids.numpy()
        assert tokenizer.detokenize(ids).numpy().decode() == text


@settings(max_examples=40, deadline=None)
@given(
    text=st.text(st.characters(codec="utf-8", exclude_characters="\u2581"), max_size=40)
)
def test_any_text_comes_back_exactly_with_byte_fallback(models, text):
    ids = models[2].tokenize(text)
    assert models[2].detokenize(ids).numpy().decode() == text


@pytest.mark.parametrize("text", [" ", "   ", " a", "a ", "  a  b  ", "\ta"])
def test_white_space_is_kept(models, text):
    for tokenizer in models:
        back = tokenizer.detokenize(tokenizer.tokenize(text))
        assert back.numpy().decode() == text


def test_pieces_of_a_merge_learned_from_the_text():
    # "ab" is the only pair seen more than once: the first merge.
    tokenizer = SentencePieceTokenizer.train(["xabyabz"], 11)
    assert tokenizer.vocabulary[4] == "ab"
    assert tokenizer.split("abx").numpy().tolist() == ["▁".encode(), b"ab", b"x"]


def test_the_space_mark_comes_back_as_a_space(models):
    for tokenizer in models:
        back = tokenizer.detokenize(tokenizer.tokenize("a\u2581b"))
        assert back.numpy() == b"a b"


def test_an_unknown_run_is_one_token_that_shows_as_itself(models):
    for tokenizer in models[:2]:
        text = "a кот b"
        ids = tokenizer.tokenize(text).numpy()
        assert list(ids).count(1) == 1
        pieces = [piece.decode() for piece in tokenizer.split(text).numpy()]
        assert pieces[list(ids).index(1)] == "кот"
        assert tokenizer.detokenize(ids).numpy().decode() == "a \u2047 b"
        assert tokenizer.detokenize(tokenizer.tokenize("кот")).numpy() == "⁇".encode()


def test_emoji_and_unseen_scripts_line_up_with_byte_fallback(models):
    text = "👩‍👩‍👧 кот"
    ids, pieces = models[2].tokenize(text), models[2].split(text)
    assert ids.shape == pieces.shape
    assert 1 not in ids.numpy()
    assert pieces.numpy()[1] == b"<0xF0>"


def test_a_piece_inside_a_word_does_not_lose_its_start(models):
    # A hypothesis may begin with a piece that has no space mark.
    for tokenizer in models:
        a, b = (tokenizer.vocabulary.index(piece) for piece in "ab")
        assert tokenizer.detokenize([b, a]).numpy() == b"ba"


def test_training_is_deterministic(lines):
    for model_type, size in (("bpe", 60), ("unigram", 45)):
        first, second = (
            SentencePieceTokenizer.train(lines, size, model_type=model_type)
            for _ in range(2)
        )
        assert first._model == second._model
        assert first.vocabulary_size == size


def test_training_is_quiet(capfd, lines):
    with pytest.raises(ValueError, match="at most"):
        SentencePieceTokenizer.train(lines, 5000)
    output = capfd.readouterr()
    assert output.out == ""
    assert output.err == ""


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_a_vocabulary_the_data_does_not_allow_names_the_most(lines, model_type):
    train = SentencePieceTokenizer.train
    pattern = r"`vocabulary_size`\. Expected at most (\d+).*vocabulary_size=5000$"
    with pytest.raises(ValueError, match=pattern) as caught:
        train(lines, 5000, model_type=model_type)
    most = int(str(caught.value).split("at most ")[1].split(",")[0])
    assert train(lines, most, model_type=model_type).vocabulary_size == most
    with pytest.raises(ValueError, match=f"at most {most},"):
        train(lines, most + 1, model_type=model_type)


def test_a_vocabulary_without_room_for_the_characters_names_the_least():
    # a, b, c, the space mark and the four special tokens
    with pytest.raises(ValueError, match=r"at least 8, one id.*vocabulary_size=6$"):
        SentencePieceTokenizer.train(["abc"], 6)


def test_long_lines_are_trained_on():
    line = "ab " * 3000 + "Z"
    assert len(line) > 4192
    tokenizer = SentencePieceTokenizer.train(["xy", line], 12)
    assert "Z" in tokenizer.vocabulary


def test_lines_with_the_reserved_character_are_trained_on():
    tokenizer = SentencePieceTokenizer.train(["xy", "Q\u2585q"], 10)
    assert {"Q", "q"} < set(tokenizer.vocabulary)
    assert tokenizer.tokenize("\u2585").numpy()[-1] == 1


def test_an_error_in_the_lines_is_raised_as_it_was():
    def lines():
        yield "abc def"
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "line 2 of the file")

    with pytest.raises(UnicodeDecodeError, match="line 2 of the file"):
        SentencePieceTokenizer.train(lines(), 20)


def test_normalization_is_off_unless_asked_for():
    kept = SentencePieceTokenizer.train(["ﬁn ½  x"], 12)
    assert kept.detokenize(kept.tokenize("ﬁ  ½")).numpy().decode() == "ﬁ  ½"
    nfkc = SentencePieceTokenizer.train(["ﬁn x"], 9, normalization="nfkc")
    assert nfkc.detokenize(nfkc.tokenize(" ﬁ   x ")).numpy().decode() == "fi x"


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("model_type", "word", "'bpe', 'unigram'"),
        ("normalization", "nfc", "'identity', 'nfkc', 'nmt_nfkc'"),
        ("character_coverage", 0.0, "greater than 0 and at most 1"),
        ("character_coverage", 1.5, "greater than 0 and at most 1"),
    ],
)
def test_an_unknown_option_value_is_rejected(lines, option, value, expected):
    with pytest.raises(ValueError, match=f"argument `{option}`.*{expected}.*Received"):
        SentencePieceTokenizer.train(lines, 60, **{option: value})


@pytest.mark.parametrize("model", [b"", b"not a model", b"\x0a\xff\xff"])
def test_bytes_that_are_no_model_are_rejected(model):
    with pytest.raises(ValueError, match="argument `model`"):
        SentencePieceTokenizer(model)


def test_a_model_with_other_special_ids_is_rejected(lines):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=45, minloglevel=2
    )
    with pytest.raises(ValueError, match=r"first pieces are.*'<pad>'.*Received"):
        SentencePieceTokenizer(model.getvalue())


def test_ragged_rows_of_either_split_type_are_read(models):
    ids = models[0].tokenize(["a b", "cd"])
    narrow = ids.with_row_splits_dtype(tf.int32)
    assert models[0].detokenize(narrow).numpy().tolist() == [b"a b", b"cd"]


def test_a_tokenizer_outlives_the_kernels_and_others_of_its_model(lines):
    tokenizer = SentencePieceTokenizer.train(lines, 60)
    traced = tf.function(tokenizer.tokenize)
    expected = traced(tf.constant(lines[:1])).to_list()
    other = SentencePieceTokenizer(tokenizer._model)
    assert other.tokenize(lines[:1]).to_list() == expected
    del other
    gc.collect()
    keras.utils.clear_session()
    assert tokenizer.tokenize(lines[:1]).to_list() == expected
    assert tokenizer.detokenize(expected).numpy() == [lines[0].encode()]
    assert traced(tf.constant(lines[:1])).to_list() == expected
