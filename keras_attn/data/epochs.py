"""What `training_dataset` returns: one dataset, and the epoch it gives."""

import contextlib
import dataclasses
from collections.abc import Iterator

import keras

from keras_attn.data.batches import Batch, Features, as_dataset
from keras_attn.data.sources import PairSource


@dataclasses.dataclass(frozen=True)
class PipelineSummary:
    """What becomes of the pairs of a corpus.

    Where an epoch is a number of steps, all but `batches` is about the first pairs of
    the corpus only.

    Attributes:
        pairs: Number of pairs in the corpus.
        kept: Number of pairs that are trained on.
        dropped_empty: Number of pairs dropped for a side without a token.
        dropped_long: Number of other pairs dropped for their length.
        batches: Number of batches in an epoch, the same in each.
        source_tokens: Number of source tokens of the kept pairs, `</s>` included.
        target_tokens: Number of target tokens of the kept pairs, `</s>` included.
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
        summary: The `PipelineSummary` of the corpus.
        epoch: The 0-based epoch that the next iteration gives.
    """

    def __init__(
        self,
        pairs: PairSource,
        features: Features,
        summary: PipelineSummary,
        epoch: int,
    ) -> None:
        self._pairs = pairs
        self._features = features
        self.summary = summary
        self.epoch = epoch
        self.dataset = as_dataset(self._batches, summary.batches)

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch that the next iteration gives.

        Args:
            epoch: The 0-based epoch.
        """
        self.epoch = epoch

    @property
    def left_out(self) -> float | None:
        """The share of the pairs read that was dropped, in the epoch under way.

        None where an epoch is the whole corpus, of which `summary` tells it.
        """
        return self._pairs.left_out

    def reading(self) -> contextlib.AbstractContextManager[None]:
        """Has errors of a stream, met within a `with`, raised as a `CorpusError`.

        TensorFlow wraps an error of the files into one of its own.

        ```python
        with training.reading():
            model.fit(training.dataset, ...)
        ```
        """
        return self._pairs.reading()

    def _batches(self) -> Iterator[Batch]:
        for source, target, batches in self._pairs.pools(self.epoch):
            for rows in batches:
                yield self._features(source, target, rows)


class EpochSeed(keras.callbacks.Callback):
    """Sets the epoch of a `TrainingDataset` at the start of every epoch of `fit`.

    It takes the number that Keras counts, so that a run resumed at epoch 3, by
    `initial_epoch` or by `keras.callbacks.BackupAndRestore`, gets the batches that an
    unbroken run gets in epoch 3.

    Where an epoch is a number of steps, it adds `left_out` to the logs of the epoch:
    the share of the pairs read in it that was dropped.

    Args:
        training: The `TrainingDataset` whose `dataset` is trained on.
    """

    def __init__(self, training: TrainingDataset) -> None:
        super().__init__()
        self.training = training

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self.training.set_epoch(epoch)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        if logs is not None and self.training.left_out is not None:
            logs["left_out"] = self.training.left_out
