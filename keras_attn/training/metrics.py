"""Token metrics that ignore padding."""

import keras
from keras import ops

from keras_attn import backend
from keras_attn.training.losses import cross_entropy, pick, real_tokens


class _TokenMean(keras.metrics.Metric):
    """Mean of a value per real token over all batches seen."""

    def __init__(self, name=None, dtype=None):
        super().__init__(name=name, dtype=dtype)
        self.total = self.add_weight(name="total", initializer="zeros")
        self.tokens = self.add_weight(name="tokens", initializer="zeros")

    def values(self, y_true, y_pred):
        """The value of every position, `[B, T]`."""
        raise NotImplementedError

    def total_of(self, sums):
        """The sum of the values, of a loss's `backend.tensorflow_loss.Sums`."""
        raise NotImplementedError

    def update_state(self, y_true, y_pred, sample_weight=None):
        y_true = ops.convert_to_tensor(y_true)
        real = real_tokens(y_true)
        product = backend.product_of(y_pred)
        sums = None if product is None else product.sums_of(y_true)
        if sums is None:
            total = ops.sum(ops.cast(self.values(y_true, y_pred), "float32") * real)
        else:
            total = self.total_of(sums)
        self.total.assign_add(ops.cast(total, self.total.dtype))
        self.tokens.assign_add(ops.cast(ops.sum(real), self.tokens.dtype))

    def result(self):
        return self.total / ops.maximum(self.tokens, 1)


@keras.saving.register_keras_serializable("keras_attn")
class TokenAccuracy(_TokenMean):
    """Share of the real tokens (label not 0) whose logit is the largest.

    Args of `update_state`: y_true int `[B, T]`, y_pred logits `[B, T, V]`; a sample
    weight is ignored.
    """

    def __init__(self, name="token_accuracy", dtype=None):
        super().__init__(name, dtype)

    def values(self, y_true, y_pred):
        # Not ops.argmax, which on TensorFlow costs seven passes over the logits.
        y_pred = ops.cast(y_pred, "float32")
        chosen = pick(y_pred, ops.cast(y_true, "int32"))
        return ops.equal(chosen, ops.max(y_pred, axis=-1))

    def total_of(self, sums):
        return sums.correct


@keras.saving.register_keras_serializable("keras_attn")
class Perplexity(_TokenMean):
    """exp of the mean cross-entropy per real token, in nats, without label smoothing.

    Args of `update_state`: y_true int `[B, T]`, y_pred logits `[B, T, V]`; a sample
    weight is ignored.
    """

    def __init__(self, name="perplexity", dtype=None):
        super().__init__(name, dtype)

    def values(self, y_true, y_pred):
        return cross_entropy(y_true, y_pred)

    def total_of(self, sums):
        return sums.nll

    def result(self):
        return ops.exp(super().result())
