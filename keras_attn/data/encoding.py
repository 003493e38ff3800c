"""Text to ids, in chunks that several threads tokenize."""

import collections
import concurrent.futures
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from keras_attn.data.sequences import Sequences
from keras_attn.text.base import Tokenizer

# Pairs tokenized by one call: enough to make the call itself cheap.
_CHUNK = 1024
_THREADS = min(8, os.cpu_count() or 1)

Pair = tuple[str, str]
# The sources and the targets of pairs, and how many pairs were dropped, int64 [2]:
# those with a side without a token, and others for their length.
Encoded = tuple[Sequences, Sequences, np.ndarray]
Encode = Callable[[Sequence[Pair]], Encoded]


def encoder(
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    max_source_length: int,
    max_target_length: int,
    cut: bool = False,
) -> Encode:
    """Returns a function of pairs to the ids of those that are kept.

    With `cut` none is dropped for its length. A source is cut so that `</s>` still
    fits, a target so that it does not.
    """

    def tokenize(tokenizer: Tokenizer, texts: Sequence[str]) -> Sequences:
        # There is nothing in it for a GPU.
        with tf.device("CPU:0"):
            ids = tokenizer.tokenize(list(texts))
            return Sequences(ids.flat_values.numpy(), ids.row_lengths().numpy())

    def encode(pairs: Sequence[Pair]) -> Encoded:
        sources, targets = zip(*pairs, strict=True)
        source = tokenize(source_tokenizer, sources)
        target = tokenize(target_tokenizer, targets)
        if cut:
            source = source.cut(max_source_length - 1)
            target = target.cut(max_target_length)
        empty = (source.lengths == 0) | (target.lengths == 0)
        long = (source.lengths >= max_source_length) | (
            target.lengths >= max_target_length + int(cut)
        )
        kept = ~empty & ~long
        dropped = np.array([empty.sum(), (~empty & long).sum()])
        return source.where(kept), target.where(kept), dropped

    return encode


def encoded_chunks(pairs: Iterable[Pair], encode: Encode) -> Iterator[Encoded]:
    """Encodes pairs, some chunks ahead of the one that is asked for."""
    remaining = iter(pairs)
    with concurrent.futures.ThreadPoolExecutor(_THREADS) as threads:
        ahead: collections.deque[concurrent.futures.Future[Encoded]]
        ahead = collections.deque()
        while chunk := list(itertools.islice(remaining, _CHUNK)):
            ahead.append(threads.submit(encode, chunk))
            if len(ahead) > _THREADS:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def encode_all(pairs: Iterable[Pair], encode: Encode) -> Encoded:
    """Encodes pairs into memory, 4 bytes a token. There must be one."""
    sources, targets, dropped = zip(*encoded_chunks(pairs, encode), strict=True)
    return Sequences.joined(sources), Sequences.joined(targets), np.sum(dropped, axis=0)
