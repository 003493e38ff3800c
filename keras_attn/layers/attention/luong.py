"""Multiplicative attention (Luong et al. 2015)."""

import keras
from keras import ops

from keras_attn.checks import check_one_of, check_positive
from keras_attn.layers.attention.base import (
    Attention,
    additive_score,
    dot_score,
    project_query,
)

SCORES = ("dot", "general", "concat")


@keras.saving.register_keras_serializable("keras_attn")
class LuongAttention(Attention):
    """Attention with one of the three scores of Luong et al.

        dot:      e_ij = s_i . h_j
        general:  e_ij = s_i^T W^T h_j
        concat:   e_ij = v . tanh(W [s_i; h_j])

    where `s` is the query and `h` the memory. The weights are created in this order:
    "general": kernel `[D, Q]`; "concat": kernel `[Q + D, units]`, v `[units]`; "dot"
    has none. With `scale` a scalar `[]` follows, a learned factor of the score that
    starts at 1.

    Args:
        score: "dot", "general" or "concat".
        units: width of the hidden layer of "concat"; None for the others.
        scale: whether the score is multiplied by a learned scalar.
        **kwargs: `kernel_initializer`, and what every Keras layer takes.

    Call arguments:
        query: `[B, Q]` or `[B, T, Q]`; for "dot" Q must equal D.
        memory: `[B, S, D]`.
        mask: bool `[B, S]`, True = a real position; by default the mask of `memory`.

    Output:
        `(context, weights)`, `[B, D]` and `[B, S]`, or `[B, T, D]` and `[B, T, S]`.

    Reference: Luong, Pham & Manning 2015, "Effective Approaches to Attention-based
    Neural Machine Translation", section 3.1.
    """

    def __init__(
        self,
        score: str = "dot",
        units: int | None = None,
        scale: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.score_name = check_one_of("score", score, SCORES)
        if (score == "concat") != (units is not None):
            raise ValueError(
                "Invalid value for argument `units`. Expected a positive integer for "
                'score="concat" and None for the other scores. Received: '
                f"units={units}, score={score!r}"
            )
        self.units = None if units is None else check_positive("units", units)
        self.use_scale = scale

    def build(self, query_shape, memory_shape):
        query_dim, memory_dim = query_shape[-1], memory_shape[-1]
        self.query_dim = query_dim
        if self.score_name == "dot" and query_dim != memory_dim:
            raise ValueError(
                "The dot score needs a query as wide as the memory. Received: query "
                f"{query_dim} wide, memory {memory_dim} wide. Use "
                'LuongAttention("general"), or layers of the same width.'
            )
        if self.score_name == "general":
            self.kernel = self._add_kernel("kernel", (memory_dim, query_dim))
        elif self.score_name == "concat":
            self.kernel = self._add_kernel(
                "kernel", (query_dim + memory_dim, self.units)
            )
            self.v = self._add_kernel("v", (self.units,))
        if self.use_scale:
            self.scale = self._add("scale", (), "ones")
        self.built = True

    def project_memory(self, memory):
        memory = ops.cast(memory, self.compute_dtype)
        if self.score_name == "general":
            memory = ops.matmul(memory, self._cast(self.kernel))
        elif self.score_name == "concat":
            memory = ops.matmul(memory, self._cast(self.kernel)[self.query_dim :])
        return ops.cast(memory, "float32")

    def step_weights(self):
        weights = {}
        if self.score_name == "concat":
            weights["query_kernel"] = self._cast(self.kernel)[: self.query_dim]
            weights["v"] = ops.cast(self.v, "float32")
        if self.use_scale:
            weights["scale"] = ops.cast(self.scale, "float32")
        return weights

    def score(self, query, keys, weights):
        if self.score_name == "concat":
            query = project_query(query, weights["query_kernel"])
            scores = additive_score(query, keys, weights["v"])
        else:
            scores = dot_score(query, keys)
        return scores * weights["scale"] if self.use_scale else scores

    def get_config(self):
        return {
            **super().get_config(),
            "score": self.score_name,
            "units": self.units,
            "scale": self.use_scale,
        }
