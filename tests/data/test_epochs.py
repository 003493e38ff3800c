"""Epochs of `model.fit` and workers of a distribution strategy."""

import itertools
import random
import warnings

import keras
import pytest
import tensorflow as tf

from keras_attn.data import (
    EpochSeed,
    ParallelCorpus,
    evaluation_dataset,
    training_dataset,
)
from keras_attn.text import CharacterTokenizer


class Recorder(keras.Model):
    """Keeps the labels that it is given, and learns nothing from them."""

    def __init__(self):
        super().__init__()
        self.seen = []
        self.built = True

    def train_step(self, data):
        self.seen.append(data[1].numpy().tolist())
        return {"loss": 0.0}

    def test_step(self, data):
        return {"loss": 0.0}


def recorder():
    model = Recorder()
    model.compile("sgd", "mse", run_eagerly=True)
    return model


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "pairs.tsv"
    draw = random.Random(1)
    words = ["".join(draw.choices("abcd", k=draw.randint(1, 9))) for _ in range(50)]
    path.write_text("".join(f"{word}\t{word[::-1]}\n" for word in words))
    return ParallelCorpus.from_tsv(path)


TOKENIZER = CharacterTokenizer(list("abcd"))


@pytest.fixture(scope="module")
def made(corpus):
    return training_dataset(corpus, TOKENIZER, TOKENIZER, batch_size=8)


@pytest.fixture
def training(made):
    made.set_epoch(0)
    return made


@pytest.fixture(scope="module")
def expected(made):
    """The labels of the epochs 0 to 3."""
    epochs = []
    for epoch in range(4):
        made.set_epoch(epoch)
        epochs.append(labels(made.dataset))
    assert all(len(epoch) == 7 for epoch in epochs)
    return epochs


def labels(dataset):
    return [labels.tolist() for _, labels in dataset.as_numpy_iterator()]


def test_fit_sees_every_epoch_whole_and_in_its_own_order(corpus, training, expected):
    model = recorder()
    validation = evaluation_dataset(corpus, TOKENIZER, TOKENIZER, batch_size=9)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*ran out of data.*")
        model.fit(
            training.dataset,
            validation_data=validation,
            epochs=3,
            callbacks=[EpochSeed(training)],
            verbose=0,
        )
    assert model.seen == expected[0] + expected[1] + expected[2]


def test_a_run_resumed_at_epoch_2_sees_what_an_unbroken_one_sees(training, expected):
    model = recorder()
    model.fit(
        training.dataset,
        initial_epoch=2,
        epochs=4,
        callbacks=[EpochSeed(training)],
        verbose=0,
    )
    assert model.seen == expected[2] + expected[3]


def test_a_run_restored_from_its_backup_goes_on_in_order(training, expected, tmp_path):
    class Interruption(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 2:
                raise KeyboardInterrupt

    def fit(model, *callbacks):
        backup = keras.callbacks.BackupAndRestore(str(tmp_path / "backup"))
        model.fit(
            training.dataset,
            epochs=3,
            callbacks=[backup, EpochSeed(training), *callbacks],
            verbose=0,
        )

    interrupted = recorder()
    with pytest.raises(KeyboardInterrupt):
        fit(interrupted, Interruption())
    assert interrupted.seen == expected[0] + expected[1]
    restored = recorder()
    fit(restored)
    assert restored.seen == expected[2]


def test_without_the_callback_the_epoch_stays_the_one_set(training, expected):
    training.set_epoch(1)
    model = recorder()
    model.fit(training.dataset, epochs=2, verbose=0)
    assert model.seen == expected[1] + expected[1]
    assert training.epoch == 1


def test_a_strategy_splits_the_batches_of_the_epoch(corpus, expected):
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    with strategy.scope():
        training = training_dataset(corpus, TOKENIZER, TOKENIZER, batch_size=8)
    training.set_epoch(3)
    distributed = strategy.experimental_distribute_dataset(training.dataset)
    seen = [strategy.experimental_local_results(y)[0] for _, y in distributed]
    assert [labels.numpy().tolist() for labels in seen] == expected[3]


def shard(dataset, workers, worker):
    """Returns the part of a worker, as a strategy of several workers does."""
    policy = dataset.options().experimental_distribute.auto_shard_policy
    variant = tf.raw_ops.AutoShardDataset(
        input_dataset=tf.data.experimental.to_variant(dataset),
        num_workers=workers,
        index=worker,
        auto_shard_policy=policy.value,
        output_types=[tf.int32] * 3,
        output_shapes=[tf.TensorShape([None, None])] * 3,
    )
    return tf.data.experimental.from_variant(variant, dataset.element_spec)


def test_workers_get_different_batches_and_all_of_them(training, expected):
    shards = [labels(shard(training.dataset, 3, worker)) for worker in range(3)]
    assert [len(part) for part in shards] == [3, 2, 2]
    assert sorted(itertools.chain(*shards)) == sorted(expected[0])
