"""The training loss."""

import keras
from keras import ops

from keras_attn.checks import check_fraction


def token_cross_entropy(labels, logits):
    """-log p in float32 of labels `[B, T]` under logits `[B, T, V]`: `[B, T]`."""
    logits = ops.cast(logits, "float32")
    return ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)


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
        losses = token_cross_entropy(y_true, y_pred)
        if not self.label_smoothing:
            return losses
        # sum_k log p(k) / V = log p(y) - logit(y) + mean logit, which spares a second
        # normalisation over the vocabulary.
        y_pred = ops.cast(y_pred, "float32")
        index = ops.expand_dims(ops.cast(y_true, "int32"), -1)
        chosen = ops.squeeze(ops.take_along_axis(y_pred, index, axis=-1), -1)
        return losses + self.label_smoothing * (chosen - ops.mean(y_pred, axis=-1))

    def __call__(self, y_true, y_pred, sample_weight=None):
        # Keras would divide by the number of positions, padding included.
        y_true = ops.convert_to_tensor(y_true)
        y_pred = ops.convert_to_tensor(y_pred)
        real = real_tokens(y_true)
        weights = real
        if sample_weight is not None:
            sample_weight = ops.cast(sample_weight, "float32")
            if len(sample_weight.shape) == 1:
                sample_weight = ops.expand_dims(sample_weight, -1)
            weights = real * sample_weight
        losses = self.call(y_true, y_pred)
        return ops.sum(losses * weights) / ops.maximum(ops.sum(real), 1.0)

    def get_config(self):
        return {"label_smoothing": self.label_smoothing, "name": self.name}
