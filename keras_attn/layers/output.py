"""The layer that makes logits over a vocabulary."""

import keras
from keras import ops

from keras_attn import backend


@keras.saving.register_keras_serializable("keras_attn")
class OutputLayer(keras.layers.Dense):
    """A dense layer over a vocabulary, whose loss need not look at its logits.

    In training on TensorFlow the logits know what they are the product of.
    `keras_attn.training.MaskedCrossEntropy` and the metrics beside it then compute
    what they need from that, some rows at a time, and in a compiled step the logits
    themselves are never made. To any other loss they are logits as usual.

    Args:
        units: number of tokens.
        **kwargs: what `keras.layers.Dense` takes.

    Call arguments:
        inputs: `[B, T, H]`.
        training: bool.

    Output:
        Logits `[B, T, units]` in the compute dtype.
    """

    def call(self, inputs, training=False):
        logits = super().call(inputs, training=training)
        if training and self.use_bias and self.activation is keras.activations.linear:
            kernel, bias = (
                ops.cast(weight, self.compute_dtype)
                for weight in (self.kernel, self.bias)
            )
            backend.remember_product(logits, inputs, kernel, bias)
        return logits
