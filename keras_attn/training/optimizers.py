"""Adam in one pass over its variables."""

import keras


@keras.saving.register_keras_serializable("keras_attn")
class FusedAdam(keras.optimizers.Adam):
    """Adam, each variable updated by one operation on TensorFlow.

    The same update as `keras.optimizers.Adam`, which needs about ten passes over
    variable, moments and gradient, and several more over the gradients of embeddings
    that come as slices: these are made dense before they are clipped, since Adam's
    moments decay in every row anyway. On other backends, and with `amsgrad`, it is
    Keras's own.

    Args: those of `keras.optimizers.Adam`.

    Reference: Kingma & Ba 2015, section 2, last paragraph: epsilon is added to the
    square root before the correction of the bias.
    """

    def apply(self, grads, trainable_variables=None):
        if keras.backend.backend() == "tensorflow":
            grads = [_dense(gradient) for gradient in grads]
        super().apply(grads, trainable_variables)

    def update_step(self, gradient, variable, learning_rate):
        if keras.backend.backend() != "tensorflow" or self.amsgrad:
            super().update_step(gradient, variable, learning_rate)
            return
        import tensorflow as tf

        index = self._get_variable_index(variable)
        moments = self._momentums[index].value, self._velocities[index].value
        dtype = variable.dtype
        step = tf.cast(self.iterations + 1, dtype)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=moments[0].handle,
            v=moments[1].handle,
            beta1_power=tf.pow(tf.cast(self.beta_1, dtype), step),
            beta2_power=tf.pow(tf.cast(self.beta_2, dtype), step),
            lr=tf.cast(learning_rate, dtype),
            beta1=tf.cast(self.beta_1, dtype),
            beta2=tf.cast(self.beta_2, dtype),
            epsilon=tf.cast(self.epsilon, dtype),
            grad=tf.cast(gradient, dtype),
        )


def _dense(gradient):
    import tensorflow as tf

    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    return tf.scatter_nd(
        gradient.indices[:, None], gradient.values, gradient.dense_shape
    )
