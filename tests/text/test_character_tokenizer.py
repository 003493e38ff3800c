import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_attn.text import CharacterTokenizer


def test_code_points_by_frequency_and_ties_by_code_point():
    tokenizer = CharacterTokenizer.train(["bab", "é 😀"])
    assert tokenizer.vocabulary[4:] == ["b", " ", "a", "é", "😀"]
    assert tokenizer.tokenize(["a b", "x"]).to_list() == [[6, 5, 4], [1]]


def test_vocabulary_size_counts_the_specials():
    assert CharacterTokenizer.train(["aab"], 5).vocabulary[4:] == ["a"]
    assert CharacterTokenizer.train(["aab"], 6).vocabulary[4:] == ["a", "b"]
    with pytest.raises(ValueError, match=r"`vocabulary_size`.*at most 6.*=7$"):
        CharacterTokenizer.train(["aab"], 7)


def test_combining_marks_are_characters_of_their_own():
    tokenizer = CharacterTokenizer.train(["e\u0301é"])
    assert tokenizer.split("e\u0301é").numpy().tolist() == [
        b"e",
        "\u0301".encode(),
        "é".encode(),
    ]


def test_unknown_characters_show_as_themselves_and_read_as_replacement():
    tokenizer = CharacterTokenizer(["a", "b"])
    assert tokenizer.tokenize("a漢b").numpy().tolist() == [4, 1, 5]
    assert tokenizer.split("a漢b").numpy().tolist() == [b"a", "漢".encode(), b"b"]
    assert tokenizer.detokenize([4, 1, 5]).numpy().decode() == "a\ufffdb"
    assert tokenizer.id_to_token([1]).numpy().tolist() == [b"<unk>"]


def test_white_space_is_kept():
    text = "  a \t\n b\u3000 "
    tokenizer = CharacterTokenizer.train([text])
    assert tokenizer.detokenize(tokenizer.tokenize(text)).numpy().decode() == text


@settings(max_examples=25, deadline=None)
@given(text=st.text(min_size=1, max_size=60))
def test_known_characters_come_back_exactly(text):
    tokenizer = CharacterTokenizer.train([text])
    assert tokenizer.vocabulary_size == len(set(text)) + 4
    ids = tokenizer.tokenize([text])
    assert ids.row_lengths()[0] == len(text)
    assert tokenizer.detokenize(ids)[0].numpy().decode() == text
