"""Small translators trained on tasks whose attention is known beforehand.

A sentence is a row of different symbols, so that each target token comes from one
source position and no other.
"""

from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn import Translator
from keras_attn.models import AttentionSeq2Seq
from keras_attn.text import CharacterTokenizer, WordTokenizer
from keras_attn.training import MaskedCrossEntropy

LETTERS = "abcdefghijklmnop"
WORDS = (
    "one two three four five six seven eight nine ten red green blue white black grey"
).split()
BATCH_SIZE = 64


class Task(NamedTuple):
    """A trained translator with sentences it has not seen."""

    translator: Translator
    sources: list[str]
    targets: list[str]


def sentences(symbols, count, longest, seed):
    """Rows of up to `longest` different symbols, in any order."""
    rng = np.random.default_rng(seed)
    return [
        list(rng.permutation(symbols)[: rng.integers(1, longest + 1)])
        for _ in range(count)
    ]


def train(tokenizer, join, symbols, longest, steps, backwards=False, **options):
    """Trains on `steps` batches, each seen once, and returns the `Task`."""
    count = steps * BATCH_SIZE
    known = sentences(symbols, count, longest, seed=0)
    seen = {tuple(row) for row in known}
    fresh = [r for r in sentences(symbols, 150, longest, 1) if tuple(r) not in seen]

    def text(rows, backwards=False):
        return [join.join(reversed(row) if backwards else row) for row in rows]

    source = tokenizer.tokenize(text(known))
    target = tokenizer.tokenize(text(known, backwards))
    first, last = tf.fill([count, 1], 2), tf.fill([count, 1], 3)
    inputs = {
        "source_ids": tf.concat([source, last], axis=1).to_tensor(),
        "target_ids": tf.concat([first, target], axis=1).to_tensor(),
    }
    labels = tf.concat([target, last], axis=1).to_tensor()

    keras.utils.set_random_seed(1)
    size = tokenizer.vocabulary_size
    model = AttentionSeq2Seq(size, size, 32, 32, 32, **options)
    rate = keras.optimizers.schedules.CosineDecay(0.01, steps, alpha=0.05)
    optimizer = keras.optimizers.Adam(rate, clipnorm=1.0)
    model.compile(optimizer, MaskedCrossEntropy())
    model.fit(inputs, labels, batch_size=BATCH_SIZE, verbose=0)
    translator = Translator(model, tokenizer, tokenizer, max_source_length=longest + 3)
    return Task(translator, text(fresh), text(fresh, backwards))


@pytest.fixture(scope="session")
def copy_task():
    """Letters to the same letters; Luong's attention with input feeding."""
    return train(
        CharacterTokenizer(LETTERS),
        join="",
        symbols=list(LETTERS),
        longest=8,
        steps=240,
        attention="luong_general",
        attend="after",
        input_feeding=True,
    )


@pytest.fixture(scope="session")
def reverse_task():
    """Words to the same words backwards; Bahdanau's attention."""
    return train(
        WordTokenizer(WORDS),
        join=" ",
        symbols=WORDS,
        longest=8,
        steps=240,
        backwards=True,
        attention="bahdanau",
    )


@pytest.fixture(scope="session")
def plain_task():
    """Letters to the same letters through one fixed vector, without attention."""
    return train(
        CharacterTokenizer(LETTERS),
        join="",
        symbols=list(LETTERS),
        longest=4,
        steps=350,
        attention=None,
        rnn="lstm",
        bidirectional=False,
        bridge="pass",
    )


@pytest.fixture(scope="session")
def copy_translator(copy_task):
    return copy_task.translator


@pytest.fixture(scope="session")
def reverse_translator(reverse_task):
    return reverse_task.translator
