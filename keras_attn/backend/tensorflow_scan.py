"""The loop of `backend.scan` on TensorFlow, and its gradient.

TensorFlow's own gradient of a while loop keeps every intermediate of every step, and
multiplies and adds up the gradient of every weight matrix step by step. Here the way
back is a second loop over the same step function:

- Of a step only the carry before it and the results of its matrix products
  (`backend.product`) are kept; the cheap rest is computed again (Chen et al. 2016,
  "Training Deep Nets with Sublinear Memory Cost").
- What the products add to the gradient of a constant, `sum_t x_t^T dy_t`, is one
  product over all steps after the loop. What else a constant is used for is summed up.
"""

from typing import Any, NamedTuple

import tensorflow as tf
from keras import tree

from keras_attn import backend


def infer(step, init, xs, output_dtypes, constants):
    """`backend.scan` with the gradient that TensorFlow finds."""
    init, xs = _tensors((init, xs))
    carry, outputs, _ = _forward(step, init, xs, output_dtypes, constants)
    return carry, outputs


def train(step, init, xs, output_dtypes, constants):
    """`backend.scan` with the gradient described above."""
    arguments = _tensors((init, xs, constants))

    @tf.custom_gradient
    def run(*flat):
        init, xs, constants = tree.pack_sequence_as(arguments, list(flat))
        plan = _plan(step, init, xs, constants)
        carry, outputs, kept = _forward(step, init, xs, output_dtypes, constants, plan)

        def gradient(*upstream):
            return _backward(step, init, xs, constants, plan, kept, upstream)

        return [*tree.flatten(carry), *outputs], gradient

    results = run(*tree.flatten(arguments))
    count = len(tree.flatten(arguments[0]))
    carry = tree.pack_sequence_as(arguments[0], results[:count])
    return carry, tuple(results[count:])


class _Plan(NamedTuple):
    """What one step does with the constants, by their position."""

    dtypes: list[Any]  # of the products with a constant
    multiplied: list[int]  # the constant of each product
    summed: list[int]  # constants that are used in other ways as well


class _Kept(NamedTuple):
    """What the way back reads, as arrays over the steps."""

    inputs: Any  # xs
    values: list[Any]  # of a plan: the carry before, and the products of, each step


def _plan(step, init, xs, constants) -> _Plan:
    """Found by tracing one step and its gradient."""
    flat = tree.flatten(constants)
    dtypes: list[Any] = []
    multiplied: list[int] = []
    summed: list[int] = []

    def keep(x, constant):
        i = _position(constant, flat)
        if i is None:
            return backend.multiply(x, constant)
        multiplied.append(i)
        dtypes.append(x.dtype)
        return _replayed(x, constant, backend.multiply(x, constant), [None, None])

    def trace():
        # Of xs[0] the shape alone matters, and there may be none.
        first = tree.map_structure(_zeros_of_a_step, xs)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(_floats((init, first, flat)))
            with backend.products_by(keep):
                results = step(init, first, constants)
        sources = [x for x in flat if x.dtype.is_floating]
        found = tape.gradient(_floats(results), sources)
        connected = [x for x, d in zip(sources, found, strict=True) if d is not None]
        summed.extend(_position(x, flat) for x in connected)

    tf.function(trace, autograph=False).get_concrete_function()
    return _Plan(dtypes, multiplied, summed)


def _forward(step, init, xs, output_dtypes, constants, plan=None):
    """The loop.

    Returns:
        The last carry, the outputs, and what the way back needs.
    """
    flat_xs, flat_constants = tree.flatten(xs), tree.flatten(constants)
    length = tf.shape(flat_xs[0])[0]
    inputs = tree.map_structure(_array_of, xs)
    dtypes = list(output_dtypes)
    if plan is not None:
        dtypes += [x.dtype for x in tree.flatten(init)] + plan.dtypes
    arrays = [tf.TensorArray(dtype, size=length) for dtype in dtypes]

    def body(t, carry, arrays):
        results = []

        def keep(x, constant):
            result = backend.multiply(x, constant)
            if _position(constant, flat_constants) is not None:
                results.append(result)
            return result

        x = tree.map_structure(lambda array: array.read(t), inputs)
        with backend.products_by(keep):
            new, emitted = step(carry, x, constants)
        values = list(emitted)
        if plan is not None:
            values += [*tree.flatten(carry), *results]
        return t + 1, _like(carry, new), _write(arrays, t, values)

    _, carry, arrays = tf.while_loop(
        lambda t, *_: t < length,
        body,
        (tf.constant(0), init, arrays),
        maximum_iterations=length,
    )
    count = len(output_dtypes)
    outputs = tuple(_stack(arrays[:count], flat_xs[0].shape[:1]))
    return carry, outputs, _Kept(inputs, arrays[count:])


