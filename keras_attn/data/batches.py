"""The batches of an epoch, as arrays and as a dataset of them."""

from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from keras_attn.data.sequences import Sequences
from keras_attn.text.base import Tokenizer

# Batches cut from one length-sorted pool, the more the less padding. The pairs of a
# pool are drawn at random, so batches stay as mixed as one pool is.
POOL_BATCHES = 100

Batch = tuple[dict[str, np.ndarray], np.ndarray]
Features = Callable[[Sequences, Sequences, np.ndarray], Batch]


def shuffled_batches(
    source: Sequences, target: Sequences, batch_size: int, draw: np.random.Generator
) -> list[np.ndarray]:
    """Cuts pairs into batches of like lengths, in random order.

    Args:
        source: The sources.
        target: The targets, as many.
        batch_size: Number of pairs in a batch; one batch may be smaller.
        draw: Gives the order.

    Returns:
        The rows of each batch.
    """
    order = draw.permutation(len(source))
    source_lengths, target_lengths = source.lengths[order], target.lengths[order]
    # Within each pool by target, where a position costs most, and then by source, up
    # and down in turn: where one target length ends, the sources of the next are as
    # long.
    pools = np.arange(len(order)) // (batch_size * POOL_BATCHES)
    then = np.where(target_lengths % 2 == 1, -source_lengths, source_lengths)
    order = order[np.lexsort((then, target_lengths, pools))]
    batches = np.split(order, range(batch_size, len(order), batch_size))
    return [batches[i] for i in draw.permutation(len(batches))]


def features_of(
    bucket_width: int, max_source_length: int, max_target_length: int
) -> Features:
    """Returns a function of some rows of pairs to what `model.fit` takes."""

    def features(source: Sequences, target: Sequences, rows: np.ndarray) -> Batch:
        labels = target.ended(rows, max_target_length, bucket_width)
        shifted = np.full_like(labels, Tokenizer.BOS_ID)
        shifted[:, 1:] = labels[:, :-1]
        # An input stands where there is a label to predict from it.
        target_ids = np.where(labels == Tokenizer.PAD_ID, Tokenizer.PAD_ID, shifted)
        source_ids = source.ended(rows, max_source_length, bucket_width)
        return {"source_ids": source_ids, "target_ids": target_ids}, labels

    return features


def as_dataset(batches: Callable[[], Iterator[Batch]], number: int) -> tf.data.Dataset:
    """Makes a dataset of `number` batches, with what every dataset here needs.

    Args:
        batches: Called for each iteration over the dataset, when it starts.
        number: How many it gives.
    """
    ids = tf.TensorSpec([None, None], tf.int32)
    signature = {"source_ids": ids, "target_ids": ids}, ids
    dataset = tf.data.Dataset.from_generator(batches, output_signature=signature)
    options = tf.data.Options()
    options.deterministic = True
    # By files, which is tried first, all workers but one would get nothing.
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.DATA
    )
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(number))
    return dataset.with_options(options).prefetch(tf.data.AUTOTUNE)
