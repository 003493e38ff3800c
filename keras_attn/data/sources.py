"""Where the pairs of an epoch come from: memory, or a corpus as it is read."""

import abc
import contextlib
import itertools
import random
from collections.abc import Iterable, Iterator

import numpy as np
import tensorflow as tf

from keras_attn.data.batches import POOL_BATCHES, shuffled_batches
from keras_attn.data.corpus import CorpusError, ParallelCorpus
from keras_attn.data.encoding import Encode, Encoded, Pair, encoded_chunks
from keras_attn.data.sequences import Sequences

# Encoded pairs, and the rows of every batch to make from them.
Pool = tuple[Sequences, Sequences, list[np.ndarray]]


class PairSource(abc.ABC):
    """Gives the pairs of every epoch."""

    # The share of the pairs read that was dropped, in the epoch under way; None where
    # it is known beforehand.
    left_out: float | None = None

    @abc.abstractmethod
    def pools(self, epoch: int) -> Iterator[Pool]:
        """Gives the pairs of an epoch, and their batches."""

    def reading(self) -> contextlib.AbstractContextManager[None]:
        """Raises an error of the files as it was, and not as TensorFlow wraps it."""
        return contextlib.nullcontext()


class PairsInMemory(PairSource):
    """Pairs of which an epoch is all, in random order.

    Args:
        source: The sources.
        target: The targets, as many.
        batch_size: Number of pairs in a batch.
        seed: Seed of the order.
    """

    def __init__(
        self, source: Sequences, target: Sequences, batch_size: int, seed: int
    ) -> None:
        self._source = source
        self._target = target
        self._batch_size = batch_size
        self._seed = seed

    def pools(self, epoch: int) -> Iterator[Pool]:
        draw = np.random.default_rng([self._seed, epoch])
        batches = shuffled_batches(self._source, self._target, self._batch_size, draw)
        yield self._source, self._target, batches


class PairStream(PairSource):
    """A corpus read round and round, and cut into epochs of `steps` full batches.

    Epoch n starts `n * steps * batch_size` pairs behind the start of the corpus, and
    reads that many pairs. Where some are left out it reads on, as far as it needs, into
    the share of the next epoch, which has them again. So an epoch depends on nothing
    that was read before.

    Args:
        corpus: The pairs.
        encode: What `encoder` returns.
        batch_size: Number of pairs in a batch.
        steps: Number of batches in an epoch.
        seed: Seed of the order.
        shuffle_buffer: Number of pairs among which the next is drawn.
    """

    def __init__(
        self,
        corpus: ParallelCorpus,
        encode: Encode,
        batch_size: int,
        steps: int,
        seed: int,
        shuffle_buffer: int,
    ) -> None:
        self._corpus = corpus
        self._encode = encode
        self._batch_size = batch_size
        self._pairs = batch_size * steps
        self._seed = seed
        self._shuffle_buffer = shuffle_buffer
        self._error: CorpusError | None = None

    def pools(self, epoch: int) -> Iterator[Pool]:
        all_kept = all_dropped = 0
        draw = np.random.default_rng([self._seed, epoch])
        pool_size = self._batch_size * POOL_BATCHES
        missing = self._pairs
        held_source = held_target = Sequences.none()
        for source, target, dropped in self._chunks(epoch):
            all_kept += len(source)
            all_dropped += int(dropped.sum())
            self.left_out = all_dropped / (all_kept + all_dropped)
            source = Sequences.joined([held_source, source])
            target = Sequences.joined([held_target, target])
            rows = len(source)
            full = missing if rows >= missing else rows - rows % pool_size
            source, held_source = source.split(full)
            target, held_target = target.split(full)
            if full:
                batches = shuffled_batches(source, target, self._batch_size, draw)
                yield source, target, batches
            missing -= full
            if not missing:
                return

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        try:
            yield
        except tf.errors.OpError as error:
            # It may be another one: what was read ahead need not have been used.
            if self._error is None or str(self._error) not in error.message:
                raise
            raise self._error from error

    def _chunks(self, epoch: int) -> Iterator[Encoded]:
        """Encodes the pairs of an epoch, and then others in place of the dropped."""
        draw = random.Random(f"{self._seed} {epoch}")
        pairs = self._corpus.endless_pairs(epoch * self._pairs)
        try:
            for part in (itertools.islice(pairs, self._pairs), pairs):
                drawn = shuffled(part, self._shuffle_buffer, draw)
                yield from encoded_chunks(drawn, self._encode)
        except CorpusError as error:
            self._error = error
            raise


def shuffled(pairs: Iterable[Pair], size: int, draw: random.Random) -> Iterator[Pair]:
    """Gives pairs in an order drawn with a buffer of `size` of them."""
    remaining = iter(pairs)
    buffer = list(itertools.islice(remaining, size))
    for pair in remaining:
        place = int(draw.random() * size)
        yield buffer[place]
        buffer[place] = pair
    draw.shuffle(buffer)
    yield from buffer
