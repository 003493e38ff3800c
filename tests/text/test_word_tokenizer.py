import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_attn.text import WordTokenizer


def test_most_frequent_words_come_first_and_ties_go_by_code_point():
    tokenizer = WordTokenizer.train(["b a c b", "Z é b a \U0001f600 z"])
    assert tokenizer.vocabulary[4:] == ["b", "a", "Z", "c", "z", "é", "😀"]
    assert tokenizer.tokenize(["a b  z", "q"]).to_list() == [[5, 4, 8], [1]]


def test_vocabulary_size_counts_the_specials():
    tokenizer = WordTokenizer.train(["b a c b a b"], 6)
    assert tokenizer.vocabulary == ["<pad>", "<unk>", "<s>", "</s>", "b", "a"]
    assert WordTokenizer.train(["b a c"], 7).vocabulary_size == 7
    assert WordTokenizer.train(["b a c"], None).vocabulary_size == 7


def test_a_vocabulary_larger_than_the_data_names_the_most():
    with pytest.raises(ValueError, match=r"`vocabulary_size`.*at most 7.*=8$"):
        WordTokenizer.train(["b a c"], 8)


def test_lines_past_the_first_chunk_count():
    tokenizer = WordTokenizer.train(["a"] * 5000 + ["b"] * 6000)
    assert tokenizer.vocabulary[4:] == ["b", "a"]


def test_unknown_words_show_as_themselves_and_read_as_unk():
    tokenizer = WordTokenizer(["ein", "Hund"])
    text = "ein Dachshund"
    assert tokenizer.split(text).numpy().tolist() == [b"ein", b"Dachshund"]
    assert tokenizer.tokenize(text).numpy().tolist() == [4, 1]
    assert tokenizer.detokenize([4, 1]).numpy() == b"ein <unk>"


def test_words_spelled_like_specials_are_words():
    unseen = WordTokenizer(["ein"])
    assert unseen.tokenize("<s> <pad> </s> <unk>").numpy().tolist() == [1, 1, 1, 1]
    seen = WordTokenizer(["<s>", "<unk>"])
    assert seen.tokenize("<unk> <s> <s>").numpy().tolist() == [5, 4, 4]
    assert seen.detokenize([2, 4, 5, 3]).numpy() == b"<s> <unk>"


def test_every_unicode_white_space_separates_in_training_and_after():
    spaces = [chr(c) for c in range(0x110000) if chr(c).isspace()]
    assert len(spaces) == 29
    line = "".join(f"w{i}{space}" for i, space in enumerate(spaces))
    tokenizer = WordTokenizer.train([line])
    assert set(tokenizer.vocabulary[4:]) == {f"w{i}" for i in range(29)}
    assert 1 not in tokenizer.tokenize(line).numpy()
    assert tokenizer.tokenize("".join(spaces)).shape == [0]
    joiners = "a\u200bb\u200dc\u2060d\ufeffe"
    assert tokenizer.split(joiners).numpy().tolist() == [joiners.encode()]


def test_lowercase_is_applied_in_training_and_after():
    tokenizer = WordTokenizer.train(["Ein ein ÜBER Straße"], lowercase=True)
    assert tokenizer.vocabulary[4:] == ["ein", "straße", "über"]
    assert tokenizer.tokenize("EIN Über").numpy().tolist() == [4, 6]
    assert tokenizer.split("Ein X").numpy().tolist() == [b"ein", b"x"]


WORDS = st.text(min_size=1, max_size=8).filter(
    lambda word: not any(character.isspace() for character in word)
)


@settings(max_examples=25, deadline=None)
@given(words=st.lists(WORDS, min_size=1, max_size=12))
def test_known_words_with_single_spaces_come_back_exactly(words):
    text = " ".join(words)
    tokenizer = WordTokenizer.train([text])
    ids = tokenizer.tokenize([text])
    assert ids.row_lengths()[0] == len(words)
    assert tokenizer.detokenize(ids)[0].numpy().decode() == text


@pytest.mark.parametrize("tokens", [[], ["a", "b", "a"], ["a", 3]])
def test_tokens_that_are_no_vocabulary_are_rejected(tokens):
    with pytest.raises(ValueError, match="argument `tokens`"):
        WordTokenizer(tokens)
