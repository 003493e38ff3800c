"""The contract that every attention mechanism keeps."""

import keras
from keras import ops

from keras_attn.backend import product

# A score that no softmax in float32 can tell from minus infinity, yet finite: the
# difference of two of them is 0 and not NaN.
MASKED_SCORE = -1e9


class Attention(keras.layers.Layer):
    """Base class of the attention mechanisms.

    A mechanism scores each memory position against a query, turns the scores into
    weights and returns the weighted sum of the memory, the context:

        e_j = score(query, memory_j),  a = softmax(e),  context = sum_j a_j memory_j

    It keeps no state between calls. What does not depend on the query is computed once
    per source by `project_memory`, and `step` is a pure function; `call` is the two
    together. A subclass implements `build`, `project_memory` and `score`.

    Scores and softmax are computed in float32 whatever the compute dtype. Weights are
    exactly 0 on masked positions and sum to 1 over the others; where a row's mask is
    all False its weights and its context are 0.

    Args:
        kernel_initializer: initializer of the mechanism's kernels and vectors.

    Call arguments:
        query: float tensor `[B, Q]` (one query) or `[B, T, Q]`.
        memory: float tensor `[B, S, D]`.
        mask: bool tensor `[B, S]`, True = a real position. Defaults to the Keras mask
            that `memory` carries, if any.

    Output:
        A pair `(context, weights)`: context `[B, D]` or `[B, T, D]` in the compute
        dtype, weights `[B, S]` or `[B, T, S]` in float32.
    """

    def __init__(self, kernel_initializer="glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def project_memory(self, memory):
        """The keys `[B, S, U]` of a memory `[B, S, D]`, in float32."""
        raise NotImplementedError

    def step_weights(self):
        """What `score` needs of the layer's weights, cast and split: a nest of tensors.

        A loop takes them once, outside, and hands them to every `step`.
        """
        return ()

    def score(self, query, keys, weights):
        """Scores of a query `[B, Q]` or `[B, T, Q]`: float32 `[B, S]` or `[B, T, S]`.

        Args:
            query: in the compute dtype.
            keys: what `project_memory` returned.
            weights: what `step_weights` returned.
        """
        raise NotImplementedError

    def initial_state(self, memory, mask=None):
        """The state before the first `step`: a nest of tensors, here an empty one."""
        return ()

    def step(self, query, keys, memory, mask, state, step_weights=None):
        """Attend once.

        Args:
            query: `[B, Q]` or `[B, T, Q]`.
            keys: what `project_memory(memory)` returned.
            memory: `[B, S, D]`.
            mask: bool `[B, S]` or None.
            state: what the last `step`, or `initial_state`, returned.
            step_weights: what `step_weights()` returned; taken when not given.

        Returns:
            `(context, weights, state)`.
        """
        query = ops.cast(query, self.compute_dtype)
        memory = ops.cast(memory, self.compute_dtype)
        if step_weights is None:
            step_weights = self.step_weights()
        weights = masked_softmax(self.score(query, keys, step_weights), mask)
        return weighted_sum(weights, memory), weights, state

    def call(self, query, memory, mask=None, memory_mask=None):
        # Keras fills `memory_mask` with the mask that `memory` carries.
        mask = memory_mask if mask is None else mask
        keys = self.project_memory(memory)
        state = self.initial_state(memory, mask)
        context, weights, _ = self.step(query, keys, memory, mask, state)
        return context, weights

    def compute_mask(self, query, previous_mask):
        # `previous_mask` may be the memory's; the outputs line up with the query.
        mask = getattr(query, "_keras_mask", None)
        return None if mask is None else (mask, mask)

    def compute_output_spec(self, query, memory, mask=None, memory_mask=None):
        context = (*query.shape[:-1], memory.shape[-1])
        weights = (*query.shape[:-1], memory.shape[1])
        return (
            keras.KerasTensor(context, dtype=self.compute_dtype),
            keras.KerasTensor(weights, dtype="float32"),
        )

    def get_config(self):
        return {
            **super().get_config(),
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }

    def _add_kernel(self, name, shape):
        # A copy each: one initializer object repeats its draw.
        initializer = self.kernel_initializer
        if isinstance(initializer, keras.initializers.Initializer):
            initializer = initializer.from_config(initializer.get_config())
        return self._add(name, shape, initializer)

    def _add(self, name, shape, initializer):
        # Not autocast: what enters the scores is float32, also within `__call__`.
        return self.add_weight(
            name=name, shape=shape, initializer=initializer, autocast=False
        )

    def _cast(self, variable):
        """A weight in the compute dtype, also when called outside of `__call__`."""
        return ops.cast(variable, self.compute_dtype)


def masked_softmax(scores, mask):
    """Softmax over the last axis of float32 scores; exactly 0 where mask is False.

    Args:
        scores: `[B, S]` or `[B, T, S]`.
        mask: bool `[B, S]` or None.
    """
    if mask is None:
        return ops.softmax(scores, axis=-1)
    mask = ops.cast(mask, "bool")
    if len(scores.shape) == 3:
        mask = ops.expand_dims(mask, 1)
    weights = ops.softmax(ops.where(mask, scores, MASKED_SCORE), axis=-1)
    # A row with no real position would come out uniform.
    return ops.where(mask, weights, 0.0)


def weighted_sum(weights, memory):
    """Context of weights `[B, S]` or `[B, T, S]` over a memory `[B, S, D]`."""
    weights = ops.cast(weights, memory.dtype)
    if len(weights.shape) == 3:
        return ops.matmul(weights, memory)
    return product(weights, memory)


def project_query(query, kernel):
    """Query `[B, Q]` or `[B, T, Q]` times kernel `[Q, U]`."""
    return (
        product(query, kernel) if len(query.shape) == 2 else ops.matmul(query, kernel)
    )


def additive_score(query, keys, vector, bias=None):
    """`vector . tanh(query + keys + bias)` in float32.

    Args:
        query: the projected query, `[B, U]` or `[B, T, U]`.
        keys: `[B, S, U]`, float32.
        vector: `[U]`.
        bias: `[U]` or None.
    """
    query = ops.cast(query, "float32")
    if bias is not None:
        query = query + ops.cast(bias, "float32")
    vector = ops.cast(vector, "float32")
    # einsum and not matmul: a left side [B, 1, S, U] crashes oneDNN's batched product.
    if len(query.shape) == 2:
        # [B, S, U]
        return ops.einsum("bsu,u->bs", ops.tanh(query[:, None, :] + keys), vector)
    # [B, T, S, U]
    hidden = ops.tanh(query[:, :, None, :] + keys[:, None, :, :])
    return ops.einsum("btsu,u->bts", hidden, vector)


def dot_score(query, keys):
    """Inner products in float32 of `[B, U]` or `[B, T, U]` with keys `[B, S, U]`."""
    query = ops.cast(query, "float32")
    if len(query.shape) == 2:
        return ops.einsum("bu,bsu->bs", query, keys)
    return ops.einsum("btu,bsu->bts", query, keys)
