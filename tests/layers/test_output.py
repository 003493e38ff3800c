"""OutputLayer, and the loss and metrics that do without its logits."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn import backend
from keras_attn.backend import tensorflow_loss
from keras_attn.layers import OutputLayer
from keras_attn.training import MaskedCrossEntropy, Perplexity, TokenAccuracy

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="a promise of the TensorFlow loss"
)
RNG = np.random.default_rng(0)
V, H = 300, 4
HIDDEN = RNG.normal(size=(5, 90, H)).astype("float32")
LABELS = RNG.integers(0, V, size=(5, 90)).astype("int32")
LABELS[:, 70:] = 0
WEIGHTS = RNG.uniform(0.5, 2.0, size=(5,)).astype("float32")


@pytest.fixture(params=[128, 1000], ids=["chunks", "one chunk"])
def rows(request, monkeypatch):
    """450 rows in four chunks, the last not full, or in one."""
    monkeypatch.setattr(tensorflow_loss, "ELEMENTS", {"CPU": request.param * V})


def make_layer(dtype=None):
    layer = OutputLayer(V, dtype=dtype, bias_initializer="random_normal")
    layer.build(HIDDEN.shape)
    return layer


def loss_and_gradients(layer, loss, training, weights=None):
    hidden = tf.constant(HIDDEN)
    with tf.GradientTape() as tape:
        tape.watch(hidden)
        logits = layer(hidden, training=training)
        value = loss(LABELS, logits, weights)
    sources = [hidden, *(v.value for v in layer.trainable_weights)]
    return [value, *tape.gradient(value, sources)]


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_and_gradients_are_those_of_the_logits(rows, smoothing, weights):
    layer, loss = make_layer(), MaskedCrossEntropy(smoothing)
    actual = loss_and_gradients(layer, loss, True, weights)
    expected = loss_and_gradients(layer, loss, False, weights)
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, e, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
def test_in_low_precision(rows, dtype):
    layer, exact, loss = make_layer(dtype), make_layer(), MaskedCrossEntropy(0.1)
    exact.set_weights(layer.get_weights())
    actual = loss_and_gradients(layer, loss, True)
    expected = loss_and_gradients(exact, loss, False)
    for a, e in zip(actual, expected, strict=True):
        scale = np.abs(e).max()
        np.testing.assert_allclose(a, e, atol=0.02 * scale)


@pytest.mark.parametrize("metric", [Perplexity, TokenAccuracy])
def test_metrics_are_those_of_the_logits(rows, metric):
    layer, labels = make_layer(), tf.constant(LABELS)
    logits = layer(HIDDEN, training=True)
    MaskedCrossEntropy(0.1)(labels, logits)
    from_sums, from_logits = metric(), metric()
    from_sums.update_state(labels, logits)
    from_logits.update_state(labels, tf.identity(logits))
    assert backend.product_of(logits).sums_of(labels) is not None
    assert float(from_sums.result()) == pytest.approx(
        float(from_logits.result()), rel=1e-5
    )


def test_sums_of_other_labels_are_not_taken():
    logits = make_layer()(HIDDEN, training=True)
    MaskedCrossEntropy()(tf.constant(LABELS), logits)
    assert backend.product_of(logits).sums_of(tf.constant(LABELS)) is None


def test_a_batch_of_padding_has_loss_and_gradients_zero():
    layer, hidden = make_layer(), tf.constant(HIDDEN)
    with tf.GradientTape() as tape:
        tape.watch(hidden)
        loss = MaskedCrossEntropy(0.1)(0 * LABELS, layer(hidden, training=True))
    assert float(loss) == 0
    assert not np.any(tape.gradient(loss, hidden))


def test_a_training_step_makes_no_logits():
    """What the speed rests on: `fit` has no tensor of positions by vocabulary."""
    inputs = keras.Input((None, H))
    model = keras.Model(inputs, make_layer()(inputs))
    metrics = [TokenAccuracy(), Perplexity()]
    model.compile("sgd", MaskedCrossEntropy(0.1), metrics=metrics, jit_compile=False)

    @tf.function(autograph=False)
    def step(hidden, labels):
        return model.train_step((hidden, labels))

    spec = tf.TensorSpec([5, 90, H]), tf.TensorSpec([5, 90], tf.int32)
    graph = step.get_concrete_function(*spec).graph
    logits = [
        op
        for op in graph.get_operations()
        for tensor in op.outputs
        if tensor.shape.rank == 3 and tensor.shape[-1] == V
    ]
    # They are written down in the model, and nothing that is kept depends on them.
    wanted, needed = list(graph.outputs), set()
    wanted += [t for op in graph.control_outputs for t in op.inputs]
    while wanted:
        op = wanted.pop().op
        if op not in needed:
            needed.add(op)
            wanted += op.inputs
            wanted += [t for c in op.control_inputs for t in c.inputs]
    assert logits
    assert not needed & set(logits)


def test_logits_outside_of_training_are_logits_only():
    assert backend.product_of(make_layer()(HIDDEN)) is None


def test_config_round_trip():
    layer = make_layer("mixed_bfloat16")
    copy = OutputLayer.from_config(layer.get_config())
    assert copy.get_config() == layer.get_config()
    assert keras.saving.get_registered_name(OutputLayer) == "keras_attn>OutputLayer"
