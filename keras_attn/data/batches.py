"""The steps from text pairs to padded batches, as functions on `tf.data`."""

from collections.abc import Callable

import tensorflow as tf

from keras_attn.text.base import Tokenizer

# Pairs tokenized by one call: enough to make the call itself cheap.
CHUNK = 1024
# Batches cut from one length-sorted pool, the more the less padding. The pairs of a
# pool are a random part of the corpus, so batches stay as mixed as one pool is.
POOL_BATCHES = 100

Encode = Callable[
    [tf.Tensor, tf.Tensor], tuple[tf.RaggedTensor, tf.RaggedTensor, tf.Tensor]
]
Batch = tuple[dict[str, tf.Tensor], tf.Tensor]


def encoder(
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    max_source_length: int,
    max_target_length: int,
    cut: bool = False,
) -> Encode:
    """Returns a function of text [N], [N] to ids of the kept pairs [K, None] twice.

    Its third result is int64 [2]: the pairs dropped for a side without a token, and
    those dropped for their length. With `cut` the latter are cut instead: a source so
    that `</s>` still fits, a target so that it does not.
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
        kept = tf.where(~empty & ~long)[:, 0]
        dropped = tf.math.count_nonzero([empty, ~empty & long], axis=1)
        return tf.gather(source, kept), tf.gather(target, kept), dropped

    return encode


def encoded_rows(pairs: tf.data.Dataset, encode: Encode) -> tf.data.Dataset:
    """Maps text pairs to ids, int32 [S] and [T], of the kept pairs, in order."""
    chunks = pairs.batch(CHUNK).map(
        lambda source, target: encode(source, target)[:2], tf.data.AUTOTUNE
    )
    return chunks.unbatch()


def similar_lengths(
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
