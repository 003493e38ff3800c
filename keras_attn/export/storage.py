"""Weights that an export keeps in fewer bytes than the model does."""

import keras
import tensorflow as tf


class StoredWeights:
    """The weights of a model, rounded to a dtype, for the model to compute with.

    The model itself stays as it is. What it computes in is its own policy's affair:
    a float32 model casts the stored weights up, once a request and outside of the
    loops, and multiplies in float32, since most CPUs have no instructions for bfloat16
    and are then several times slower at it.

    Args:
        model: a built model.
        dtype: the dtype to keep the weights in.
    """

    def __init__(self, model: keras.Model, dtype: str):
        self.dtype = dtype
        self.values = [
            tf.Variable(tf.cast(weight.value, dtype), trainable=False, name=weight.name)
            for weight in model.weights
        ]
        self._weights = model.weights
        self._tables = {
            id(layer.embeddings)
            for layer in model.layers
            if isinstance(layer, keras.layers.Embedding)
        }

    def scope(self) -> keras.StatelessScope:
        """A scope in which the model has these weights in place of its own."""
        scope = keras.StatelessScope()
        for weight, value in zip(self._weights, self.values, strict=True):
            tensor = tf.convert_to_tensor(value)
            # Of a table a few rows are used, which its layer casts when it has them.
            if id(weight) not in self._tables:
                tensor = tf.cast(tensor, weight.dtype)
            scope.add_update((weight, tensor))
        return scope
