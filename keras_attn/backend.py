"""What `keras.ops` does not offer in a form this package can use on every backend.

This is the one module below `text` that may import TensorFlow, and only when
TensorFlow is the backend that Keras runs on.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops, tree


def scan(step: Callable, init: Any, xs: Any, output_dtypes: tuple[str, ...]):
    """Run `step` over the leading axis of `xs`, carrying a state along.

    `keras.ops.scan` on the TensorFlow backend can emit only what has the structure,
    shapes and dtypes of the carry, and sets no `maximum_iterations`, without which XLA
    refuses to differentiate the loop. This one has neither limit.

    Args:
        step: `(carry, x) -> (carry, outputs)`, `outputs` a tuple of tensors.
        init: the first carry, a nest of tensors.
        xs: a nest of tensors of one leading length, `[T, ...]`.
        output_dtypes: the dtypes of `outputs`, in order.

    Returns:
        The last carry, and a tuple of the outputs stacked to `[T, ...]`.
    """
    if keras.backend.backend() == "tensorflow":
        return _tensorflow_scan(step, init, xs, output_dtypes)
    return ops.scan(step, init, xs)


def _tensorflow_scan(step, init, xs, output_dtypes):
    import tensorflow as tf

    flat_xs = [tf.convert_to_tensor(x) for x in tree.flatten(xs)]
    length = tf.shape(flat_xs[0])[0]
    inputs = [
        tf.TensorArray(x.dtype, size=length, element_shape=x.shape[1:]).unstack(x)
        for x in flat_xs
    ]
    outputs = [tf.TensorArray(dtype, size=length) for dtype in output_dtypes]
    carry = tree.map_structure(tf.convert_to_tensor, init)

    def body(t, carry, outputs):
        x = tree.pack_sequence_as(xs, [array.read(t) for array in inputs])
        next_carry, emitted = step(carry, x)
        written = [a.write(t, y) for a, y in zip(outputs, emitted, strict=True)]
        flat = [
            tf.ensure_shape(new, old.shape)
            for new, old in zip(
                tree.flatten(next_carry), tree.flatten(carry), strict=True
            )
        ]
        return t + 1, tree.pack_sequence_as(carry, flat), written

    _, carry, outputs = tf.while_loop(
        lambda t, *_: t < length,
        body,
        (tf.constant(0), carry, outputs),
        maximum_iterations=length,
    )
    stacked = tuple(array.stack() for array in outputs)
    steps = flat_xs[0].shape[:1]
    for y in stacked:
        y.set_shape(steps.concatenate(y.shape[1:]))
    return carry, stacked


def compiled(function: Callable) -> Callable:
    """`function` as a graph, where the backend would else run its loops in Python."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.function(function, autograph=False, reduce_retracing=True)
    return function


def has_cudnn() -> bool:
    """Whether Keras's recurrent layers can run on cuDNN here."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return bool(tf.config.list_logical_devices("GPU"))
    return False
