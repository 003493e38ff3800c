import keras
import numpy as np
import pytest
from keras import ops, tree

from keras_attn import backend
from tests.layers.layer_checks import as_graph, assert_same, to_numpy

tensorflow_only = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="a promise of the TensorFlow loop"
)
RNG = np.random.default_rng(0)
T, B, U = 5, 2, 3
INPUTS = {
    "x": RNG.normal(size=(T, B, U)).astype("float32"),
    "keep": RNG.integers(0, 2, size=(T, B)).astype("bool"),
}
INIT = {"h": RNG.normal(size=(B, U)).astype("float32"), "count": [np.zeros(B, "int32")]}
DTYPES = ("float32", "int32", "bool")


def step(carry, x, _):
    """Emits things of shapes and dtypes that the carry does not have."""
    keep = x["keep"][:, None]
    h = ops.where(keep, ops.tanh(carry["h"] * x["x"] + 1.0), carry["h"])
    count = carry["count"][0] + ops.cast(x["keep"], "int32")
    both = ops.concatenate([h, x["x"]], axis=-1)
    return {"h": h, "count": [count]}, (both, ops.sum(count), ops.any(x["keep"]))


def loop(init, inputs):
    """The same in NumPy."""
    h, count, outputs = init["h"], init["count"][0], []
    for x, keep in zip(inputs["x"], inputs["keep"], strict=True):
        h = np.where(keep[:, None], np.tanh(h * x + 1), h)
        count = count + keep
        outputs.append((np.concatenate([h, x], -1), count.sum(), keep.any()))
    return {"h": h, "count": [count]}, tuple(
        np.stack(parts) for parts in zip(*outputs, strict=True)
    )


@pytest.mark.parametrize("graph", [False, True], ids=["eager", "graph"])
def test_scan_is_a_loop(graph):
    def run(init, inputs):
        return backend.scan(step, init, inputs, DTYPES)

    carry, outputs = as_graph(run, INIT, INPUTS) if graph else run(INIT, INPUTS)
    expected_carry, expected = loop(INIT, INPUTS)
    assert isinstance(outputs, tuple)
    assert_same(carry, expected_carry)
    assert_same(outputs, expected)
    for output, wanted, dtype in zip(outputs, expected, DTYPES, strict=True):
        assert tuple(output.shape) == wanted.shape
        assert keras.backend.standardize_dtype(output.dtype) == dtype


def test_scan_of_one_step():
    inputs = {key: value[:1] for key, value in INPUTS.items()}
    assert_same(backend.scan(step, INIT, inputs, DTYPES), loop(INIT, inputs))


@pytest.mark.parametrize("graph", [False, True], ids=["eager", "graph"])
def test_scan_of_no_step_returns_the_first_carry(graph):
    def run(init, inputs):
        return backend.scan(step, init, inputs, DTYPES)

    inputs = {key: value[:0] for key, value in INPUTS.items()}
    if graph:
        carry, outputs = as_graph(run, INIT, inputs)
    else:
        carry, outputs = run(INIT, inputs)
    assert_same(carry, INIT)
    assert [len(output) for output in outputs] == [0, 0, 0]


@tensorflow_only
def test_scan_keeps_the_length_it_is_told_and_takes_one_it_is_not():
    import tensorflow as tf

    spec = {
        "x": tf.TensorSpec([None, B, U], tf.float32),
        "keep": tf.TensorSpec([None, B], tf.bool),
    }
    shapes = []

    @tf.function(input_signature=[spec])
    def run(inputs):
        carry, outputs = backend.scan(step, INIT, inputs, DTYPES)
        shapes.append(outputs[0].shape)
        return carry, outputs

    for length in (1, 4, 0):
        inputs = {key: value[:length] for key, value in INPUTS.items()}
        carry, outputs = run(inputs)
        assert to_numpy(outputs[0]).shape[0] == length
        if length:
            assert_same((carry, outputs), loop(INIT, inputs))
    assert shapes[0].as_list() == [None, B, 2 * U]


def power_sum(carry, x, _):
    """c' = w x c, emitting the square of c': the derivatives can be written down."""
    carry = carry * x
    return carry, (carry * carry,)


# c_t = 2 w^t x_1 ... x_t with x = (1, 3, -1) and w = 1: 2, 6, -6, and the sum of
# squares is 4 w^2 + 36 w^4 + 36 w^6, whose derivative is 8 + 144 + 216.
XS = np.array([[1.0], [3.0], [-1.0]], "float32")
SUM, BY_W = 4.0 + 36 + 36, 8.0 + 144 + 216


