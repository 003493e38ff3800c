"""The steps from ids to padded batches, as functions on `tf.data`."""

from collections.abc import Callable

import tensorflow as tf

from keras_attn.text.base import Tokenizer

# Batches cut from one length-sorted pool, the more the less padding. The pairs of a
# pool are drawn at random, so batches stay as mixed as one pool is.
POOL_BATCHES = 100

Batch = tuple[dict[str, tf.Tensor], tf.Tensor]


def shuffled_batches(
    source: tf.RaggedTensor, target: tf.RaggedTensor, batch_size: int, seed: tf.Tensor
) -> tf.data.Dataset:
    """Cuts pairs into batches of like lengths, in an order that the seed gives.

    Args:
        source: Ids [N, None].
        target: Ids [N, None].
        batch_size: Pairs in a batch; one batch may be smaller.
        seed: int64 [2].

    Returns:
        A dataset of ids [B, None] of the source and of the target.
    """
    seeds = tf.random.experimental.stateless_split(seed, 2)
    rows = source.nrows()
    order = tf.random.experimental.stateless_shuffle(tf.range(rows), seeds[0])
    sources = tf.gather(source.row_lengths(), order)
    targets = tf.gather(target.row_lengths(), order)
    # Within each pool by target, where a position costs most, and then by source, up
    # and down in turn: where one target length ends, the sources of the next are as
    # long.
    pools = tf.range(rows) // (batch_size * POOL_BATCHES)
    widest, longest = tf.reduce_max(targets) + 1, tf.reduce_max(sources)
    then = tf.where(targets % 2 == 1, longest - sources, sources)
    place = (pools * widest + targets) * (longest + 1) + then
    order = tf.gather(order, tf.argsort(place, stable=True))
    starts = tf.random.experimental.stateless_shuffle(
        tf.range(0, rows, batch_size), seeds[1]
    )

    def batch(start: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        chosen = order[start : start + batch_size]
        return tf.gather(source, chosen), tf.gather(target, chosen)

    return tf.data.Dataset.from_tensor_slices(starts).map(batch)


def features_of(
    bucket_width: int, max_source_length: int, max_target_length: int
) -> Callable[[tf.RaggedTensor, tf.RaggedTensor], Batch]:
    """Returns a function of ids [B, None] twice to what `model.fit` takes."""

    def ended(ids: tf.RaggedTensor, limit: int) -> tf.Tensor:
        """Pads ids to [B, T] with `</s>` behind rows that the limit did not cut."""
        lengths = ids.row_lengths()
        longest = tf.minimum(tf.reduce_max(lengths) + 1, limit)
        width = -(-longest // bucket_width) * bucket_width
        ends = tf.one_hot(
            tf.where(lengths < limit, lengths, -1),
            tf.cast(width, tf.int32),
            on_value=Tokenizer.EOS_ID,
            off_value=0,
        )
        padded = ids.to_tensor(shape=tf.stack([ids.nrows(), width])) + ends
        return tf.ensure_shape(padded, [None, None])

    def features(source: tf.RaggedTensor, target: tf.RaggedTensor) -> Batch:
        labels = ended(target, max_target_length)
        first = tf.fill([tf.shape(labels)[0], 1], Tokenizer.BOS_ID)
        shifted = tf.concat([first, labels[:, :-1]], axis=1)
        # An input stands where there is a label to predict from it.
        target_ids = tf.where(labels == Tokenizer.PAD_ID, Tokenizer.PAD_ID, shifted)
        source_ids = ended(source, max_source_length)
        return {"source_ids": source_ids, "target_ids": target_ids}, labels

    return features


def finish(dataset: tf.data.Dataset, batches: int) -> tf.data.Dataset:
    """Declares the number of batches, and sets what every dataset here needs."""
    options = tf.data.Options()
    options.deterministic = True
    # By files, which is tried first, all workers but one would get nothing.
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.DATA
    )
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(batches))
    return dataset.with_options(options).prefetch(tf.data.AUTOTUNE)
