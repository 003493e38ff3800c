"""Text to ids, in chunks."""

import concurrent.futures
import itertools
import os
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import tensorflow as tf

from keras_attn.text.base import Tokenizer

# Pairs tokenized by one call: enough to make the call itself cheap.
CHUNK = 1024
# What is ahead of the one that is needed is held as text.
_THREADS = min(8, os.cpu_count() or 1)

Encoded = tuple[tf.RaggedTensor, tf.RaggedTensor, tf.Tensor]
Encode = Callable[[tf.Tensor, tf.Tensor], Encoded]


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

    def encode(source_text: tf.Tensor, target_text: tf.Tensor) -> Encoded:
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


def encode_all(pairs: Iterable[tuple[str, str]], encode: Encode) -> Encoded:
    """Encodes pairs into memory, 4 bytes a token.

    Args:
        pairs: The pairs; at least one.
        encode: What `encoder` returns.

    Returns:
        The results of `encode` for all of them.
    """
    remaining = iter(pairs)

    def encode_chunk(chunk: list[tuple[str, str]]) -> Encoded:
        sources, targets = zip(*chunk, strict=True)
        # Where a pipeline reads it, and there is nothing in it for a GPU.
        with tf.device("CPU:0"):
            return encode(tf.constant(sources), tf.constant(targets))

    encoded: list[Encoded] = []
    with concurrent.futures.ThreadPoolExecutor(_THREADS) as threads:
        while chunks := [
            chunk
            for _ in range(_THREADS)
            if (chunk := list(itertools.islice(remaining, CHUNK)))
        ]:
            encoded += threads.map(encode_chunk, chunks)
    source, target, dropped = zip(*encoded, strict=True)
    return _joined(source), _joined(target), tf.add_n(dropped)


def _joined(parts: Sequence[tf.RaggedTensor]) -> tf.RaggedTensor:
    # In numpy, as `tf.concat` takes an operation or more for every part.
    with tf.device("CPU:0"):
        return tf.RaggedTensor.from_row_lengths(
            np.concatenate([part.flat_values.numpy() for part in parts]),
            np.concatenate([part.row_lengths().numpy() for part in parts]),
            validate=False,
        )