@tensorflow_only
@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
def test_scan_can_be_differentiated(mode):
    """XLA too, on static shapes, where it asks for a bound on the number of steps."""
    import tensorflow as tf

    def value_and_gradients(w, xs, c):
        with tf.GradientTape() as tape:
            tape.watch((w, xs, c))
            carry, (squares,) = backend.scan(power_sum, c, xs * w, ("float32",))
            total = tf.reduce_sum(squares)
        return total, carry, tape.gradient(total, (w, xs, c))

    if mode != "eager":
        value_and_gradients = tf.function(
            value_and_gradients, jit_compile=mode == "xla", autograph=False
        )
    arguments = (tf.constant(1.0), tf.constant(XS), tf.constant([2.0]))
    total, carry, (by_w, by_xs, by_c) = value_and_gradients(*arguments)
    np.testing.assert_allclose(total, SUM, 1e-6)
    np.testing.assert_allclose(carry, [-6.0], 1e-6)
    np.testing.assert_allclose(by_w, BY_W, 1e-6)
    # x_i is in c_t for every t >= i: twice the squares from there on, over x_i.
    np.testing.assert_allclose(by_xs[:, 0], [2 * 76, 2 * 72 / 3, -2 * 36], 1e-6)
    np.testing.assert_allclose(by_c, [2 * SUM / 2], 1e-6)


CONSTANTS = {
    "kernel": RNG.normal(size=(U, U)).astype("float32"),
    "twice": RNG.normal(size=(U, U)).astype("float32"),
    "memory": RNG.normal(size=(B, 4, U)).astype("float32"),
    "bias": RNG.normal(size=(U,)).astype("float32"),
    "unused": np.ones((2,), "float32"),
    "mask": np.array([[True, True, False, True], [True, False, False, False]]),
}


def use_everything(carry, x, constants):
    """Constants used in every way, as by two layers with an attention."""
    h = carry["h"]
    # A product with the carry, one with a result of it, one with each row's memory.
    hidden = ops.tanh(backend.product(h, constants["kernel"]) + constants["bias"])
    scores = ops.einsum("bu,bsu->bs", hidden, constants["memory"])
    weights = ops.softmax(ops.where(constants["mask"], scores, -1e9), axis=-1)
    context = backend.product(weights, constants["memory"])
    context = backend.product(context, constants["twice"]) + x["x"]
    context = backend.product(ops.tanh(context), constants["twice"])
    # What is no constant of the loop multiplies as well.
    context = backend.product(context, ops.eye(U) * 0.5)
    h = ops.where(x["keep"][:, None], context, h) + ops.sum(constants["twice"])
    count = carry["count"][0] + 1
    return {"h": h, "count": [count]}, (weights, count, ops.sum(h * h))


EVERYTHING_DTYPES = ("float32", "int32", "float32")


@tensorflow_only
@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
@pytest.mark.parametrize("length", [1, T])
def test_scan_in_training_has_the_gradients_tensorflow_finds(mode, length):
    import tensorflow as tf

    inputs = {key: value[:length] for key, value in INPUTS.items()}
    arguments = tree.map_structure(tf.constant, (INIT, inputs, CONSTANTS))

    def results_and_gradients(arguments, training):
        init, xs, constants = arguments
        floats = [x for x in tree.flatten(arguments) if x.dtype.is_floating]
        with tf.GradientTape() as tape:
            tape.watch(floats)
            results = backend.scan(
                use_everything, init, xs, EVERYTHING_DTYPES, constants, training
            )
            carry, (weights, _, squares) = results
            total = tf.reduce_sum(carry["h"]) + tf.reduce_sum(squares)
            total += tf.reduce_sum(weights * weights)
        return results, tape.gradient(total, floats, unconnected_gradients="zero")

    run = results_and_gradients
    if mode != "eager":
        run = tf.function(run, jit_compile=mode == "xla", autograph=False)
    expected = results_and_gradients(arguments, training=False)
    assert_same(run(arguments, training=True), expected, atol=1e-4)


def test_compiled_gives_what_the_function_gives():
    function = backend.compiled(lambda x: {"twice": 2 * x, "same": x})
    x = ops.convert_to_tensor([1.0, 2.0])
    assert_same(function(x), {"twice": np.array([2.0, 4.0]), "same": x})


@tensorflow_only
def test_compiled_is_traced_once_for_every_length():
    lengths = []

    def function(x):
        lengths.append(x.shape)
        return ops.sum(x)

    compiled = backend.compiled(function)
    totals = [float(compiled(ops.ones((n,)))) for n in range(2, 8)]
    assert totals == [2, 3, 4, 5, 6, 7]
    assert len(lengths) == 2
