"""Where the pairs of an epoch come from: memory, or a corpus as it is read."""

import abc
import itertools
from collections.abc import Iterator

import tensorflow as tf

from keras_attn.data.batches import shuffled_batches
from keras_attn.data.corpus import ParallelCorpus
from keras_attn.data.encoding import CHUNK, Encode


class PairSource(abc.ABC):
    """Gives the batches of every epoch.

    Nothing in their datasets runs in Python: a program that ends within an epoch would
    wait for a thread that waits for Python.
    """

    @abc.abstractmethod
    def batches(self, epoch: tf.Tensor, start: tf.Tensor) -> tf.data.Dataset:
        """Returns a dataset of ids [B, None] of source and target.

        Args:
            epoch: The 0-based epoch, int64.
            start: What `begin` returned for it, int64.
        """

    def begin(self, epoch: int) -> int:
        """Gets ready for an epoch; returns where in the corpus it starts."""
        return 0

    def check(self, steps: int) -> None:
        """Checks the lines of the first `steps` batches of the epoch begun."""

    def left_out(self, epoch: int) -> float | None:
        """The share of the pairs read in an epoch that was dropped, if not known."""
        return None


class PairsInMemory(PairSource):
    """Pairs of which an epoch is all, in random order.

    Args:
        source: Ids of the sources [N, None].
        target: Ids of the targets [N, None].
        batch_size: Number of pairs in a batch.
        seed: Seed of the order.
    """

    def __init__(
        self,
        source: tf.RaggedTensor,
        target: tf.RaggedTensor,
        batch_size: int,
        seed: int,
    ) -> None:
        self._source = source
        self._target = target
        self._batch_size = batch_size
        self._seed = seed

    def batches(self, epoch: tf.Tensor, start: tf.Tensor) -> tf.data.Dataset:
        return shuffled_batches(
            self._source, self._target, self._batch_size, tf.stack([self._seed, epoch])
        )


class PairStream(PairSource):
    """A corpus read round and round, in epochs of `steps` full batches.

    Epoch n starts `n * steps * batch_size` pairs behind the start of the corpus and
    takes that many pairs. Where some are left out it reads on, into the share of the
    next epoch, which has them again: so an epoch depends on nothing read before. It is
    shuffled in blocks.

    Args:
        corpus: The pairs.
        encode: What `encoder` returns.
        batch_size: Number of pairs in a batch.
        steps: Number of batches in an epoch.
        seed: Seed of the order.
        shuffle_buffer: Number of pairs in a block, less what makes no full batch, but
            one batch at least.
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
        self._steps = steps
        self._seed = seed
        self._block_size = max(1, shuffle_buffer // batch_size) * batch_size
        self._unchecked: Iterator[tuple[str, str]] = iter(())
        self._checked = 0
        # Pairs kept and dropped, by epoch. Unlike a variable it is the same under every
        # distribution strategy.
        self._counts = tf.lookup.experimental.MutableHashTable(
            tf.int64, tf.int64, tf.zeros([2], tf.int64)
        )

    def begin(self, epoch: int) -> int:
        start = epoch * self._steps * self._batch_size
        self._unchecked, self._checked = self._corpus.pairs_from(start), 0
        return self._corpus.locate(start)

    def check(self, steps: int) -> None:
        pairs = steps * self._batch_size
        for _ in itertools.islice(self._unchecked, pairs - self._checked):
            pass
        self._checked = pairs

    def left_out(self, epoch: int) -> float:
        kept, dropped = self._counts.lookup(tf.constant(epoch, tf.int64)).numpy()
        return float(dropped / max(1, kept + dropped))

    def batches(self, epoch: tf.Tensor, start: tf.Tensor) -> tf.data.Dataset:
        def fill(state, encoded):
            """Adds a chunk to the pairs held; gives the blocks that are full then."""
            *held, missing, number, counts = state
            source, target, dropped = encoded
            chunk = tf.stack([source.nrows(), tf.reduce_sum(dropped)])
            counts = tf.where(missing > 0, counts + chunk, counts)
            self._counts.insert(epoch, counts)
            source = tf.concat([_ragged(*held[0]), source], axis=0)[:missing]
            target = tf.concat([_ragged(*held[1]), target], axis=0)[:missing]
            rows = source.nrows()
            full = tf.where(rows == missing, rows, rows - rows % self._block_size)
            rest = _flat(source[full:]), _flat(target[full:])
            seed = tf.random.experimental.stateless_fold_in([self._seed, epoch], number)
            block = source[:full], target[:full], seed, missing
            return (*rest, missing - full, number + 1, counts), block

        none = tf.zeros([0], tf.int32), tf.zeros([0], tf.int64)
        missing = tf.constant(self._steps * self._batch_size, tf.int64)
        first = (none, none, missing, tf.zeros([], tf.int64), tf.zeros([2], tf.int64))
        return (
            self._corpus.chunks(CHUNK, start)
            .map(self._encode, tf.data.AUTOTUNE)
            .scan(first, fill)
            .take_while(lambda source, target, seed, missing: missing > 0)
            .filter(lambda source, target, seed, missing: source.nrows() > 0)
            # One block is made while another is trained on.
            .prefetch(1)
            .flat_map(
                lambda source, target, seed, missing: shuffled_batches(
                    source, target, self._batch_size, seed
                )
            )
        )


def _flat(ids: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Takes ids apart, as the state of a scan cannot be ragged."""
    return ids.flat_values, ids.row_lengths()


def _ragged(ids: tf.Tensor, lengths: tf.Tensor) -> tf.RaggedTensor:
    return tf.RaggedTensor.from_row_lengths(ids, lengths, validate=False)
