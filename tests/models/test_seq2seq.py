import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.models import AttentionSeq2Seq
from keras_attn.training import MaskedCrossEntropy
from tests.layers.layer_checks import assert_same, to_numpy
from tests.models.small_models import (
    INPUTS,
    SOURCE,
    TARGET,
    TARGET_SIZE,
    make,
    variants,
)

REAL = TARGET > 0


@pytest.fixture(scope="module", params=variants())
def model(request):
    return make(**variants()[request.param])


def test_logits(model):
    logits = model(INPUTS)
    assert tuple(logits.shape) == (3, 4, TARGET_SIZE)
    assert logits.dtype == "float32"
    assert np.all(np.isfinite(to_numpy(logits)))
    assert model.output_shape == (None, None, TARGET_SIZE)


def test_every_source_token_and_every_earlier_target_token_matters(model):
    logits = to_numpy(model(INPUTS))[0]
    source = np.array(SOURCE)
    source[0, 0] = 5
    other = to_numpy(model({**INPUTS, "source_ids": source}))[0]
    assert np.all(np.abs(other - logits).max(-1) > 1e-4)
    target = np.array(TARGET)
    target[0, 2] = 9
    other = to_numpy(model({**INPUTS, "target_ids": target}))[0]
    np.testing.assert_allclose(other[:2], logits[:2], atol=1e-5)
    assert np.all(np.abs(other[2:] - logits[2:]).max(-1) > 1e-4)


def test_padding_changes_nothing(model):
    longer = {
        "source_ids": np.pad(SOURCE, [(0, 0), (0, 3)]),
        "target_ids": np.pad(TARGET, [(0, 0), (0, 2)]),
    }
    expected = to_numpy(model(INPUTS))
    np.testing.assert_allclose(
        to_numpy(model(longer))[:, :4][REAL], expected[REAL], atol=1e-5
    )
    alone = {"source_ids": SOURCE[1:2, :2], "target_ids": TARGET[1:2, :2]}
    np.testing.assert_allclose(to_numpy(model(alone))[0], expected[1, :2], atol=1e-5)


def test_config_round_trip(model):
    config = json.dumps(model.get_config())
    again = AttentionSeq2Seq.from_config(json.loads(config))
    assert json.dumps(again.get_config()) == config
    again.set_weights(model.get_weights())
    assert_same(again(INPUTS), model(INPUTS))


def test_save_and_load_without_custom_objects(model, tmp_path):
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert type(loaded) is AttentionSeq2Seq
    assert_same(loaded(INPUTS), model(INPUTS))
    options = {"beam_width": 3, "max_length": 4}
    assert_same(loaded.search(SOURCE, **options), model.search(SOURCE, **options))


def test_summary_names_the_parts(model):
    lines: list[str] = []
    model.summary(print_fn=lines.append)
    text = "\n".join(lines)
    for name in ("source_embedding", "encoder", "decoder", "output_layer"):
        assert name in text


def test_fit_on_a_dataset(tmp_path):
    model = make(dropout=0.1)
    labels = np.array([[4, 5, 6, 3], [10, 3, 0, 0], [7, 7, 3, 0]], "int32")
    dataset = tf.data.Dataset.from_tensors((INPUTS, labels)).repeat(40)
    model.compile(keras.optimizers.Adam(0.02), MaskedCrossEntropy())
    before = float(model.loss(labels, model(INPUTS)))
    model.fit(dataset, verbose=0)
    assert float(model.loss(labels, model(INPUTS))) < 0.2 * before
    # A trained model is saved with its optimizer and goes on from there.
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert_same(loaded(INPUTS), model(INPUTS))
    assert int(loaded.optimizer.iterations) == 40
    result = loaded.search(SOURCE, beam_width=1, max_length=5)
    assert to_numpy(result.ids)[:, 0].tolist() == [
        [4, 5, 6, 0, 0],
        [10, 0, 0, 0, 0],
        [7, 7, 0, 0, 0],
    ]


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize(
    "variant", ["bahdanau", "luong_general_feeding", "no_attention_lstm"]
)
def test_dtype_policies(policy, variant):
    model = make(**variants()[variant], dtype=policy)
    compute_dtype = keras.dtype_policies.get(policy).compute_dtype
    assert model(INPUTS).dtype == compute_dtype
    assert {weight.dtype for weight in model.weights} == {"float32"}
    again = AttentionSeq2Seq.from_config(model.get_config())
    assert again.decoder.dtype_policy.name == again.encoder.dtype_policy.name == policy

    model.compile("sgd", MaskedCrossEntropy(), run_eagerly=True)
    before = model.get_weights()
    loss = model.train_on_batch(INPUTS, np.roll(TARGET, -1, axis=1))
    assert np.isfinite(loss)
    assert all(np.all(np.isfinite(weight)) for weight in model.get_weights())
    changed = [
        np.any(new != old) for new, old in zip(model.get_weights(), before, strict=True)
    ]
    # float16 may skip a first step whose scaled gradients overflow.
    assert policy == "mixed_float16" or np.mean(changed) > 0.9
    result = model.search(SOURCE, beam_width=3, max_length=4)
    assert result.scores.dtype == result.attention.dtype == "float32"
    assert np.all(np.isfinite(to_numpy(result.scores)))
