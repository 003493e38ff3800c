"""Batches of ids for `model.fit`, made from a corpus."""

import itertools
import math
import numbers
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from keras_attn.data.batches import Batch, as_dataset, features_of
from keras_attn.data.corpus import CorpusError, ParallelCorpus
from keras_attn.data.encoding import encode_all, encoder
from keras_attn.data.epochs import PipelineSummary, TrainingDataset
from keras_attn.data.sequences import Sequences
from keras_attn.data.sources import PairsInMemory, PairSource, PairStream
from keras_attn.text.base import Tokenizer

# Of a corpus that is never read as a whole, the pairs that are looked at beforehand.
FIRST_PAIRS = 10_000


def training_dataset(
    corpus: ParallelCorpus,
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    *,
    batch_size: int,
    max_source_length: int = 128,
    max_target_length: int = 128,
    seed: int = 0,
    initial_epoch: int = 0,
    bucket_width: int = 1,
    steps_per_epoch: int | None = None,
    shuffle_buffer: int = 100_000,
) -> TrainingDataset:
    """Makes shuffled batches of pairs of similar length.

    Batches are `({"source_ids": [B, S], "target_ids": [B, T]}, labels [B, T])`, all
    int32 and padded with 0: `source_ids` ends with `</s>`, `target_ids` starts with
    `<s>`, and `labels` is the target followed by `</s>`. Lengths count that one special
    token. Pairs over a limit, and pairs with a side without a token, are dropped. All
    batches but one have `batch_size` pairs.

    An epoch is the corpus, tokenized once and held in memory, 4 bytes a token, in an
    order that is random throughout. With `steps_per_epoch` it is that many full batches
    of the corpus read round and round: nothing is counted beforehand, and memory holds
    `shuffle_buffer` pairs as text and some batches, whatever the size of the corpus,
    which had best be made with `lazy`. Epoch n then starts at pair `n *
    steps_per_epoch * batch_size`, found as `ParallelCorpus.endless_pairs` does, and
    where pairs are dropped it reads on into the share of the next epoch.

    Either way the batches of an epoch are a function of `seed` and the epoch alone.

    Args:
        corpus: The pairs.
        source_tokenizer: The tokenizer of the source.
        target_tokenizer: The tokenizer of the target.
        batch_size: Number of pairs in a batch.
        max_source_length: Longest source that is kept, in tokens with `</s>`.
        max_target_length: Longest target that is kept, in tokens with `</s>`.
        seed: Seed of the order, at least 0.
        initial_epoch: The 0-based epoch that the first iteration gives.
        bucket_width: S and T are rounded up to a multiple of this. More means fewer
            different shapes, for compilers that make one program a shape, and more
            padding.
        steps_per_epoch: Number of batches in an epoch; None for as many as the corpus
            gives.
        shuffle_buffer: With `steps_per_epoch`, the number of pairs among which the next
            is drawn.

    Returns:
        The `TrainingDataset`.

    Raises:
        CorpusError: No pair is kept, of the first 10,000 with `steps_per_epoch`; or a
            lazy corpus cannot be read.
        ValueError: An argument is out of range.
    """
    _check_arguments(
        batch_size=(batch_size, 1),
        max_source_length=(max_source_length, 2),
        max_target_length=(max_target_length, 2),
        seed=(seed, 0),
        initial_epoch=(initial_epoch, 0),
        bucket_width=(bucket_width, 1),
        steps_per_epoch=(1 if steps_per_epoch is None else steps_per_epoch, 1),
        shuffle_buffer=(shuffle_buffer, 1),
    )
    encode = encoder(
        source_tokenizer, target_tokenizer, max_source_length, max_target_length
    )
    first = None if steps_per_epoch is None else FIRST_PAIRS
    source, target, dropped = encode_all(
        itertools.islice(corpus.pairs(), first), encode
    )
    summary = _summarize(source, target, dropped, batch_size, steps_per_epoch)
    if not summary.kept:
        raise CorpusError(
            f"None of the {'' if first is None else 'first '}{summary.pairs} pairs can "
            f"be trained on: {summary.dropped_empty} have a side without a token, "
            f"{summary.dropped_long} are longer than "
            f"max_source_length={max_source_length} or "
            f"max_target_length={max_target_length}"
        )
    pairs: PairSource
    if steps_per_epoch is None:
        pairs = PairsInMemory(source, target, batch_size, seed)
    else:
        pairs = PairStream(
            corpus, encode, batch_size, steps_per_epoch, seed, shuffle_buffer
        )
    features = features_of(bucket_width, max_source_length, max_target_length)
    return TrainingDataset(pairs, features, summary, initial_epoch)


def evaluation_dataset(
    corpus: ParallelCorpus,
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    *,
    batch_size: int,
    max_source_length: int = 128,
    max_target_length: int = 128,
    bucket_width: int = 1,
) -> tf.data.Dataset:
    """Makes batches in the order of the corpus, for a validation loss.

    The batches are those of `training_dataset`. Pairs with a side without a token are
    dropped; nothing else is. A source over the limit is cut and ends with `</s>` all
    the same, as when it is translated; a target over the limit is cut and has no
    `</s>`, which would be a label at a place where the text goes on.

    Args:
        corpus: The pairs.
        source_tokenizer: The tokenizer of the source.
        target_tokenizer: The tokenizer of the target.
        batch_size: Number of pairs in a batch.
        max_source_length: Longest source, in tokens with `</s>`.
        max_target_length: Longest target, in tokens with `</s>`.
        bucket_width: S and T are rounded up to a multiple of this.

    Returns:
        A `tf.data.Dataset` with a known number of batches.

    Raises:
        CorpusError: No pair is kept.
        ValueError: An argument is out of range.
    """
    _check_arguments(
        batch_size=(batch_size, 1),
        max_source_length=(max_source_length, 2),
        max_target_length=(max_target_length, 2),
        bucket_width=(bucket_width, 1),
    )
    encode = encoder(
        source_tokenizer, target_tokenizer, max_source_length, max_target_length, True
    )
    source, target, dropped = encode_all(corpus.pairs(), encode)
    summary = _summarize(source, target, dropped, batch_size)
    if not summary.kept:
        raise CorpusError(
            f"None of the {summary.pairs} pairs can be evaluated: each has a side "
            "without a token"
        )
    features = features_of(bucket_width, max_source_length, max_target_length)

    def batches() -> Iterator[Batch]:
        for start in range(0, summary.kept, batch_size):
            rows = np.arange(start, min(start + batch_size, summary.kept))
            yield features(source, target, rows)

    return as_dataset(batches, summary.batches)


def _check_arguments(**arguments: tuple[int, int]) -> None:
    """Checks integers given as `name=(value, least)`."""
    for name, (value, least) in arguments.items():
        if not isinstance(value, numbers.Integral) or value < least:
            raise ValueError(
                f"Invalid value for argument `{name}`. Expected an integer of at least "
                f"{least}. Received: {name}={value!r}"
            )


def _summarize(
    source: Sequences,
    target: Sequences,
    dropped: np.ndarray,
    batch_size: int,
    steps_per_epoch: int | None = None,
) -> PipelineSummary:
    kept = len(source)
    return PipelineSummary(
        pairs=kept + int(dropped.sum()),
        kept=kept,
        dropped_empty=int(dropped[0]),
        dropped_long=int(dropped[1]),
        batches=steps_per_epoch or math.ceil(kept / batch_size),
        source_tokens=len(source.ids) + kept,
        target_tokens=len(target.ids) + kept,
    )
