import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.training import FusedAdam

RNG = np.random.default_rng(0)
START = [RNG.normal(size=(6, 3)), RNG.normal(size=(4,))]
IDS = [[0, 2, 2], [5, 0, 1]]
SCHEDULE = keras.optimizers.schedules.CosineDecay(0.1, 10)


def train(optimizer, dense=False):
    """Five steps on an embedding, whose gradient comes as slices, and a vector.

    Keras's Adam squares the slices of a row that occurs twice one by one: it is given
    their sum.
    """
    variables = [keras.Variable(value, dtype="float32") for value in START]
    table, vector = variables
    for step in range(5):
        with tf.GradientTape() as tape:
            rows = tf.gather(table.value, IDS[step % 2])
            loss = tf.reduce_sum(rows**3) + tf.reduce_sum(tf.sin(vector * step))
        gradients = tape.gradient(loss, [v.value for v in variables])
        assert isinstance(gradients[0], tf.IndexedSlices)
        if dense:
            gradients[0] = tf.convert_to_tensor(gradients[0])
        optimizer.apply(gradients, variables)
    return [v.numpy() for v in variables + optimizer.variables]


@pytest.mark.parametrize(
    "options",
    [
        {"learning_rate": 0.1},
        {"learning_rate": SCHEDULE, "global_clipnorm": 1.0},
        {"learning_rate": 0.1, "beta_1": 0.8, "beta_2": 0.9, "epsilon": 1e-4},
        {"learning_rate": 0.1, "clipvalue": 0.5, "weight_decay": 0.1, "use_ema": True},
        {"learning_rate": 0.1, "amsgrad": True},
    ],
    ids=["plain", "schedule and clip", "other moments", "decay and average", "amsgrad"],
)
def test_updates_as_keras_does(options):
    actual = train(FusedAdam(**options))
    expected = train(keras.optimizers.Adam(**options), dense=True)
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, e, atol=1e-5)


def test_rows_that_did_not_occur_move_by_their_moments():
    """As in Keras: the gradient is dense, not the lazy one of some sparse Adams."""
    table = keras.Variable(np.ones((2, 1)), dtype="float32")
    optimizer = FusedAdam(0.1)
    for row in (0, 1):
        slices = tf.IndexedSlices(tf.ones((1, 1)), tf.constant([row]), (2, 1))
        optimizer.apply([slices], [table])
        # The row of the first step goes on moving in the second.
        assert table.numpy()[0, 0] < 1 - 0.05 * (row + 1)


def test_config_round_trip_and_saving(tmp_path):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(FusedAdam(0.1, global_clipnorm=1.0), "mse")
    model.fit(np.ones((4, 2)), np.ones((4, 1)), verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert isinstance(loaded.optimizer, FusedAdam)
    assert loaded.optimizer.get_config() == model.optimizer.get_config()
    for a, b in zip(loaded.optimizer.variables, model.optimizer.variables, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
