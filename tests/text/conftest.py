"""Tokenizers the tests of this folder share."""

import pytest

from keras_attn.text import (
    CharacterTokenizer,
    SentencePieceTokenizer,
    WordTokenizer,
)

LINES = [
    "ein Hund springt über den Zaun .",
    "ein Mann und eine Frau laufen mit dem Hund .",
    "zwei Kinder spielen Ball , und ein Hund sieht zu .",
    "der Ball rollt über die Straße .",
]


@pytest.fixture(scope="session")
def lines():
    return list(LINES)


@pytest.fixture(scope="session")
def tokenizers():
    return {
        "bpe": SentencePieceTokenizer.train(LINES, 60),
        "unigram": SentencePieceTokenizer.train(LINES, 45, model_type="unigram"),
        "bytes": SentencePieceTokenizer.train(LINES, 320, byte_fallback=True),
        "words": WordTokenizer.train(LINES),
        "characters": CharacterTokenizer.train(LINES),
    }


@pytest.fixture(
    scope="session", params=["bpe", "unigram", "bytes", "words", "characters"]
)
def tokenizer(request, tokenizers):
    return tokenizers[request.param]
