"""Training on several devices and on several machines, by `tf.distribute`.

```python
strategy = make_strategy()  # before anything else runs on TensorFlow
with strategy.scope():
    model = AttentionSeq2Seq(...)
    optimizer = ReplicatedAdam(1e-3, global_clipnorm=1.0)
    model.compile(optimizer, MaskedCrossEntropy(), metrics=[TokenAccuracy()])
    optimizer.build(model.trainable_variables)
fit(model, dataset, epochs=10, callbacks=[...])
```

Every worker reads the same batches, and every replica takes rows of its own from each:
a step on N replicas is the step that one process makes on the whole batch. The model's
own `train_step` and `test_step` do the work, as in `model.fit`, which itself does not
run under `MultiWorkerMirroredStrategy` (Keras 3.15).
"""

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_attn.checks import check_one_of
from keras_attn.training.optimizers import FusedAdam
from keras_attn.training.workers import (
    Workers,
    naming_lost_workers,
    of_all_workers,
    require_same,
)

STRATEGIES = ("auto", "none", "mirrored", "multi_worker")

_REPLICATED = (
    tf.distribute.MirroredStrategy,
    tf.distribute.MultiWorkerMirroredStrategy,
)


def make_strategy(name: str = "auto") -> tf.distribute.Strategy:
    """The strategy of a name. Call it before anything else runs on TensorFlow.

    Args:
        name: "none" trains on one device. "mirrored" trains on all GPUs of this
            machine, or, where there is none, on all logical CPU devices.
            "multi_worker" is one of the processes that the environment variable
            TF_CONFIG lists, and waits for the others. "auto" is "multi_worker" where
            TF_CONFIG lists workers, else "mirrored" where there are several GPUs, else
            "none".

    Raises:
        ValueError: TF_CONFIG cannot be used.
        WorkerLostError: a worker did not come, within an hour.
    """
    check_one_of("strategy", name, STRATEGIES)
    workers = Workers.from_environment()
    if name == "auto":
        if workers.tasks:
            name = "multi_worker"
        else:
            several = len(tf.config.list_physical_devices("GPU")) > 1
            name = "mirrored" if several else "none"
    if name == "multi_worker":
        if not workers.tasks:
            raise ValueError(
                "Invalid value for argument `strategy`. Expected the workers in the "
                "environment variable TF_CONFIG for 'multi_worker'. Received: none "
                "there"
            )
        if len(workers.tasks) > 1:
            # TensorFlow waits for an hour and says nothing.
            print(f"Waiting for the other workers. This is {workers}.", flush=True)
        with naming_lost_workers(workers):
            return tf.distribute.MultiWorkerMirroredStrategy()
    if name == "mirrored":
        devices = tf.config.list_logical_devices("GPU")
        devices = devices or tf.config.list_logical_devices("CPU")
        return tf.distribute.MirroredStrategy([device.name for device in devices])
    return tf.distribute.get_strategy()


def describe(strategy: tf.distribute.Strategy) -> str:
    """A line that says on what a strategy trains."""
    workers, replicas = Workers.of(strategy), strategy.num_replicas_in_sync
    if workers.tasks:
        return f"Strategy multi_worker: {workers}, {replicas} replicas in all"
    if isinstance(strategy, tf.distribute.MirroredStrategy):
        return f"Strategy mirrored: {replicas} replicas on this machine"
    return "Strategy none: one device"


