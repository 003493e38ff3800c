import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers import (
    AttentionDecoder,
    BahdanauAttention,
    Bridge,
    LuongAttention,
)
from tests.layers.layer_checks import (
    GRAPH,
    POLICIES,
    as_graph,
    assert_same,
    check_layer,
    set_weights,
    to_numpy,
)

B, T, S, E, D, U = 3, 4, 5, 3, 6, 7
RNG = np.random.default_rng(3)
EMBEDDED = RNG.normal(size=(B, T, E)).astype("float32")
MEMORY = RNG.normal(size=(B, S, D)).astype("float32")
MASK = np.arange(S) < np.array([[5], [2], [0]])

# name: (options, number of weights beside those of the attention)
DECODERS = {
    "before_gru": ({"attention": "bahdanau"}, 3 + 2),
    "before_lstm_stack": (
        {"attention": "general", "rnn": "lstm", "num_layers": 2, "dropout": 0.3},
        6 + 2,
    ),
    "before_reset_before": ({"attention": "bahdanau", "reset_after": False}, 3 + 2),
    "after": ({"attention": "general", "attend": "after", "readout_units": 5}, 3 + 2),
    "after_feeding": (
        {
            "attention": "concat",
            "attend": "after",
            "input_feeding": True,
            "readout_units": 5,
        },
        3 + 2,
    ),
    "after_feeding_lstm_stack": (
        {
            "attention": "general",
            "attend": "after",
            "input_feeding": True,
            "rnn": "lstm",
            "num_layers": 2,
        },
        6 + 2,
    ),
    "no_attention": ({"attention": None}, 3),
    "no_attention_lstm_stack": (
        {"attention": None, "rnn": "lstm", "num_layers": 2},
        6,
    ),
}
ATTENTIONS = {
    "bahdanau": (lambda dtype: BahdanauAttention(4, dtype=dtype), 3),
    "general": (lambda dtype: LuongAttention("general", dtype=dtype), 1),
    "concat": (lambda dtype: LuongAttention("concat", units=4, dtype=dtype), 2),
    None: (lambda dtype: None, 0),
}


def make(name, dtype="float32"):
    options = dict(DECODERS[name][0])
    options["attention"] = ATTENTIONS[options["attention"]][0](dtype)
    return AttentionDecoder(U, dtype=dtype, **options)


@pytest.fixture(params=DECODERS)
def name(request):
    return request.param


def initial_state(decoder):
    count = 1 if decoder.rnn == "gru" else 2
    draw = np.random.default_rng(4).normal
    return [
        [draw(size=(B, U)).astype("float32") for _ in range(count)]
        for _ in range(decoder.num_layers)
    ]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("graph", list(GRAPH.values()), ids=list(GRAPH))
def test_teacher_forcing_is_repeated_steps(name, policy, graph):
    decoder = make(name, policy)
    start = initial_state(decoder)

    def forced(embedded, memory):
        return decoder(embedded, memory, memory_mask=MASK, initial_state=start)

    def stepped(embedded, memory):
        state = decoder.begin(memory, MASK, start)
        outputs, weights = [], []
        for t in range(T):
            output, weight, state = decoder.step(embedded[:, t], state)
            outputs.append(output)
            weights.append(weight)
        return ops.stack(outputs, 1), ops.stack(weights, 1)

    decoder(EMBEDDED, MEMORY, memory_mask=MASK)
    run = as_graph if graph else (lambda f, *args: f(*args))
    embedded, memory = map(ops.convert_to_tensor, (EMBEDDED, MEMORY))
    tolerance = {"float32": 1e-5, "mixed_float16": 5e-3, "mixed_bfloat16": 4e-2}[policy]
    expected = run(forced, embedded, memory)
    assert keras.backend.standardize_dtype(expected[0].dtype) == decoder.compute_dtype
    assert_same(run(stepped, embedded, memory), expected, atol=tolerance)


