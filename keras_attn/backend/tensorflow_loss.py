"""The cross-entropy of an output layer without its logits, on TensorFlow.

The logits of a batch are by far its largest tensor, and a loss and its gradient pass
over them a dozen times. Here they are made some rows at a time, only for the rows that
count, and their part of the gradient is computed while they are in the cache; nothing
of their size is kept (as in Hsu et al. 2024, "Liger Kernel").
"""

from typing import NamedTuple

import tensorflow as tf

# Logits at once: 16 MB of float32 on a CPU, about what its cache holds.
ELEMENTS = {"CPU": 2**22, "GPU": 2**26}
MIN_ROWS = 128


class Sums(NamedTuple):
    """Sums over the real tokens of a batch, float32 `[]`."""

    loss: tf.Tensor  # weighted and smoothed
    nll: tf.Tensor  # negative log-likelihood in nats
    correct: tf.Tensor  # tokens whose logit is the largest


class Product:
    """The logits `hidden @ kernel + bias`, not yet multiplied.

    Args:
        hidden: `[B, T, H]`, in the dtype to multiply in.
        kernel: `[H, V]`, likewise.
        bias: `[V]`, likewise.
    """

    def __init__(self, hidden, kernel, bias):
        self.hidden, self.kernel, self.bias = hidden, kernel, bias
        self._labels, self._sums = None, None

    def cross_entropy(self, labels, weights, label_smoothing: float) -> Sums:
        """The loss, summed over the real tokens.

        Args:
            labels: int `[B, T]`, 0 = padding.
            weights: float32 `[B, T]` or None, factors of the loss of each token.
            label_smoothing: see `keras_attn.training.MaskedCrossEntropy`.

        Returns:
            `Sums`, of which `loss` has a gradient.
        """
        self._labels = labels
        self._sums = _cross_entropy(
            self.hidden, self.kernel, self.bias, labels, weights, label_smoothing
        )
        return self._sums

    def sums_of(self, labels) -> Sums | None:
        """What `cross_entropy` returned for these labels, for metrics."""
        return self._sums if labels is self._labels else None


def _cross_entropy(hidden, kernel, bias, labels, weights, label_smoothing) -> Sums:
    real = tf.where(labels != 0)
    labels = tf.cast(tf.gather_nd(labels, real), tf.int32)
    weights = None if weights is None else tf.gather_nd(weights, real)

    @tf.custom_gradient
    def compute(hidden, kernel, bias):
        rows = tf.gather_nd(hidden, real)
        sums, gradients = _sums_and_gradients(
            rows, kernel, bias, labels, weights, label_smoothing
        )

        def gradient(d_loss, *_):
            d_rows, d_kernel, d_bias = (d_loss * d for d in gradients)
            shape = tf.shape(hidden, out_type=tf.int64)
            return (
                tf.cast(tf.scatter_nd(real, d_rows, shape), hidden.dtype),
                tf.cast(d_kernel, kernel.dtype),
                tf.cast(d_bias, bias.dtype),
            )

        return sums, gradient

    return Sums(*compute(hidden, kernel, bias))


def _sums_and_gradients(rows, kernel, bias, labels, weights, label_smoothing):
    """The sums, and the gradients of their loss in float32."""
    count, width = tf.shape(rows)[0], kernel.shape[1]
    factors = tf.ones([count]) if weights is None else weights
    device = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
    size = max(ELEMENTS[device] // width, MIN_ROWS)
    # At least one, which is empty where a batch is nothing but padding.
    chunks = tf.maximum((count + size - 1) // size, 1)
    d_rows = tf.TensorArray(tf.float32, size=chunks, infer_shape=False)

    def body(i, sums, d_rows, d_kernel, d_bias):
        part = slice(i * size, (i + 1) * size)
        x = rows[part]
        logits = tf.cast(tf.nn.bias_add(tf.matmul(x, kernel), bias), tf.float32)
        of_part, d = _chunk(logits, labels[part], factors[part], label_smoothing)
        if weights is not None:
            d *= weights[part, None]
        d_bias += tf.raw_ops.BiasAddGrad(out_backprop=d)
        d = tf.cast(d, kernel.dtype)
        d_row = tf.cast(tf.matmul(d, kernel, transpose_b=True), tf.float32)
        d_kernel += tf.cast(tf.matmul(x, d, transpose_a=True), tf.float32)
        sums = [total + new for total, new in zip(sums, of_part, strict=True)]
        return i + 1, sums, d_rows.write(i, d_row), d_kernel, d_bias

    zeros = [tf.constant(0.0)] * 3, d_rows, tf.zeros(kernel.shape), tf.zeros(bias.shape)
    _, sums, d_rows, d_kernel, d_bias = tf.while_loop(
        lambda i, *_: i < chunks, body, (tf.constant(0), *zeros), parallel_iterations=1
    )
    gradients = tf.ensure_shape(d_rows.concat(), rows.shape), d_kernel, d_bias
    if label_smoothing:
        return _less_mean(
            sums, gradients, rows, kernel, bias, label_smoothing * factors
        )
    return sums, gradients


def _chunk(logits, labels, factors, label_smoothing):
    """The sums of some rows but for the mean logit; their gradient but for factors."""
    index = tf.stack([tf.range(tf.shape(labels)[0]), labels], axis=1)
    chosen, largest = tf.gather_nd(logits, index), tf.reduce_max(logits, 1)
    d = tf.nn.softmax(logits)
    # log sum exp(logit), by the largest probability, which is never 0.
    nll = largest - tf.math.log(tf.reduce_max(d, 1)) - chosen
    sums = [
        tf.reduce_sum(factors * (nll + label_smoothing * chosen)),
        tf.reduce_sum(nll),
        tf.reduce_sum(tf.cast(chosen >= largest, tf.float32)),
    ]
    ones = tf.fill(tf.shape(labels), 1.0 - label_smoothing)
    return sums, tf.tensor_scatter_nd_sub(d, index, ones)


def _less_mean(sums, gradients, rows, kernel, bias, factors):
    """Takes the mean logit of every row, times a factor, from its loss.

    The mean logit is a product with the mean column of the kernel: no pass over logits.
    """
    loss, *others = sums
    d_rows, d_kernel, d_bias = gradients
    rows, kernel, bias = (tf.cast(x, tf.float32) for x in (rows, kernel, bias))
    mean_kernel = tf.reduce_mean(kernel, 1)
    means = tf.linalg.matvec(rows, mean_kernel) + tf.reduce_mean(bias)
    width = kernel.shape[1]
    by_row = tf.linalg.matvec(rows, factors, transpose_a=True)
    gradients = (
        d_rows - factors[:, None] * mean_kernel,
        d_kernel - by_row[:, None] / width,
        d_bias - tf.reduce_sum(factors) / width,
    )
    return [loss - tf.reduce_sum(factors * means), *others], gradients
