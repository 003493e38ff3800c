"""Batches of ids for `model.fit`, made from a corpus by `tf.data`."""

import math
import numbers

import tensorflow as tf

from keras_attn.data.batches import (
    CHUNK,
    POOL_BATCHES,
    Encode,
    encoded_rows,
    encoder,
    features_of,
    finish,
    similar_lengths,
)
from keras_attn.data.corpus import CorpusError, ParallelCorpus
from keras_attn.data.epochs import PipelineSummary, TrainingDataset
from keras_attn.text.base import Tokenizer

# TensorFlow takes seeds modulo 2**31 - 1.
_SEEDS = 2**31 - 2


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
    shuffle_buffer: int = 100_000,
) -> TrainingDataset:
    """Makes shuffled batches of pairs of similar length.

    Batches are `({"source_ids": [B, S], "target_ids": [B, T]}, labels [B, T])`, all
    int32 and padded with 0: `source_ids` ends with `</s>`, `target_ids` starts with
    `<s>`, and `labels` is the target followed by `</s>`. Lengths count that one special
    token. Pairs over a limit, and pairs with a side without a token, are dropped. All
    batches but one have `batch_size` pairs.

    Everything streams: memory holds `shuffle_buffer` pairs as text, and some batches.
    The order of an epoch is a function of `seed` and the epoch alone.

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
        shuffle_buffer: Number of pairs among which the next is drawn. An order
            that is random throughout takes the size of the corpus.

    Returns:
        The `TrainingDataset`.

    Raises:
        CorpusError: No pair is kept.
        ValueError: An argument is out of range.
    """
    _check_arguments(
        batch_size=(batch_size, 1),
        max_source_length=(max_source_length, 2),
        max_target_length=(max_target_length, 2),
        seed=(seed, 0),
        initial_epoch=(initial_epoch, 0),
        bucket_width=(bucket_width, 1),
        shuffle_buffer=(shuffle_buffer, 1),
    )
    encode = encoder(
        source_tokenizer, target_tokenizer, max_source_length, max_target_length
    )
    summary = _summarize(corpus, encode, batch_size)
    if not summary.kept:
        raise CorpusError(
            f"None of the {summary.pairs} pairs can be trained on: "
            f"{summary.dropped_empty} have a side without a token, "
            f"{summary.dropped_long} are longer than "
            f"max_source_length={max_source_length} or "
            f"max_target_length={max_target_length}"
        )
    features = features_of(bucket_width, max_source_length, max_target_length)

    def one_epoch(epoch: tf.Tensor) -> tf.data.Dataset:
        # This is the graph of a function, and the seed that of this graph: it takes
        # the place of the global seed, which shuffling would mix into the order. With
        # a seed of 0 here, shuffling would not take a tensor for the other.
        tf.random.set_seed(1 + seed % _SEEDS)
        pairs = corpus.dataset().shuffle(
            shuffle_buffer, seed=2 * epoch, reshuffle_each_iteration=False
        )
        pools = encoded_rows(pairs, encode).ragged_batch(batch_size * POOL_BATCHES)
        batches = pools.flat_map(similar_lengths(batch_size)).shuffle(
            2 * POOL_BATCHES, seed=2 * epoch + 1, reshuffle_each_iteration=False
        )
        return batches.map(features, tf.data.AUTOTUNE)

    epoch = tf.Variable(initial_epoch, dtype=tf.int64, trainable=False)
    dataset = tf.data.Dataset.range(1).map(lambda _: epoch.read_value())
    dataset = finish(dataset.flat_map(one_epoch), summary.batches)
    return TrainingDataset(dataset, summary, epoch)


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
    summary = _summarize(corpus, encode, batch_size)
    if not summary.kept:
        raise CorpusError(
            f"None of the {summary.pairs} pairs can be evaluated: each has a side "
            "without a token"
        )
    batches = encoded_rows(corpus.dataset(), encode).ragged_batch(batch_size)
    features = features_of(bucket_width, max_source_length, max_target_length)
    return finish(batches.map(features, tf.data.AUTOTUNE), summary.batches)


def _check_arguments(**arguments: tuple[int, int]) -> None:
    """Checks integers given as `name=(value, least)`."""
    for name, (value, least) in arguments.items():
        if not isinstance(value, numbers.Integral) or value < least:
            raise ValueError(
                f"Invalid value for argument `{name}`. Expected an integer of at least "
                f"{least}. Received: {name}={value!r}"
            )


def _summarize(
    corpus: ParallelCorpus, encode: Encode, batch_size: int
) -> PipelineSummary:
    """Tokenizes the corpus once to count what an epoch holds."""

    def count(source_text: tf.Tensor, target_text: tf.Tensor) -> tf.Tensor:
        source, target, dropped = encode(source_text, target_text)
        kept = source.nrows()
        tokens = [tf.size(ids.flat_values, tf.int64) + kept for ids in (source, target)]
        return tf.stack([kept, dropped[0], dropped[1], *tokens])

    counts = corpus.dataset().batch(CHUNK).map(count, tf.data.AUTOTUNE)
    total = counts.reduce(tf.zeros([5], tf.int64), tf.add).numpy().tolist()
    kept, dropped_empty, dropped_long, source_tokens, target_tokens = total
    return PipelineSummary(
        pairs=corpus.size,
        kept=kept,
        dropped_empty=dropped_empty,
        dropped_long=dropped_long,
        batches=math.ceil(kept / batch_size),
        source_tokens=source_tokens,
        target_tokens=target_tokens,
    )