def test_shapes_and_masked_positions(name):
    decoder = make(name)
    outputs, weights = decoder(EMBEDDED, MEMORY, memory_mask=MASK)
    assert tuple(outputs.shape) == (B, T, decoder.readout_units)
    if decoder.attention is None:
        assert tuple(weights.shape) == (B, T, 0)
        return
    weights = to_numpy(weights)
    assert weights.shape == (B, T, S)
    assert np.all(weights[1, :, 2:] == 0)
    assert np.all(weights[2] == 0)
    np.testing.assert_allclose(weights[:2].sum(-1), 1, atol=1e-6)
    assert np.all(np.isfinite(to_numpy(outputs)))


def test_source_padding_changes_nothing(name):
    decoder = make(name)
    outputs, weights = decoder(EMBEDDED, MEMORY, memory_mask=MASK)
    short, short_weights = decoder(EMBEDDED[1:2], MEMORY[1:2, :2])
    assert_same(outputs[1:2], short, atol=1e-5)
    assert_same(weights[1:2, :, :2], short_weights, atol=1e-5)


def test_the_future_changes_nothing(name):
    decoder = make(name)
    outputs, _ = decoder(EMBEDDED, MEMORY, memory_mask=MASK)
    changed = np.array(EMBEDDED)
    changed[:, 2:] += 1
    again, _ = decoder(changed, MEMORY, memory_mask=MASK)
    assert_same(again[:, :2], outputs[:, :2])
    assert np.abs(to_numpy(again[:, 2:] - outputs[:, 2:])).max() > 1e-3


def test_round_trips_in_a_functional_model(name, tmp_path):
    decoder = make(name)
    embedded = keras.Input((None, E))
    ids = keras.Input((None,), dtype="int32")
    memory = keras.layers.Embedding(10, D, mask_zero=True)(ids)
    model = keras.Model([embedded, ids], decoder(embedded, memory))
    inputs = [EMBEDDED, np.where(MASK, 3, 0)]
    options, own_weights = DECODERS[name]
    num_weights = own_weights + ATTENTIONS[options["attention"]][1]
    check_layer(model, inputs, tmp_path / "m.keras", decoder, num_weights)


def test_training_dropout_acts_between_layers_only_in_training():
    decoder = make("before_lstm_stack")
    still, _ = decoder(EMBEDDED, MEMORY)
    assert_same(decoder(EMBEDDED, MEMORY, training=False)[0], still)
    noisy, _ = decoder(EMBEDDED, MEMORY, training=True)
    assert np.abs(to_numpy(noisy - still)).max() > 1e-3


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def test_bahdanau_decoder_by_hand():
    """Equations of Bahdanau et al. 2015, A.2.2, with one unit everywhere."""
    decoder = AttentionDecoder(1, BahdanauAttention(1), reset_after=False)
    decoder.build((1, 2, 1), (1, 2, 1))
    kernel = np.array([[0.3, -0.2, 0.5], [0.7, 0.1, -0.4]])  # of y; of c
    recurrent = np.array([[0.2, 0.6, 0.9]])
    bias = np.array([0.1, -0.1, 0.05])
    readout, readout_bias = np.array([[0.5], [-0.3], [0.8]]), np.array([0.02])
    w_q, w_m, v = 0.4, -0.7, 1.3
    weights = {
        "kernel": kernel,
        "recurrent_kernel": recurrent,
        "bias": bias,
    }
    cell = decoder.cells[0]
    for key, value in weights.items():
        getattr(cell, key).assign(value)
    set_weights(decoder.attention, [[w_q]], [[w_m]], [v])
    set_weights(decoder.readout, readout, readout_bias)

    memory, s, expected, alphas = np.array([0.9, -0.6]), 0.25, [], []
    for y in (0.5, -0.8):
        alpha = softmax(v * np.tanh(w_q * s + w_m * memory))
        c = alpha @ memory
        x = kernel.T @ np.array([y, c]) + bias
        z = sigmoid(x[0] + recurrent[0, 0] * s)
        r = sigmoid(x[1] + recurrent[0, 1] * s)
        s = z * s + (1 - z) * np.tanh(x[2] + recurrent[0, 2] * (r * s))
        expected.append(np.tanh(readout[:, 0] @ [s, c, y] + readout_bias[0]))
        alphas.append(alpha)
    outputs, alpha = decoder(
        np.array([[[0.5], [-0.8]]]),
        memory.reshape(1, 2, 1),
        initial_state=[[np.array([[0.25]])]],
    )
    np.testing.assert_allclose(to_numpy(outputs)[0, :, 0], expected, atol=1e-6)
    np.testing.assert_allclose(to_numpy(alpha)[0], alphas, atol=1e-6)


