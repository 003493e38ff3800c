"""What every kind of tokenizer promises."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_attn.text import Tokenizer, WordTokenizer

DIFFICULT = [
    "",
    " ",
    " \t \u3000 ",
    "ein Hund",
    "  ein   Hund ",
    "😀😀😀",
    "ein 😀 Hund 👩‍👩‍👧",
    "漢字かな交じり文",
    "Ελληνικά кириллица עברית",
    "e\u0301\u0301 n\u0303",
    "a\u2581b \u2585 \ufffd \ufeffx",
    "<s> </s> <pad> <unk>",
    "\x00\x07 a\nb\r\nc\u2028d",
]


def test_the_special_ids_and_tokens_are_fixed(tokenizer):
    assert tokenizer.vocabulary[:4] == ["<pad>", "<unk>", "<s>", "</s>"]
    assert (tokenizer.PAD_ID, tokenizer.UNK_ID) == (0, 1)
    assert (tokenizer.BOS_ID, tokenizer.EOS_ID) == (2, 3)
    assert tokenizer.vocabulary_size == len(tokenizer.vocabulary)


def test_tokenize_gives_ragged_int32_for_a_list_and_a_vector_for_a_string(tokenizer):
    batch = tokenizer.tokenize(["ein Hund", "", "der Ball ."])
    assert isinstance(batch, tf.RaggedTensor)
    assert batch.dtype == tf.int32
    assert batch.row_lengths()[1] == 0
    single = tokenizer.tokenize("ein Hund")
    assert single.shape.rank == 1
    assert single.dtype == tf.int32
    np.testing.assert_array_equal(single, batch[0])


def test_tokenize_and_split_take_no_text_at_all(tokenizer):
    assert tokenizer.tokenize([]).to_list() == []
    assert tokenizer.split([]).to_list() == []
    assert tokenizer.tokenize("").shape == [0]


@pytest.mark.parametrize("text", [[["a"]], [["a", "b"], ["c", "d"]]])
def test_text_of_rank_two_is_rejected(tokenizer, text):
    message = r"Invalid value for argument `text`\. Expected a string or a list"
    with pytest.raises(ValueError, match=message):
        tokenizer.tokenize(text)
    with pytest.raises(ValueError, match=message):
        tokenizer.split(text)


def test_difficult_text_gives_ids_in_range_without_specials(tokenizer):
    ids = tokenizer.tokenize(DIFFICULT).flat_values.numpy()
    assert not set(ids) & {0, 2, 3}
    assert ids.min() >= 1
    assert ids.max() < tokenizer.vocabulary_size


def test_split_lines_up_with_tokenize_on_difficult_text(tokenizer):
    ids, pieces = tokenizer.tokenize(DIFFICULT), tokenizer.split(DIFFICULT)
    assert pieces.dtype == tf.string
    np.testing.assert_array_equal(ids.row_lengths(), pieces.row_lengths())
    known = ids.flat_values != tokenizer.UNK_ID
    np.testing.assert_array_equal(
        tf.boolean_mask(pieces.flat_values, known),
        tf.boolean_mask(tokenizer.id_to_token(ids.flat_values), known),
    )
    assert tokenizer.split("ein").shape.rank == 1


@settings(max_examples=25, deadline=None)
@given(text=st.text(max_size=60))
def test_any_text_lines_up_and_stays_clear_of_specials(tokenizers, text):
    for tokenizer in tokenizers.values():
        ids, pieces = tokenizer.tokenize(text), tokenizer.split(text)
        assert ids.shape == pieces.shape
        assert not set(ids.numpy()) & {0, 2, 3}


@settings(max_examples=25, deadline=None)
@given(data=st.binary(max_size=60))
def test_any_bytes_are_read_as_utf8_with_replacement(tokenizers, data):
    decoded = tf.strings.unicode_transcode(data, "UTF-8", "UTF-8").numpy()
    for tokenizer in tokenizers.values():
        np.testing.assert_array_equal(
            tokenizer.tokenize(data), tokenizer.tokenize(decoded)
        )
        back = tokenizer.detokenize(tokenizer.tokenize(data)).numpy()
        assert b"".join(tf.strings.unicode_split(back, "UTF-8").numpy()) == back


def test_invalid_bytes_read_as_the_replacement_character(tokenizer):
    np.testing.assert_array_equal(
        tokenizer.split(b"\xffa\xc3").numpy(), tokenizer.split("\ufffda\ufffd").numpy()
    )


def test_ten_thousand_characters(tokenizer):
    text = "ein Hund und der Ball . " * 417
    assert len(text) > 10_000
    back = tokenizer.detokenize(tokenizer.tokenize([text]))[0].numpy().decode()
    if isinstance(tokenizer, WordTokenizer):
        text = text.strip()
    assert back == text


def test_detokenize_leaves_out_pad_and_sentence_marks_only(tokenizer):
    ids = tokenizer.tokenize("ein Hund").numpy()
    marked = [2, *ids, 3, 0, 0]
    assert tokenizer.detokenize(marked).numpy() == b"ein Hund"
    assert tokenizer.detokenize([2, 3, 0]).numpy() == b""


def test_detokenize_takes_ragged_and_dense_of_any_rank(tokenizer):
    texts = ["ein Hund", "", "der Ball"]
    expected = [text.encode() for text in texts]
    ragged = tokenizer.tokenize(texts)
    dense = ragged.to_tensor()
    assert tokenizer.detokenize(ragged).numpy().tolist() == expected
    assert tokenizer.detokenize(dense).numpy().tolist() == expected
    assert tokenizer.detokenize(tf.cast(dense, tf.int64)).shape == [3]
    hypotheses = tf.stack([dense, dense[::-1]], axis=1)
    assert tokenizer.detokenize(hypotheses).numpy().tolist() == [
        [expected[0], expected[2]],
        [expected[1], expected[1]],
        [expected[2], expected[0]],
    ]


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (2, 3, 0), (0,)])
def test_detokenize_takes_empty_tensors(tokenizer, shape):
    text = tokenizer.detokenize(tf.zeros(shape, tf.int32))
    assert text.shape == shape[:-1]
    assert set(text.numpy().ravel() if shape[:-1] else [text.numpy()]) <= {b""}


def test_detokenize_rejects_a_scalar(tokenizer):
    with pytest.raises(ValueError, match=r"argument `ids`.*rank, at least 1"):
        tokenizer.detokenize(4)


def test_ids_outside_the_vocabulary_read_as_unknown(tokenizer):
    outside = [[-1, tokenizer.vocabulary_size, 2_000_000]]
    unknown = [[1, 1, 1]]
    assert tokenizer.id_to_token(outside).numpy().tolist() == [[b"<unk>"] * 3]
    np.testing.assert_array_equal(
        tokenizer.detokenize(outside), tokenizer.detokenize(unknown)
    )


def test_id_to_token_keeps_the_shape(tokenizer):
    ids = tf.reshape(tf.range(12), [2, 3, 2])
    tokens = tokenizer.id_to_token(ids)
    assert tokens.shape == [2, 3, 2]
    flat = [token.decode() for token in tokens.numpy().ravel()]
    assert flat == tokenizer.vocabulary[:12]
    assert tokenizer.id_to_token(2).numpy() == b"<s>"
    ragged = tokenizer.id_to_token(tf.ragged.constant([[3], [], [0, 1]]))
    assert ragged.to_list() == [[b"</s>"], [], [b"<pad>", b"<unk>"]]


def test_every_method_works_inside_a_function(tokenizer):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def run(text):
        ids = tokenizer.tokenize(text)
        dense = ids.to_tensor()
        return (
            ids,
            tokenizer.split(text),
            tokenizer.detokenize(dense),
            tokenizer.id_to_token(dense),
        )

    ids, pieces, text, tokens = run(tf.constant(DIFFICULT))
    eager = tokenizer.tokenize(DIFFICULT)
    assert ids.to_list() == eager.to_list()
    assert pieces.to_list() == tokenizer.split(DIFFICULT).to_list()
    np.testing.assert_array_equal(text, tokenizer.detokenize(eager))
    np.testing.assert_array_equal(tokens, tokenizer.id_to_token(eager.to_tensor()))


def test_the_base_class_cannot_be_made():
    with pytest.raises(TypeError, match="abstract"):
        Tokenizer([])


@pytest.mark.parametrize("lines", [[], [""], iter(())])
def test_training_without_text_says_so(tokenizer, lines):
    message = r"argument `lines`\. Expected at least one line of text"
    with pytest.raises(ValueError, match=message):
        type(tokenizer).train(lines, vocabulary_size=10)


def test_training_on_one_string_says_what_is_expected(tokenizer):
    with pytest.raises(ValueError, match=r"`lines`.*iterable.*type str"):
        type(tokenizer).train("ein Hund", vocabulary_size=10)


@pytest.mark.parametrize("size", [4, 0, -1, 2.5, "8000"])
def test_a_vocabulary_size_that_is_no_size_is_rejected(tokenizer, lines, size):
    with pytest.raises(ValueError, match=r"`vocabulary_size`.*at least 5.*Received"):
        type(tokenizer).train(lines, vocabulary_size=size)
