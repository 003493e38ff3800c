"""What every layer is put through."""

import keras
import numpy as np

ON_TENSORFLOW = keras.backend.backend() == "tensorflow"

# TensorFlow, the backend of everything else, is put through all of them.
POLICIES = ("float32", "mixed_float16", "mixed_bfloat16")
if not ON_TENSORFLOW:
    POLICIES = ("float32", "mixed_bfloat16")

# Whether to run compiled. JAX compiles its loops in any case.
GRAPH = {"eager": False, "graph": True} if ON_TENSORFLOW else {"graph": True}


def to_numpy(x):
    return np.asarray(keras.ops.convert_to_numpy(keras.ops.cast(x, "float32")))


def flat_numpy(nest):
    return [to_numpy(x) for x in keras.tree.flatten(nest)]


def assert_same(actual, expected, atol=1e-6):
    actual, expected = flat_numpy(actual), flat_numpy(expected)
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, e, atol=atol, rtol=atol)


def set_weights(layer, *values):
    layer.set_weights([np.array(value, "float32") for value in values])


def as_graph(function, *args):
    """The result of a function run compiled, on the backend in use."""
    if ON_TENSORFLOW:
        import tensorflow as tf

        return tf.function(function)(*args)
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(function)(*args)
    return function(*args)


def check_layer(model, inputs, path, layer, num_weights):
    """Config round trip and `.keras` save and load, in a functional model.

    Args:
        model: a functional model that holds `layer`.
        inputs: arrays for it.
        path: where to save, ending in .keras.
        layer: the layer under test.
        num_weights: the number of weights it should have.
    """
    assert len(layer.weights) == num_weights
    config = layer.get_config()
    again = type(layer).from_config(config)
    assert again.get_config() == config

    expected = model(inputs)
    # What the symbolic call promised is what came.
    for spec, value in zip(
        keras.tree.flatten(model.outputs), keras.tree.flatten(expected), strict=True
    ):
        assert len(spec.shape) == len(value.shape)
        for promised, came in zip(spec.shape, value.shape, strict=True):
            assert promised in (None, came)
        assert keras.backend.standardize_dtype(value.dtype) == spec.dtype

    model.save(path)
    loaded = keras.saving.load_model(path)
    assert_same(loaded(inputs), expected)
