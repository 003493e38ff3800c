"""What `keras.ops` does not offer in a form this package can use on every backend.

The modules `tensorflow_*` of this package import TensorFlow; they are imported
when TensorFlow is the backend that Keras runs on.
"""

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import keras
from keras import ops, tree

# How `product` multiplies: replaced while a loop of TensorFlow is differentiated.
_multiply: Callable | None = None


def scan(
    step: Callable,
    init: Any,
    xs: Any,
    output_dtypes: tuple[str, ...],
    constants: Any = (),
    training: bool = False,
):
    """Run `step` over the leading axis of `xs`, carrying a state along.

    `keras.ops.scan` on the TensorFlow backend can emit only what has the structure,
    shapes and dtypes of the carry, and sets no `maximum_iterations`, without which XLA
    refuses to differentiate the loop. This one has neither limit.

    With `training` TensorFlow differentiates the loop the way that suits recurrent
    layers: see `keras_attn.backend.tensorflow_scan`.

    Args:
        step: `(carry, x, constants) -> (carry, outputs)`, `outputs` a tuple of tensors.
        init: the first carry, a nest of tensors.
        xs: a nest of tensors of one leading length, `[T, ...]`.
        output_dtypes: the dtypes of `outputs`, in order.
        constants: a nest of tensors that are the same at every step. With `training`
            it has to hold every tensor that a gradient is wanted of, besides those of
            `init` and `xs`.
        training: whether gradients will be taken.

    Returns:
        The last carry, and a tuple of the outputs stacked to `[T, ...]`.
    """
    if keras.backend.backend() == "tensorflow":
        from keras_attn.backend import tensorflow_scan

        run = tensorflow_scan.train if training else tensorflow_scan.infer
        return run(step, init, xs, output_dtypes, constants)
    return ops.scan(lambda carry, x: step(carry, x, constants), init, xs)


def product(x, constant):
    """A matrix product with a constant of a loop, as the steps of `scan` write it.

    Args:
        x: `[B, I]`.
        constant: a kernel `[I, O]`, or `[B, I, O]`: one matrix a row.

    Returns:
        `[B, O]`.
    """
    return (_multiply or multiply)(x, constant)


def multiply(x, constant):
    """`product`, as it is computed."""
    if len(constant.shape) == 2:
        return ops.matmul(x, constant)
    return ops.einsum("bi,bio->bo", x, constant)


@contextmanager
def products_by(function: Callable):
    """Have `product` call `function(x, constant)` in the meantime."""
    global _multiply
    outer, _multiply = _multiply, function
    try:
        yield
    finally:
        _multiply = outer


def can_shrink() -> bool:
    """Whether tensors may become smaller within a loop: with TensorFlow's graphs."""
    return keras.backend.backend() == "tensorflow"


def while_loop(condition, body, variables: tuple, maximum_iterations: int, shrinks):
    """`keras.ops.while_loop`, in which some variables may lose rows.

    Args:
        condition: the variables to a bool.
        body: the variables to the next ones.
        variables: a tuple of nests of tensors.
        maximum_iterations: the most steps.
        shrinks: for each variable, whether the first axis of its tensors may change.

    Returns:
        The last variables.
    """
    if not can_shrink():
        return ops.while_loop(condition, body, variables, maximum_iterations)
    import tensorflow as tf

    def shape(x, shrinks):
        free = x.shape.rank and shrinks
        return tf.TensorShape([None, *x.shape[1:]]) if free else x.shape

    invariants = tuple(
        tree.map_structure(lambda x, s=s: shape(x, s), variable)
        for variable, s in zip(variables, shrinks, strict=True)
    )
    return tf.while_loop(
        condition,
        body,
        variables,
        shape_invariants=invariants,
        maximum_iterations=maximum_iterations,
    )


def remember_product(logits, hidden, kernel, bias) -> None:
    """Note on `logits` what they are made of, where a loss can make use of it.

    As Keras notes the logits on what a softmax returns; on TensorFlow only.

    Args:
        logits: `hidden @ kernel + bias`, `[B, T, V]`.
        hidden: `[B, T, H]`.
        kernel: `[H, V]` in the compute dtype.
        bias: `[V]`, likewise.
    """
    if keras.backend.backend() == "tensorflow":
        from keras_attn.backend.tensorflow_loss import Product

        logits._keras_attn_product = Product(hidden, kernel, bias)


def product_of(logits):
    """What `remember_product` noted, a `tensorflow_loss.Product`, or None."""
    return getattr(logits, "_keras_attn_product", None)


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