def _backward(step, init, xs, constants, plan, kept, upstream):
    """The gradients of init, xs and constants from those of the results, all flat."""
    flat, count = tree.flatten(constants), len(tree.flatten(init))
    length = tf.shape(tree.flatten(xs)[0])[0]
    d_outputs = [_array_of(d) for d in _floats(upstream[count:])]
    summed = [flat[i] for i in plan.summed]
    sums = [tf.zeros(tf.shape(x), tf.float32) for x in summed]
    d_xs = [tf.TensorArray(x.dtype, size=length) for x in _floats(xs)]
    # Of every product, x and the gradient of the result.
    factors = [tf.TensorArray(t, size=length) for t in plan.dtypes for _ in "xy"]

    def body(t, d_carry, sums, d_xs, factors):
        values = [array.read(t) for array in kept.values]
        carry = tree.pack_sequence_as(init, values[:count])
        x = tree.map_structure(lambda array: array.read(t), kept.inputs)
        results, pairs = iter(values[count:]), []

        def replay(x, constant):
            if _position(constant, flat) is None:
                return backend.multiply(x, constant)
            result = next(results)
            pairs.append([x, tf.zeros_like(result)])
            return _replayed(x, constant, result, pairs[-1])

        sources = [_floats(carry), _floats(x), summed]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(sources)
            with backend.products_by(replay):
                results_of_step = step(carry, x, constants)
        d_carry, d_x, d_summed = tape.gradient(
            _floats(results_of_step),
            sources,
            [*d_carry, *[d.read(t) for d in d_outputs]],
            unconnected_gradients="zero",
        )
        sums = [s + tf.cast(d, s.dtype) for s, d in zip(sums, d_summed, strict=True)]
        factors = _write(factors, t, [factor for pair in pairs for factor in pair])
        return t - 1, d_carry, sums, _write(d_xs, t, d_x), factors

    _, d_init, sums, d_xs, factors = tf.while_loop(
        lambda t, *_: t >= 0,
        body,
        (length - 1, _floats(upstream[:count]), sums, d_xs, factors),
        maximum_iterations=length,
    )
    steps = tree.flatten(xs)[0].shape[:1]
    d_flat = [tf.zeros_like(x) if x.dtype.is_floating else None for x in flat]
    for i, d in zip(plan.summed, sums, strict=True):
        d_flat[i] = tf.cast(d, flat[i].dtype)
    factors = _stack(factors, steps)
    for i, x, d in zip(plan.multiplied, factors[::2], factors[1::2], strict=True):
        d_flat[i] += _gradient_of_constant(x, d, flat[i])
    return [
        *_among(tree.flatten(init), d_init),
        *_among(tree.flatten(xs), _stack(d_xs, steps)),
        *d_flat,
    ]


def _replayed(x, constant, result, pair):
    """The product of x and constant, known to be `result`.

    On the way back the gradient of the result replaces the second item of `pair`, and
    only that of x is computed.
    """

    @tf.custom_gradient
    def replay(x):
        def gradient(d):
            pair[1] = d
            if len(constant.shape) == 2:
                return tf.matmul(d, constant, transpose_b=True)
            return tf.einsum("bo,bio->bi", d, constant)

        return tf.identity(result), gradient

    return replay(x)


def _gradient_of_constant(xs, d_results, constant):
    """Of all steps: `[T, B, I]` and `[T, B, O]` to the shape of the constant."""
    if len(constant.shape) == 2:
        xs, d_results = (
            tf.reshape(y, [-1, width])
            for y, width in zip((xs, d_results), constant.shape, strict=True)
        )
        return tf.matmul(xs, d_results, transpose_a=True)
    return tf.einsum("tbi,tbo->bio", xs, d_results)


def _tensors(structure):
    return tree.map_structure(tf.convert_to_tensor, structure)


def _floats(structure):
    return [x for x in tree.flatten(structure) if x.dtype.is_floating]


def _among(tensors, gradients):
    """The gradients of the floating ones among the tensors, None for the others."""
    gradients = iter(gradients)
    return [next(gradients) if x.dtype.is_floating else None for x in tensors]


def _position(tensor, tensors):
    """The index of this very tensor, or None."""
    return next((i for i, other in enumerate(tensors) if other is tensor), None)


def _zeros_of_a_step(x):
    return tf.ensure_shape(tf.zeros(tf.shape(x)[1:], x.dtype), x.shape[1:])


def _array_of(x):
    array = tf.TensorArray(
        x.dtype,
        size=tf.shape(x)[0],
        element_shape=x.shape[1:],
        clear_after_read=False,
    )
    return array.unstack(x)


def _write(arrays, t, values):
    return [a.write(t, value) for a, value in zip(arrays, values, strict=True)]


def _stack(arrays, steps):
    """The arrays' values as tensors `[T, ...]`, T of the static shape `steps`."""
    stacked = [array.stack() for array in arrays]
    for y in stacked:
        y.set_shape(steps.concatenate(y.shape[1:]))
    return stacked


def _like(old, new):
    """`new` with the static shapes of `old`, which a loop has to keep."""
    return tree.map_structure(lambda o, n: tf.ensure_shape(n, o.shape), old, new)
