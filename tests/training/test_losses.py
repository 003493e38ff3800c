import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.training import MaskedCrossEntropy, Perplexity, TokenAccuracy

LABELS = np.array([[1, 3, 0], [2, 0, 0]])
LOGITS = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")


def log_softmax(x):
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def by_hand(smoothing, weights=None):
    log_p = log_softmax(LOGITS.astype("float64"))
    weights = np.ones(LABELS.shape) if weights is None else weights
    total, tokens = 0.0, 0
    for b, t in zip(*np.nonzero(LABELS), strict=True):
        nll = -log_p[b, t, LABELS[b, t]]
        uniform = -log_p[b, t].mean()
        total += weights[b, t] * ((1 - smoothing) * nll + smoothing * uniform)
        tokens += 1
    return total / tokens


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_mean_over_real_tokens_by_hand(smoothing):
    loss = MaskedCrossEntropy(smoothing)(LABELS, LOGITS)
    assert float(loss) == pytest.approx(by_hand(smoothing), abs=1e-6)


def test_padding_does_not_change_the_loss():
    loss = MaskedCrossEntropy(0.1)
    labels = np.pad(LABELS, [(0, 0), (0, 5)])
    logits = np.pad(LOGITS, [(0, 0), (0, 5), (0, 0)], constant_values=7.0)
    assert float(loss(labels, logits)) == pytest.approx(
        float(loss(LABELS, LOGITS)), abs=1e-6
    )


@pytest.mark.parametrize("per_token", [False, True])
def test_sample_weights(per_token):
    weights = np.array([[2.0, 2.0, 2.0], [0.5, 0.5, 0.5]])
    given = weights if per_token else weights[:, 0]
    loss = MaskedCrossEntropy(0.1)(LABELS, LOGITS, sample_weight=given)
    assert float(loss) == pytest.approx(by_hand(0.1, weights), abs=1e-6)


def test_a_batch_of_padding_has_loss_zero():
    assert float(MaskedCrossEntropy(0.1)(np.zeros((2, 3)), LOGITS)) == 0


def test_logits_of_low_precision_are_compared_in_float32():
    logits = ops.cast(LOGITS, "bfloat16")
    rounded = ops.convert_to_numpy(ops.cast(logits, "float32"))
    loss = MaskedCrossEntropy(0.1)
    assert float(loss(LABELS, logits)) == pytest.approx(
        float(loss(LABELS, rounded)), abs=1e-6
    )


def test_the_gradient_is_softmax_minus_smoothed_labels():
    tf = pytest.importorskip("tensorflow")
    logits = tf.constant(LOGITS)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = MaskedCrossEntropy(0.2)(LABELS, logits)
    gradient = tape.gradient(loss, logits).numpy()
    targets = 0.8 * np.eye(4)[LABELS] + 0.2 / 4
    expected = (np.exp(log_softmax(LOGITS)) - targets) * (LABELS != 0)[..., None] / 3
    np.testing.assert_allclose(gradient, expected, atol=1e-6)


def test_config_round_trip():
    loss = MaskedCrossEntropy(0.1)
    again = keras.losses.get(keras.losses.serialize(loss))
    assert again.label_smoothing == 0.1


def test_smoothing_out_of_range_is_named():
    with pytest.raises(ValueError, match=r"`label_smoothing`.*label_smoothing=1.0"):
        MaskedCrossEntropy(1.0)


def test_metrics_over_two_batches_by_hand():
    accuracy, perplexity = TokenAccuracy(), Perplexity()
    other_labels, other_logits = np.array([[3, 1, 2]]), LOGITS[:1] * 2
    for labels, logits in ((LABELS, LOGITS), (other_labels, other_logits)):
        accuracy.update_state(labels, logits)
        perplexity.update_state(labels, logits)
    right, nll, tokens = 0, 0.0, 0
    for labels, logits in ((LABELS, LOGITS), (other_labels, other_logits)):
        log_p = log_softmax(logits)
        for b, t in zip(*np.nonzero(labels), strict=True):
            right += log_p[b, t].argmax() == labels[b, t]
            nll -= log_p[b, t, labels[b, t]]
            tokens += 1
    assert tokens == 6
    assert float(accuracy.result()) == pytest.approx(right / 6, abs=1e-6)
    assert float(perplexity.result()) == pytest.approx(np.exp(nll / 6), rel=1e-5)
    perplexity.reset_state()
    assert float(perplexity.result()) == 1
