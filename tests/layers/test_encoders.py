import keras
import numpy as np
import pytest

from keras_attn.layers import BiGRUEncoder, RNNEncoder
from tests.layers.layer_checks import (
    POLICIES,
    as_graph,
    assert_same,
    check_layer,
    flat_numpy,
    set_weights,
    to_numpy,
)

B, S, E, U = 3, 5, 4, 6
INPUTS = np.random.default_rng(2).normal(size=(B, S, E)).astype("float32")
LENGTHS = np.array([5, 2, 0])
MASK = np.arange(S) < LENGTHS[:, None]


def keras_layer(rnn, **options):
    kind = keras.layers.GRU if rnn == "gru" else keras.layers.LSTM
    return kind(U, return_sequences=True, return_state=True, **options)


@pytest.mark.parametrize("reset_after", [True, False])
def test_bigru_computes_what_keras_computes(reset_after):
    encoder = BiGRUEncoder(U, reset_after=reset_after)
    memory, [[state]] = encoder(INPUTS, mask=MASK)
    reference = keras.layers.Bidirectional(keras_layer("gru", reset_after=reset_after))
    reference.build((B, S, E))
    reference.set_weights(encoder.get_weights())
    expected, forward, backward = reference(INPUTS, mask=MASK)
    assert_same(state, keras.ops.concatenate([forward, backward], -1))
    # Keras repeats a state over padding; the memory there is 0 here.
    expected = np.where(MASK[..., None], to_numpy(expected), 0)
    np.testing.assert_allclose(to_numpy(memory), expected, atol=1e-6)


@pytest.mark.parametrize("rnn", ["gru", "lstm"])
def test_a_forward_stack_computes_what_keras_computes(rnn):
    encoder = RNNEncoder(U, rnn=rnn, num_layers=2)
    memory, states = encoder(INPUTS)
    hidden, expected_states, weights = INPUTS, [], encoder.get_weights()
    for _ in range(2):
        layer = keras_layer(rnn)
        layer.build(hidden.shape)
        count = len(layer.weights)
        layer.set_weights(weights[:count])
        weights = weights[count:]
        hidden, *state = layer(hidden)
        expected_states.append(state)
    assert weights == []
    assert_same(memory, hidden)
    assert_same(states, expected_states)


def test_gru_by_hand():
    encoder = RNNEncoder(1, reset_after=False)
    encoder.build((1, 2, 1))
    # Gates z, r, candidate.
    set_weights(encoder, [[1.0, 2.0, 3.0]], [[0.5, 1.0, -1.0]], [0.1, 0.2, 0.3])

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    h, expected = 0.0, []
    for x in (0.5, -1.0):
        z = sigmoid(1.0 * x + 0.5 * h + 0.1)
        r = sigmoid(2.0 * x + 1.0 * h + 0.2)
        h = z * h + (1 - z) * np.tanh(3.0 * x - 1.0 * (r * h) + 0.3)
        expected.append(h)
    memory, [[state]] = encoder(np.array([[[0.5], [-1.0]]]))
    np.testing.assert_allclose(to_numpy(memory)[0, :, 0], expected, atol=1e-6)
    np.testing.assert_allclose(to_numpy(state)[0, 0], expected[-1], atol=1e-6)


@pytest.mark.parametrize("rnn", ["gru", "lstm"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_padding_changes_nothing(rnn, bidirectional):
    encoder = RNNEncoder(U, rnn=rnn, num_layers=2, bidirectional=bidirectional)
    memory, states = encoder(INPUTS, mask=MASK)
    short_memory, short_states = encoder(INPUTS[1:2, :2])
    assert_same(memory[1:2, :2], short_memory, atol=1e-5)
    for padded, short in zip(flat_numpy(states), flat_numpy(short_states), strict=True):
        np.testing.assert_allclose(padded[1:2], short, atol=1e-5)
    assert np.all(to_numpy(memory)[~MASK] == 0)
    # A source that is all padding ends in the state it started from.
    assert all(np.all(state[2] == 0) for state in flat_numpy(states))


@pytest.mark.parametrize("rnn", ["gru", "lstm"])
def test_the_cudnn_path_computes_the_same(rnn):
    # Where there is no GPU Keras's own layer runs in its place; the wiring is the same.
    encoder = RNNEncoder(U, rnn=rnn, num_layers=2, bidirectional=True)
    expected = encoder(INPUTS, mask=MASK)
    encoder.use_cudnn = True
    for readers in encoder.readers:
        for reader in readers:
            reader.use_cudnn = False
    assert_same(encoder(INPUTS, mask=MASK, training=True), expected, atol=1e-5)
    assert encoder._on_cudnn(training=True)
    assert not encoder._on_cudnn(training=False)


@pytest.mark.parametrize("policy", POLICIES)
def test_mixed_precision(policy):
    encoder = RNNEncoder(U, rnn="lstm", bidirectional=True, dtype=policy)
    encoder.build(INPUTS.shape)
    memory, states = as_graph(lambda x: encoder(x, mask=MASK), INPUTS)
    reference = RNNEncoder(U, rnn="lstm", bidirectional=True)
    reference.build(INPUTS.shape)
    reference.set_weights(encoder.get_weights())
    expected_memory, expected_states = reference(INPUTS, mask=MASK)
    tolerance = {"float32": 1e-5, "mixed_float16": 1e-2, "mixed_bfloat16": 5e-2}[policy]
    assert keras.backend.standardize_dtype(memory.dtype) == encoder.compute_dtype
    assert_same(memory, expected_memory, atol=tolerance)
    assert_same(states, expected_states, atol=tolerance)


@pytest.mark.parametrize(
    ("make", "num_weights"),
    [
        (lambda: BiGRUEncoder(U, num_layers=2, dropout=0.5), 12),
        (lambda: RNNEncoder(U, rnn="lstm"), 3),
        (lambda: RNNEncoder(U, rnn="gru", bidirectional=True, reset_after=False), 6),
    ],
    ids=["bigru", "lstm", "gru"],
)
def test_round_trips_in_a_functional_model(make, num_weights, tmp_path):
    ids = keras.Input((None,), dtype="int32")
    encoder = make()
    outputs = encoder(keras.layers.Embedding(10, E, mask_zero=True)(ids))
    model = keras.Model(ids, outputs)
    inputs = np.where(MASK, 3, 0)
    check_layer(model, inputs, tmp_path / "m.keras", encoder, num_weights)


def test_takes_and_hands_on_the_mask_of_its_input():
    ids = np.where(MASK, 3, 0)
    embedded = keras.layers.Embedding(10, E, mask_zero=True)(ids)
    encoder = BiGRUEncoder(U)
    memory, _ = encoder(embedded)
    assert_same(memory, encoder(to_numpy(embedded), mask=MASK)[0])
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(memory._keras_mask), MASK)


def test_dropout_acts_between_layers_in_training_only():
    encoder = BiGRUEncoder(U, num_layers=2, dropout=0.5)
    still = to_numpy(encoder(INPUTS)[0])
    assert_same(encoder(INPUTS, training=False)[0], still)
    assert np.abs(to_numpy(encoder(INPUTS, training=True)[0]) - still).max() > 1e-3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"units": 0}, "`units`.*units=0"),
        ({"units": 2, "rnn": "rnn"}, "`rnn`.*'gru', 'lstm'.*rnn='rnn'"),
        ({"units": 2, "num_layers": 0}, "`num_layers`"),
        ({"units": 2, "dropout": 1.0}, "`dropout`.*below 1.*dropout=1.0"),
    ],
)
def test_a_bad_argument_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        RNNEncoder(**options)
