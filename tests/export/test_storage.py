import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.export.storage import StoredWeights
from keras_attn.models import AttentionSeq2Seq


@pytest.fixture(scope="module", params=["float32", "mixed_bfloat16"])
def model(request):
    keras.utils.set_random_seed(0)
    return AttentionSeq2Seq(9, 9, 4, 3, 4, dtype=request.param)


def test_every_weight_is_stored(model):
    stored = StoredWeights(model, "bfloat16")
    assert {value.dtype for value in stored.values} == {tf.bfloat16}
    for value, weight in zip(stored.values, model.weights, strict=True):
        # Eight bits of precision.
        np.testing.assert_allclose(
            tf.cast(value, "float32"), weight.numpy(), rtol=2**-8
        )


def test_in_the_scope_the_model_computes_with_the_stored_weights(model):
    stored = StoredWeights(model, "bfloat16")
    ids = tf.constant([[4, 5, 3], [6, 3, 0]])
    before = model.begin(ids)["memory"]
    with stored.scope():
        received = model.begin(ids)["memory"]
        table = tf.convert_to_tensor(model.target_embedding.embeddings)
        kernel = tf.convert_to_tensor(model.output_layer.kernel)
    # Tables are cast after the lookup.
    assert (table.dtype, kernel.dtype) == (tf.bfloat16, tf.float32)
    assert received.dtype == model.decoder.compute_dtype
    rounded = AttentionSeq2Seq.from_config(model.get_config())
    rounded.set_weights([tf.cast(v, "float32").numpy() for v in stored.values])
    expected = rounded.begin(ids)["memory"]
    np.testing.assert_array_equal(
        tf.cast(received, "float32"), tf.cast(expected, "float32")
    )
    # The model is as it was.
    np.testing.assert_array_equal(
        tf.cast(model.begin(ids)["memory"], "float32"), tf.cast(before, "float32")
    )
