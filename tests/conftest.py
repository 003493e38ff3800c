"""Small translators that several test folders share. Untrained: what they say is
nonsense, but nonsense of the right shape."""

import hypothesis
import keras
import pytest

# The same examples in every run, and nothing kept between runs.
hypothesis.settings.register_profile("fixed", derandomize=True, database=None)
hypothesis.settings.load_profile("fixed")

LINES = [
    "ein hund rennt über die wiese .",
    "zwei männer sitzen auf einer bank .",
    "eine frau liest ein buch .",
    "kinder spielen im park .",
]


def make_translator(kind: str, attention="bahdanau", max_source_length=20, **options):
    from keras_attn import Translator, text
    from keras_attn.models import AttentionSeq2Seq

    keras.utils.set_random_seed(0)
    if kind == "sentencepiece":
        tokenizer = text.SentencePieceTokenizer.train(LINES, 60)
    elif kind == "word":
        tokenizer = text.WordTokenizer.train(LINES, None)
    else:
        tokenizer = text.CharacterTokenizer.train(LINES, None)
    size = tokenizer.vocabulary_size
    model = AttentionSeq2Seq(size, size, 12, 8, 12, attention=attention, **options)
    return Translator(model, tokenizer, tokenizer, max_source_length)


@pytest.fixture(scope="session")
def word_translator():
    return make_translator("word")


@pytest.fixture(scope="session")
def piece_translator():
    return make_translator("sentencepiece", "luong_general", attend="after")


@pytest.fixture(scope="session")
def plain_translator():
    """A character model without attention."""
    return make_translator("character", None, rnn="lstm")
