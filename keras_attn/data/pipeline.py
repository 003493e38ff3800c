"""Batches of ids for `model.fit`, made from a corpus by `tf.data`."""

import dataclasses
import math
import numbers
from collections.abc import Callable

import keras
import tensorflow as tf

from keras_attn.data.corpus import CorpusError, ParallelCorpus
from keras_attn.text.base import Tokenizer

# Pairs tokenized by one call: enough to make the call itself cheap.
_CHUNK = 1024
# Batches cut from one length-sorted pool, the more the less padding. The pairs of a
# pool are a random part of the corpus, so batches stay as mixed as one pool is.
_POOL_BATCHES = 100
# TensorFlow takes seeds modulo 2**31 - 1.
_SEEDS = 2**31 - 2

_Encode = Callable[
    [tf.Tensor, tf.Tensor], tuple[tf.RaggedTensor, tf.RaggedTensor, tf.Tensor]
]
_Batch = tuple[dict[str, tf.Tensor], tf.Tensor]


@dataclasses.dataclass(frozen=True)
class PipelineSummary:
    """What became of the pairs of a corpus.

    Attributes:
        pairs: Number of pairs in the corpus.
        kept: Number of pairs in an epoch.
        dropped_empty: Number of pairs dropped for a side without a token.
        dropped_long: Number of other pairs dropped for their length.
        batches: Number of batches in an epoch, the same in each.
        source_tokens: Number of source tokens in an epoch, `</s>` included.
        target_tokens: Number of target tokens in an epoch, `</s>` included.
    """

    pairs: int
    kept: int
    dropped_empty: int
    dropped_long: int
    batches: int
    source_tokens: int
    target_tokens: int


