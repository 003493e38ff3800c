"""The promises that every mechanism keeps, then each one's own numbers."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers import BahdanauAttention, LuongAttention
from tests.layers.layer_checks import (
    GRAPH,
    POLICIES,
    as_graph,
    assert_same,
    check_layer,
    set_weights,
    to_numpy,
)

# name: (constructor, number of weights)
MECHANISMS = {
    "bahdanau": (lambda **k: BahdanauAttention(5, **k), 3),
    "bahdanau_normalized": (lambda **k: BahdanauAttention(5, normalize=True, **k), 5),
    "dot": (lambda **k: LuongAttention("dot", **k), 0),
    "dot_scaled": (lambda **k: LuongAttention("dot", scale=True, **k), 1),
    "general": (lambda **k: LuongAttention("general", **k), 1),
    "general_scaled": (lambda **k: LuongAttention("general", scale=True, **k), 2),
    "concat": (lambda **k: LuongAttention("concat", units=5, **k), 2),
}
B, T, S, D = 3, 4, 6, 8
MASK = np.arange(S) < np.array([[6], [2], [0]])


@pytest.fixture(params=MECHANISMS)
def mechanism(request):
    return MECHANISMS[request.param]


def draw(*shape):
    return np.random.default_rng(1).normal(size=shape).astype("float32")


QUERY, MEMORY = draw(B, T, D), draw(B, S, D)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("graph", list(GRAPH.values()), ids=list(GRAPH))
def test_weights_are_zero_on_padding_and_sum_to_one_elsewhere(mechanism, policy, graph):
    attention = mechanism[0](dtype=policy)
    attention(QUERY, MEMORY)

    def call(query, memory, mask):
        return attention(query, memory, mask=mask)

    run = as_graph if graph else (lambda f, *args: f(*args))
    context, weights = run(call, QUERY, MEMORY, MASK)
    assert keras.backend.standardize_dtype(weights.dtype) == "float32"
    assert keras.backend.standardize_dtype(context.dtype) == attention.compute_dtype
    weights, context = to_numpy(weights), to_numpy(context)
    assert weights.shape == (B, T, S)
    assert context.shape == (B, T, D)
    assert np.all(weights[1, :, 2:] == 0)
    assert np.all(weights[2] == 0)
    assert np.all(context[2] == 0)
    np.testing.assert_allclose(weights[:2].sum(-1), 1, atol=1e-6)
    assert np.all(np.isfinite(context))
    tolerance = {"float32": 1e-5, "mixed_float16": 1e-2, "mixed_bfloat16": 6e-2}[policy]
    np.testing.assert_allclose(context, weights @ MEMORY, atol=tolerance)


def test_one_query_is_a_sequence_of_one(mechanism):
    attention = mechanism[0]()
    context, weights = attention(QUERY, MEMORY, mask=MASK)
    for t in range(T):
        one = attention(QUERY[:, t], MEMORY, mask=MASK)
        assert_same(one, (context[:, t], weights[:, t]))


def test_step_is_call(mechanism):
    attention = mechanism[0]()
    expected = attention(QUERY[:, 0], MEMORY, mask=MASK)
    keys = attention.project_memory(ops.convert_to_tensor(MEMORY))
    state = attention.initial_state(MEMORY, MASK)
    context, weights, state = attention.step(QUERY[:, 0], keys, MEMORY, MASK, state)
    assert_same((context, weights), expected)
    assert state == ()


@pytest.mark.parametrize("policy", POLICIES)
def test_step_outside_of_a_call_keeps_to_the_policy(mechanism, policy):
    attention = mechanism[0](dtype=policy)
    expected = attention(QUERY[:, 0], MEMORY, mask=MASK)
    keys = attention.project_memory(ops.convert_to_tensor(MEMORY))
    context, weights, _ = attention.step(QUERY[:, 0], keys, MEMORY, MASK, ())
    assert keras.backend.standardize_dtype(context.dtype) == attention.compute_dtype
    assert_same((context, weights), expected)


def test_the_amount_of_padding_changes_nothing(mechanism):
    attention = mechanism[0]()
    context, weights = attention(QUERY, MEMORY, mask=np.ones((B, S), bool))
    more = 9
    memory = np.concatenate([MEMORY, 100 * draw(B, more, D)], axis=1)
    mask = np.concatenate([np.ones((B, S), bool), np.zeros((B, more), bool)], axis=1)
    padded_context, padded_weights = attention(QUERY, memory, mask=mask)
    assert_same(padded_context, context, atol=1e-5)
    assert_same(padded_weights[:, :, :S], weights, atol=1e-5)


def test_a_large_score_in_float16_does_not_overflow(mechanism):
    attention = mechanism[0](dtype="mixed_float16")
    # The inner product of a query with itself is 8 * 200^2, above float16's 65,504.
    query = np.full((1, 1, D), 200.0, "float32")
    memory = np.stack([query[0], -query[0], 0 * query[0]], axis=1)
    context, weights = attention(query, memory[:, :, :])
    assert np.all(np.isfinite(to_numpy(context)))
    np.testing.assert_allclose(to_numpy(weights).sum(-1), 1, atol=1e-6)


def test_gradients_are_finite_where_a_whole_row_is_masked(mechanism):
    if keras.backend.backend() != "tensorflow":
        pytest.skip("The gradient is taken with TensorFlow's tape.")
    import tensorflow as tf

    attention = mechanism[0]()
    memory = tf.Variable(MEMORY)
    with tf.GradientTape() as tape:
        context, _ = attention(QUERY, memory, mask=MASK)
        loss = tf.reduce_sum(context**2)
    gradient = tape.gradient(loss, memory).numpy()
    assert np.all(np.isfinite(gradient))
    assert np.all(gradient[2] == 0)
    assert np.all(gradient[1, 2:] == 0)
    assert np.any(gradient[0] != 0)


def test_round_trips_in_a_functional_model(mechanism, tmp_path):
    constructor, num_weights = mechanism
    query = keras.Input((None, D))
    ids = keras.Input((None,), dtype="int32")
    memory = keras.layers.Embedding(10, D, mask_zero=True)(ids)
    attention = constructor()
    model = keras.Model([query, ids], attention(query, memory))
    inputs = [QUERY, np.where(MASK, 3, 0)]
    check_layer(model, inputs, tmp_path / "m.keras", attention, num_weights)


def test_takes_the_mask_that_the_memory_carries(mechanism):
    ids = np.where(MASK, np.arange(1, S + 1), 0)
    embed = keras.layers.Embedding(10, D, mask_zero=True)
    attention = mechanism[0]()
    by_propagation = attention(ops.convert_to_tensor(QUERY), embed(ids))
    by_argument = attention(QUERY, to_numpy(embed(ids)), mask=MASK)
    assert_same(by_propagation, by_argument)
    assert np.all(to_numpy(by_propagation[1])[~np.repeat(MASK[:, None], T, 1)] == 0)


def test_the_context_carries_the_mask_of_the_query():
    targets = np.array([[1, 2, 0], [1, 0, 0]])
    query = keras.layers.Embedding(10, D, mask_zero=True)(targets)
    context, _ = LuongAttention("dot")(query, MEMORY[:2], mask=MASK[:2])
    np.testing.assert_array_equal(
        ops.convert_to_numpy(context._keras_mask), targets != 0
    )


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def test_bahdanau_by_hand():
    attention = BahdanauAttention(2)
    attention.build((1, 2), (1, 2, 3))
    w_q = np.array([[1.0, 0.0], [0.0, 2.0]])
    w_m = np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]])
    v = np.array([1.0, -1.0])
    set_weights(attention, w_q, w_m, v)
    query = np.array([[0.5, -0.5]])
    memory = np.array([[[1.0, 0.0, 0.0], [0.0, 1.0, 2.0]]])
    # W_q s = [0.5, -1];  W_m h = [0, 1] and [2, 1]
    scores = [
        np.tanh(0.5) - np.tanh(0.0),
        np.tanh(2.5) - np.tanh(0.0),
    ]
    expected = softmax(np.array(scores))
    context, weights = attention(query, memory)
    np.testing.assert_allclose(to_numpy(weights)[0], expected, atol=1e-6)
    np.testing.assert_allclose(to_numpy(context)[0], expected @ memory[0], atol=1e-6)


def test_bahdanau_normalized_by_hand():
    attention = BahdanauAttention(2, normalize=True)
    attention.build((1, 1), (1, 2, 1))
    assert to_numpy(attention.g) == pytest.approx(np.sqrt(0.5))
    set_weights(attention, [[1.0, 0.0]], [[0.0, 1.0]], [3.0, 4.0], 10.0, [0.1, 0.2])
    context, weights = attention(np.array([[0.5]]), np.array([[[1.0], [-1.0]]]))
    # g v / |v| = 10 * [0.6, 0.8]
    scores = [
        6 * np.tanh(0.6) + 8 * np.tanh(1.2),
        6 * np.tanh(0.6) + 8 * np.tanh(-0.8),
    ]
    expected = softmax(np.array(scores))
    np.testing.assert_allclose(to_numpy(weights)[0], expected, atol=1e-6)
    np.testing.assert_allclose(
        to_numpy(context)[0, 0], expected[0] - expected[1], atol=1e-6
    )


def test_luong_dot_by_hand():
    attention = LuongAttention("dot", scale=True)
    attention.build((1, 2), (1, 2, 2))
    set_weights(attention, 0.5)
    query, memory = np.array([[1.0, 2.0]]), np.array([[[3.0, 1.0], [1.0, 1.0]]])
    _, weights = attention(query, memory)
    expected = softmax(np.array([2.5, 1.5]))
    np.testing.assert_allclose(to_numpy(weights)[0], expected, atol=1e-6)


def test_luong_general_by_hand():
    attention = LuongAttention("general")
    attention.build((1, 2), (1, 2, 3))
    w = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]])
    set_weights(attention, w)
    query = np.array([[1.0, -1.0]])
    memory = np.array([[[1.0, 2.0, 3.0], [2.0, 1.0, 0.0]]])
    # s^T W^T h: W s = [1, -1, 0]
    expected = softmax(np.array([-1.0, 1.0]))
    _, weights = attention(query, memory)
    np.testing.assert_allclose(to_numpy(weights)[0], expected, atol=1e-6)


def test_luong_concat_by_hand():
    attention = LuongAttention("concat", units=1)
    attention.build((1, 2), (1, 2, 1))
    set_weights(attention, [[1.0], [2.0], [3.0]], [2.0])
    query, memory = np.array([[0.1, 0.2]]), np.array([[[0.5], [-0.5]]])
    # W [s; h] = 0.1 + 0.4 + 3 h
    expected = softmax(2 * np.tanh(np.array([2.0, -1.0])))
    _, weights = attention(query, memory)
    np.testing.assert_allclose(to_numpy(weights)[0], expected, atol=1e-6)


def test_weights_are_created_in_the_documented_order():
    attention = BahdanauAttention(5, normalize=True)
    attention.build((None, 3), (None, None, 4))
    shapes = [tuple(w.shape) for w in attention.weights]
    assert shapes == [(3, 5), (4, 5), (5,), (), (5,)]
    attention = LuongAttention("concat", units=5, scale=True)
    attention.build((None, 3), (None, None, 4))
    assert [tuple(w.shape) for w in attention.weights] == [(7, 5), (5,), ()]
    attention = LuongAttention("general")
    attention.build((None, 3), (None, None, 4))
    assert [tuple(w.shape) for w in attention.weights] == [(4, 3)]


def test_the_kernels_are_drawn_apart():
    attention = BahdanauAttention(4)
    attention.build((None, 4), (None, None, 4))
    first, second = (to_numpy(w) for w in attention.weights[:2])
    assert np.abs(first - second).max() > 0.1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BahdanauAttention(0), "`units`.*positive integer.*units=0"),
        (lambda: LuongAttention("cosine"), "`score`.*'dot'.*score='cosine'"),
        (lambda: LuongAttention("concat"), "`units`.*units=None"),
        (lambda: LuongAttention("dot", units=3), "`units`.*units=3"),
    ],
)
def test_a_bad_argument_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_dot_needs_equal_widths():
    with pytest.raises(ValueError, match="query 3 wide, memory 4 wide"):
        LuongAttention("dot")(np.zeros((1, 2, 3)), np.zeros((1, 5, 4)))
