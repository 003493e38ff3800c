"""The training loss."""

import keras
from keras import ops

from keras_attn import backend
from keras_attn.checks import check_fraction


def cross_entropy(labels, logits, label_smoothing: float = 0.0):
    """Label-smoothed cross-entropy of every position, in nats and float32.

    It has its own gradient, softmax less smoothed labels. That of `keras.ops` costs
    several times as much, most of it in the gradient of picking the label's logit.

    Args:
        labels: int `[B, T]`.
        logits: `[B, T, V]`.
        label_smoothing: e, see `MaskedCrossEntropy`.

    Returns:
        `[B, T]`.
    """
    dtype, vocabulary_size = logits.dtype, logits.shape[-1]
    labels = ops.cast(labels, "int32")

    @ops.custom_gradient
    def compute(logits):
        logits = ops.cast(logits, "float32")
        probs = ops.softmax(logits, axis=-1)
        # The logarithm of the sum of exp(logit), by the largest of them.
        log_sum = ops.max(logits, axis=-1) - ops.log(ops.max(probs, axis=-1))
        losses = log_sum - (1 - label_smoothing) * pick(logits, labels)
        if label_smoothing:
            losses = losses - label_smoothing * ops.mean(logits, axis=-1)

        def gradient(*args, upstream=None):
            upstream = ops.expand_dims(args[0] if upstream is None else upstream, -1)
            d = probs
            if label_smoothing:
                d = d - label_smoothing / vocabulary_size
            d = _subtract_at(d * upstream, labels, (1 - label_smoothing) * upstream)
            return ops.cast(d, dtype)

        return losses, gradient

    return compute(logits)


def pick(logits, labels):
    """Of `[B, T, V]` what stands at labels int32 `[B, T]`: `[B, T]`."""
    chosen = ops.take_along_axis(logits, ops.expand_dims(labels, -1), axis=-1)
    return ops.squeeze(chosen, -1)


def _subtract_at(x, labels, values):
    """x `[B, T, V]` less values `[B, T, 1]` at labels `[B, T]`."""
    batch, length = ops.shape(labels)
    rows = ops.arange(batch * length, dtype="int32")
    # [B * T, 2]
    index = ops.stack([rows, ops.reshape(labels, (-1,))], axis=1)
    flat = ops.reshape(x, (-1, x.shape[-1]))
    flat = ops.scatter_update(flat, index, ops.reshape(-values, (-1,)), "add")
    return ops.reshape(flat, (batch, length, x.shape[-1]))


def real_tokens(labels):
    """1.0 where a label is a token, 0.0 where it is padding (0)."""
    return ops.cast(ops.not_equal(labels, 0), "float32")


@keras.saving.register_keras_serializable("keras_attn")
class MaskedCrossEntropy(keras.losses.Loss):
    """Label-smoothed cross-entropy per token, in nats; padding (label 0) is ignored.

    The mean over all real tokens of the batch of

        -(1 - e) log p(y) - e / V sum_k log p(k)

    (Szegedy et al. 2016, section 7), so that neither the amount of padding nor the
    length of a sentence changes the weight of a token.

    Args:
        label_smoothing: e, at least 0 and below 1.

    Call arguments:
        y_true: int `[B, T]`, 0 = padding.
        y_pred: logits `[B, T, V]`.
        sample_weight: None, `[B]` or `[B, T]`.

    Output:
        A scalar, float32.
    """

    def __init__(self, label_smoothing: float = 0.0, name="masked_cross_entropy"):
        super().__init__(name=name)
        self.label_smoothing = check_fraction("label_smoothing", label_smoothing)

    def call(self, y_true, y_pred):
        """The loss of every position, `[B, T]`, padding not yet left out."""
        return cross_entropy(y_true, y_pred, self.label_smoothing)

    def __call__(self, y_true, y_pred, sample_weight=None):
        # Keras would divide by the number of positions, padding included.
        y_true = ops.convert_to_tensor(y_true)
        real = real_tokens(y_true)
        if sample_weight is not None:
            sample_weight = ops.cast(sample_weight, "float32")
            if len(sample_weight.shape) == 1:
                sample_weight = ops.expand_dims(sample_weight, -1)
            sample_weight = real * sample_weight
        product = backend.product_of(y_pred)
        if product is not None:
            smoothing = self.label_smoothing
            total = product.cross_entropy(y_true, sample_weight, smoothing).loss
        else:
            losses = self.call(y_true, ops.convert_to_tensor(y_pred))
            total = ops.sum(losses * (real if sample_weight is None else sample_weight))
        return total / ops.maximum(ops.sum(real), 1.0)

    def get_config(self):
        return {"label_smoothing": self.label_smoothing, "name": self.name}