class ReplicatedAdam(FusedAdam):
    """Adam that combines the gradients of all replicas before it clips them.

    Keras clips the gradient of every replica by itself, and with it an outlier in one
    of them or the norm of a small part of a batch. This one takes the sum over the
    replicas first, and clips that by `global_clipnorm`: the step of one process on the
    whole batch.

    Args: those of `keras.optimizers.Adam` but for `weight_decay`, `clipnorm`,
        `clipvalue`, `use_ema` and `gradient_accumulation_steps`.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        for name in (
            "weight_decay",
            "clipnorm",
            "clipvalue",
            "use_ema",
            "gradient_accumulation_steps",
        ):
            if getattr(self, name):
                raise ValueError(
                    f"Invalid value for argument `{name}`. Expected none, for training "
                    f"on several replicas. Received: {name}={getattr(self, name)!r}"
                )

    def apply(self, grads, trainable_variables=None):
        replica = tf.distribute.get_replica_context()
        variables = [v.value for v in trainable_variables]
        # Dense, as its norm needs the sum of the slices of an embedding's row.
        gradients = [tf.convert_to_tensor(gradient) for gradient in grads]
        gradients = replica.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        if self.global_clipnorm:
            gradients, _ = tf.clip_by_global_norm(gradients, self.global_clipnorm)
        rate = self.learning_rate

        def update(strategy, gradients):
            for variable, gradient in zip(variables, gradients, strict=True):
                strategy.extended.update(
                    variable,
                    lambda v, gradient: self.update_step(gradient, v, rate),
                    args=(gradient,),
                    group=False,
                )

        replica.merge_call(update, args=(gradients,))
        self.iterations.assign_add(1)


def fit(
    model: keras.Model,
    dataset: tf.data.Dataset,
    *,
    epochs: int,
    initial_epoch: int = 0,
    validation_data: tf.data.Dataset | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    verbose: int = 1,
) -> keras.callbacks.History:
    """`model.fit` for a model that was made and compiled in a strategy's scope.

    A model made outside of any is trained by `model.fit` itself. Callbacks run on the
    worker that passes them and outside of the scope: give those that write files to
    the chief alone. Where one of them sets `model.stop_training`, on any worker, all
    workers end after that epoch. Logs of a batch are those of this worker's first
    replica; logs of an epoch are of all replicas. In an epoch's `loss`, a mean over
    batches by their rows, a last batch that does not come out even counts its rows
    rounded up; the metrics of tokens are exact.

    Args:
        model: a model compiled with a `ReplicatedAdam`, or an optimizer that clips
            nothing, and a loss that divides by the real tokens and takes sample
            weights, as `MaskedCrossEntropy` does.
        dataset: batches `(inputs, labels)` with labels int `[B, T]`, 0 = padding, and
            a known number of batches. It has to give the same batches on all workers.
        epochs: the last epoch.
        initial_epoch: the number of epochs done.
        validation_data: likewise, for `val_` logs of every epoch.
        callbacks: the callbacks.
        verbose: 0, 1 or 2, as in `model.fit`.

    Raises:
        ValueError: the optimizer cannot be used, or workers read different data.
        WorkerLostError: a worker is gone. All that are left raise it.
    """
    strategy = model.distribute_strategy
    if not isinstance(strategy, _REPLICATED):
        return model.fit(
            dataset,
            shuffle=False,  # Keras would warn
            epochs=epochs,
            initial_epoch=initial_epoch,
            validation_data=validation_data,
            callbacks=list(callbacks),
            verbose=verbose,
        )
    _check_optimizer(model.optimizer)
    callback = keras.callbacks.CallbackList(
        list(callbacks),
        add_history=True,
        add_progbar=verbose != 0,
        model=model,
        verbose=verbose,
        epochs=epochs,
        steps=int(dataset.cardinality()),
    )
    train = _EpochLoop(model, model.train_step, dataset)
    test = validation_data and _EpochLoop(model, model.test_step, validation_data)
    model.stop_training = False
    callback.on_train_begin()
    logs: dict[str, float] = {}
    with naming_lost_workers(Workers.of(strategy)):
        for epoch in range(initial_epoch, epochs):
            callback.on_epoch_begin(epoch)
            logs = train.run(callback.on_train_batch_begin, callback.on_train_batch_end)
            if test:
                callback.on_test_begin()
                values = test.run(
                    callback.on_test_batch_begin, callback.on_test_batch_end
                )
                callback.on_test_end(values)
                logs |= {f"val_{name}": value for name, value in values.items()}
            callback.on_epoch_end(epoch, logs)
            if any(map(any, of_all_workers(strategy, [int(model.stop_training)]))):
                break
    callback.on_train_end(logs)
    return model.history


class _EpochLoop:
    """One pass over a dataset with every batch split among the replicas."""

    def __init__(self, model, replica_step, dataset):
        self.model = model
        self.strategy = model.distribute_strategy
        self.dataset = dataset

        def step(inputs, labels):
            logs = self.strategy.run(
                lambda *batch: replica_step(own_rows(*batch)), args=(inputs, labels)
            )
            first = self.strategy.experimental_local_results
            return {name: first(value)[0] for name, value in logs.items()}

        # One trace for all lengths; a second one would also have to be made by all
        # workers at the same step.
        self.step = tf.function(
            step, input_signature=dataset.element_spec, autograph=False
        )

    def run(self, on_batch_begin: Callable, on_batch_end: Callable) -> dict[str, float]:
        """Returns the metrics over all replicas."""
        with self.strategy.scope():
            self.model.reset_metrics()
        for number, (inputs, labels) in enumerate(self.dataset):
            if number == 0:
                # Different files, order or vocabularies would show here.
                content = [zlib.crc32(x.numpy()) for x in tf.nest.flatten(inputs)]
                require_same(self.strategy, first_batch=content)
            on_batch_begin(number)
            on_batch_end(number, self.step(inputs, labels))
        with self.strategy.scope():
            metrics = self.model.get_metrics_result()
            return {name: float(value) for name, value in metrics.items()}


def own_rows(inputs: Any, labels: tf.Tensor) -> tuple[Any, tf.Tensor, tf.Tensor]:
    """This replica's rows of a batch and their weight, in a replica context.

    Of N replicas the r-th takes the rows r, r + N, r + 2 N, and so on, so that each
    gets a like share of the short and the long ones. Where they do not come out even,
    a row stands in for the missing one with no label: all replicas have the same
    number of rows, and at least one.

    Args:
        inputs: a nest of tensors `[B, ...]`.
        labels: int `[B, T]`, 0 = padding.

    Returns:
        `(inputs, labels, weights)` with `ceil(B / N)` rows. A mean over this replica's
        tokens, times the weight, summed over the replicas, is the mean over the tokens
        of the batch.
    """
    replica = tf.distribute.get_replica_context()
    replicas = replica.num_replicas_in_sync
    size = tf.shape(labels)[0]
    rows = replica.replica_id_in_sync_group + replicas * tf.range(-(-size // replicas))
    tokens = tf.math.count_nonzero(labels, dtype=tf.float32)
    inputs = tf.nest.map_structure(lambda x: tf.gather(x, rows % size), inputs)
    labels = tf.where((rows < size)[:, None], tf.gather(labels, rows % size), 0)
    share = tf.math.count_nonzero(labels, dtype=tf.float32) / tf.maximum(tokens, 1.0)
    return inputs, labels, tf.fill(tf.shape(rows), share)


def _check_optimizer(optimizer) -> None:
    if isinstance(optimizer, ReplicatedAdam):
        return
    clips = any(
        getattr(optimizer, name, None)
        for name in ("global_clipnorm", "clipnorm", "clipvalue")
    )
    if clips or isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        raise ValueError(
            "Invalid optimizer for several replicas. Expected a ReplicatedAdam, or an "
            "optimizer that neither clips nor scales (as that of mixed_float16 does: "
            f"use mixed_bfloat16). Received: {type(optimizer).__name__}"
        )