def test_luong_decoder_with_input_feeding_by_hand():
    decoder = AttentionDecoder(
        1, LuongAttention("dot"), rnn="lstm", attend="after", input_feeding=True
    )
    decoder.build((1, 2, 1), (1, 2, 1))
    kernel = np.array([[0.3, -0.2, 0.5, 0.1], [0.7, 0.1, -0.4, 0.6]])  # of y; of h~
    recurrent = np.array([0.2, 0.6, 0.9, -0.5])
    bias = np.array([0.1, -0.1, 0.05, 0.2])
    cell = decoder.cells[0]
    cell.kernel.assign(kernel)
    cell.recurrent_kernel.assign(recurrent[None])
    cell.bias.assign(bias)
    set_weights(decoder.readout, [[0.5], [-0.9]], [0.1])

    memory, h, c, feed, expected = np.array([0.9, -0.6]), 0.0, 0.0, 0.0, []
    for y in (0.5, -0.8):
        i, f, g, o = kernel.T @ np.array([y, feed]) + recurrent * h + bias
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        context = softmax(h * memory) @ memory
        feed = np.tanh(0.5 * context - 0.9 * h + 0.1)
        expected.append(feed)
    outputs, _ = decoder(np.array([[[0.5], [-0.8]]]), memory.reshape(1, 2, 1))
    np.testing.assert_allclose(to_numpy(outputs)[0, :, 0], expected, atol=1e-6)


def test_without_attention_the_outputs_are_those_of_keras():
    decoder = AttentionDecoder(U, rnn="lstm")
    start = initial_state(decoder)
    outputs, _ = decoder(EMBEDDED, MEMORY, initial_state=start)
    reference = keras.layers.LSTM(U, return_sequences=True)
    reference.build(EMBEDDED.shape)
    reference.set_weights(decoder.get_weights())
    assert_same(outputs, reference(EMBEDDED, initial_state=start[0]))


def test_begin_before_build_says_what_to_do():
    with pytest.raises(ValueError, match="has no weights yet. Call it once"):
        AttentionDecoder(U).begin(MEMORY)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attend": "during"}, "`attend`.*'before', 'after'.*attend='during'"),
        ({"input_feeding": True}, '`input_feeding`.*attend="after"'),
        ({"readout_units": 3}, "`readout_units`.*Without attention"),
        ({"rnn": "elman"}, "`rnn`"),
        ({"dropout": -0.1}, "`dropout`"),
    ],
)
def test_a_bad_argument_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        AttentionDecoder(U, **options)


def test_a_state_of_another_shape_is_refused():
    decoder = AttentionDecoder(U, rnn="lstm")
    with pytest.raises(ValueError, match=r"`initial_state`.*\[2\].*\[1\].*Bridge"):
        decoder(EMBEDDED, MEMORY, initial_state=[[np.zeros((B, U))]])


def test_bridge_fits_the_decoder():
    decoder = AttentionDecoder(U, num_layers=2)
    state = Bridge(U, num_layers=2)([[np.ones((B, 9), "float32")]])
    assert tuple(decoder(EMBEDDED, MEMORY, initial_state=state)[0].shape) == (B, T, U)