class TrainingDataset:
    """A dataset for `model.fit` whose order is a function of the seed and the epoch.

    ```python
    training = training_dataset(corpus, source_tokenizer, target_tokenizer, ...)
    model.fit(training.dataset, epochs=10, callbacks=[EpochSeed(training)])
    ```

    Iterating over `dataset` always gives the epoch last set, from its start: an
    iterator that Keras makes and drops changes nothing. Without `EpochSeed`, or
    `set_epoch` in a loop of one's own, every epoch has the same order.

    Attributes:
        dataset: A `tf.data.Dataset` of one epoch with a known number of batches.
        summary: The `PipelineSummary` of an epoch.
    """

    def __init__(
        self, dataset: tf.data.Dataset, summary: PipelineSummary, epoch: tf.Variable
    ) -> None:
        self.dataset = dataset
        self.summary = summary
        self._epoch = epoch

    @property
    def epoch(self) -> int:
        """The 0-based epoch that the next iteration gives."""
        return int(self._epoch.numpy())

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch that the next iteration gives.

        Args:
            epoch: The 0-based epoch.
        """
        self._epoch.assign(epoch)


class EpochSeed(keras.callbacks.Callback):
    """Sets the epoch of a `TrainingDataset` at the start of every epoch of `fit`.

    It takes the number that Keras counts, so that a run resumed at epoch 3, by
    `initial_epoch` or by `keras.callbacks.BackupAndRestore`, gets the batches that an
    unbroken run gets in epoch 3.

    Args:
        training: The `TrainingDataset` whose `dataset` is trained on.
    """

    def __init__(self, training: TrainingDataset) -> None:
        super().__init__()
        self.training = training

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self.training.set_epoch(epoch)


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
    encode = _encoder(
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
    features = _features(bucket_width, max_target_length)

    def one_epoch(epoch: tf.Tensor) -> tf.data.Dataset:
        # This is the graph of a function, and the seed that of this graph: it takes
        # the place of the global seed, which shuffling would mix into the order. With
        # a seed of 0 here, shuffling would not take a tensor for the other.
        tf.random.set_seed(1 + seed % _SEEDS)
        pairs = corpus.dataset().shuffle(
            shuffle_buffer, seed=2 * epoch, reshuffle_each_iteration=False
        )
        pools = _encoded_rows(pairs, encode).ragged_batch(batch_size * _POOL_BATCHES)
        batches = pools.flat_map(_similar_lengths(batch_size)).shuffle(
            2 * _POOL_BATCHES, seed=2 * epoch + 1, reshuffle_each_iteration=False
        )
        return batches.map(features, tf.data.AUTOTUNE)

    epoch = tf.Variable(initial_epoch, dtype=tf.int64, trainable=False)
    dataset = tf.data.Dataset.range(1).map(lambda _: epoch.read_value())
    dataset = _finish(dataset.flat_map(one_epoch), summary.batches)
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
    encode = _encoder(
        source_tokenizer, target_tokenizer, max_source_length, max_target_length, True
    )
    summary = _summarize(corpus, encode, batch_size)
    if not summary.kept:
        raise CorpusError(
            f"None of the {summary.pairs} pairs can be evaluated: each has a side "
            "without a token"
        )
    batches = _encoded_rows(corpus.dataset(), encode).ragged_batch(batch_size)
    features = _features(bucket_width, max_target_length)
    return _finish(batches.map(features, tf.data.AUTOTUNE), summary.batches)


def _check_arguments(**arguments: tuple[int, int]) -> None:
    """Checks integers given as `name=(value, least)`."""
    for name, (value, least) in arguments.items():
        if not isinstance(value, numbers.Integral) or value < least:
            raise ValueError(
                f"Invalid value for argument `{name}`. Expected an integer of at least "
                f"{least}. Received: {name}={value!r}"
            )


def _encoder(
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    max_source_length: int,
    max_target_length: int,
    cut: bool = False,
) -> _Encode:
    """Returns a function of text [N], [N] to ids of the kept pairs [K, None] twice.

    Its third result is int64 [2]: the pairs dropped for a side without a token, and
    those dropped for their length. With `cut` the latter are cut instead. A target
    that is cut has one token more than fits, in the place of `</s>`.
    """

    def encode(
        source_text: tf.Tensor, target_text: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.Tensor]:
        source = source_tokenizer.tokenize(source_text)
        target = target_tokenizer.tokenize(target_text)
        if cut:
            source = source[:, : max_source_length - 1]
            target = target[:, :max_target_length]
        source_lengths, target_lengths = source.row_lengths(), target.row_lengths()
        empty = (source_lengths == 0) | (target_lengths == 0)
        long = (source_lengths >= max_source_length) | (
            target_lengths >= max_target_length + int(cut)
        )
        kept = ~empty & ~long
        dropped = tf.math.count_nonzero([empty, ~empty & long], axis=1)
        return (
            tf.ragged.boolean_mask(source, kept),
            tf.ragged.boolean_mask(target, kept),
            dropped,
        )

    return encode


def _encoded_rows(pairs: tf.data.Dataset, encode: _Encode) -> tf.data.Dataset:
    """Maps text pairs to ids, int32 [S] and [T], of the kept pairs, in order."""
    chunks = pairs.batch(_CHUNK).map(
        lambda source, target: encode(source, target)[:2], tf.data.AUTOTUNE
    )
    return chunks.unbatch()


def _summarize(
    corpus: ParallelCorpus, encode: _Encode, batch_size: int
) -> PipelineSummary:
    """Tokenizes the corpus once to count what an epoch holds."""

    def count(source_text: tf.Tensor, target_text: tf.Tensor) -> tf.Tensor:
        source, target, dropped = encode(source_text, target_text)
        kept = source.nrows()
        tokens = [tf.size(ids.flat_values, tf.int64) + kept for ids in (source, target)]
        return tf.stack([kept, dropped[0], dropped[1], *tokens])

    counts = corpus.dataset().batch(_CHUNK).map(count, tf.data.AUTOTUNE)
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


def _similar_lengths(
    batch_size: int,
) -> Callable[[tf.RaggedTensor, tf.RaggedTensor], tf.data.Dataset]:
    """Returns a function that cuts a pool of pairs into batches of like lengths."""

    def batches(source: tf.RaggedTensor, target: tf.RaggedTensor) -> tf.data.Dataset:
        source_lengths, target_lengths = source.row_lengths(), target.row_lengths()
        # By target, where a position costs most, and then by source, up and down in
        # turn: where one target length ends, the sources of the next are as long.
        longest = tf.reduce_max(source_lengths)
        falling = target_lengths % 2 == 1
        then = tf.where(falling, longest - source_lengths, source_lengths)
        order = tf.argsort(target_lengths * (longest + 1) + then, stable=True)
        starts = tf.data.Dataset.range(0, source.nrows(), batch_size)

        def batch(start: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
            rows = order[start : start + batch_size]
            return tf.gather(source, rows), tf.gather(target, rows)

        return starts.map(batch)

    return batches


def _features(
    bucket_width: int, max_target_length: int
) -> Callable[[tf.RaggedTensor, tf.RaggedTensor], _Batch]:
    """Returns a function of ids [B, None] twice to what `model.fit` takes."""

    def dense(ids: tf.RaggedTensor) -> tf.Tensor:
        width = -(-ids.bounding_shape(axis=1) // bucket_width) * bucket_width
        padded = ids.to_tensor(shape=tf.stack([ids.nrows(), width]))
        return tf.ensure_shape(padded, [None, None])

    def features(source: tf.RaggedTensor, target: tf.RaggedTensor) -> _Batch:
        column = tf.fill([source.nrows(), 1], Tokenizer.EOS_ID)
        source_ids = tf.concat([source, column], axis=1)
        labels = tf.concat([target, column], axis=1)[:, :max_target_length]
        first = tf.fill([source.nrows(), 1], Tokenizer.BOS_ID)
        target_ids = tf.concat([first, target], axis=1)[:, :max_target_length]
        inputs = {"source_ids": dense(source_ids), "target_ids": dense(target_ids)}
        return inputs, dense(labels)

    return features


def _finish(dataset: tf.data.Dataset, batches: int) -> tf.data.Dataset:
    """Declares the number of batches, and sets what every dataset here needs."""
    options = tf.data.Options()
    options.deterministic = True
    # By files, which is tried first, all workers but one would get nothing.
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.DATA
    )
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(batches))
    return dataset.with_options(options).prefetch(tf.data.AUTOTUNE)
