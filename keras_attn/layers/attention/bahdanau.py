"""Additive attention (Bahdanau et al. 2015)."""

import math

import keras
from keras import ops

from keras_attn.checks import check_positive
from keras_attn.layers.attention.base import (
    Attention,
    additive_score,
    project_query,
)


@keras.saving.register_keras_serializable("keras_attn")
class BahdanauAttention(Attention):
    """Additive attention.

        e_ij = v . tanh(W_q s_{i-1} + W_m h_j)

    where `s` is the query and `h` the memory. With `normalize`, v is replaced by
    g v / |v| and a bias b is added inside the tanh (Salimans & Kingma 2016).

    The weights are created in this order: query kernel `[Q, units]`, memory kernel
    `[D, units]`, v `[units]`, then with `normalize` g `[]` and b `[units]`.

    Args:
        units: width of the hidden layer in which query and memory are compared.
        normalize: whether to normalise v.
        **kwargs: `kernel_initializer`, and what every Keras layer takes.

    Call arguments:
        query: `[B, Q]` or `[B, T, Q]`.
        memory: `[B, S, D]`.
        mask: bool `[B, S]`, True = a real position; by default the mask of `memory`.

    Output:
        `(context, weights)`, `[B, D]` and `[B, S]`, or `[B, T, D]` and `[B, T, S]`.

    Example:

    >>> attention = BahdanauAttention(128)
    >>> context, weights = attention(decoder_state, encoder_outputs, mask=mask)

    Reference: Bahdanau, Cho & Bengio 2015, "Neural Machine Translation by Jointly
    Learning to Align and Translate", appendix A.1.2.
    """

    def __init__(
        self,
        units: int,
        normalize: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.units = check_positive("units", units)
        self.normalize = normalize

    def build(self, query_shape, memory_shape):
        units = self.units
        self.query_kernel = self._add_kernel("query_kernel", (query_shape[-1], units))
        self.memory_kernel = self._add_kernel(
            "memory_kernel", (memory_shape[-1], units)
        )
        self.v = self._add_kernel("v", (units,))
        if self.normalize:
            start = keras.initializers.Constant(math.sqrt(1 / units))
            self.g = self._add("g", (), start)
            self.b = self._add("b", (units,), "zeros")
        self.built = True

    def project_memory(self, memory):
        memory = ops.cast(memory, self.compute_dtype)
        return ops.cast(ops.matmul(memory, self._cast(self.memory_kernel)), "float32")

    def step_weights(self):
        weights = {"query_kernel": self._cast(self.query_kernel)}
        v = ops.cast(self.v, "float32")
        if not self.normalize:
            return {**weights, "v": v}
        v = ops.cast(self.g, "float32") * v / ops.norm(v)
        return {**weights, "v": v, "b": ops.cast(self.b, "float32")}

    def score(self, query, keys, weights):
        query = project_query(query, weights["query_kernel"])
        return additive_score(query, keys, weights["v"], weights.get("b"))

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "normalize": self.normalize,
        }
