"""What `training_dataset` returns: one dataset, and the epoch it gives."""

import dataclasses

import keras
import tensorflow as tf


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
