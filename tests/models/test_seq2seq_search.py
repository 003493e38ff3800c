import keras
import numpy as np
import pytest

from tests.layers.layer_checks import assert_same, to_numpy
from tests.models.small_models import SOURCE, make, variants

EOS, BOS = 3, 2


@pytest.fixture(scope="module", params=variants())
def model(request):
    return make(**variants()[request.param])


@pytest.fixture(scope="module")
def bahdanau():
    return make()


@pytest.mark.parametrize("beam_width", [1, 4])
def test_score_and_attention_are_those_of_teacher_forcing(model, beam_width):
    max_length = 6
    result = model.search(SOURCE, beam_width, max_length, length_penalty=0.0)
    ids, lengths, scores, attention = map(to_numpy, result)
    width = 0 if model.decoder.attention is None else SOURCE.shape[1]
    assert attention.shape == (3, beam_width, max_length, width)
    # Hypotheses side by side, as a batch of sources and targets.
    source = np.repeat(SOURCE, beam_width, axis=0)
    target = np.pad(ids.astype("int32"), [(0, 0), (0, 0), (1, 0)], constant_values=BOS)
    target = target.reshape(-1, 1 + max_length)
    lengths = lengths.reshape(-1).astype(int)
    logits = model({"source_ids": source, "target_ids": target})
    log_probs = to_numpy(keras.ops.log_softmax(logits))
    expected = [
        sum(log_probs[i, t, target[i, t + 1]] for t in range(length))
        # A hypothesis of max_length tokens had no room for </s>.
        + (log_probs[i, length, EOS] if length < max_length else 0)
        for i, length in enumerate(lengths)
    ]
    np.testing.assert_allclose(scores.reshape(-1), expected, atol=1e-4)

    state = model.begin(source)
    for t in range(max_length):
        _, weights, state = model.step(target[:, t], state)
        weights = np.where((t < lengths)[:, None], to_numpy(weights), 0)
        searched = attention[:, :, t].reshape(len(source), width)
        np.testing.assert_allclose(searched, weights, atol=1e-5)
    assert beam_width == 1 or len(np.unique(lengths)) > 1


def test_attention_is_zero_on_padding_and_sums_to_one(bahdanau):
    result = bahdanau.search(SOURCE, beam_width=4, max_length=6)
    lengths, attention = to_numpy(result.lengths), to_numpy(result.attention)
    assert not attention[1, :, :, 2:].any()
    assert not attention[2, :, :, 4:].any()
    inside = np.arange(6) < lengths[..., None]
    np.testing.assert_allclose(attention.sum(-1), inside, atol=1e-6)


@pytest.mark.parametrize("beam_width", [1, 5])
def test_generate_is_search_for_any_batch(bahdanau, beam_width):
    """Also the shapes [64, 1, S, U] that crash some products of TensorFlow."""
    options = {"beam_width": beam_width, "max_length": 7, "length_penalty": 0.6}
    batch = np.tile(SOURCE, (22, 1))[:64]
    result = bahdanau.generate(batch, **options)
    assert tuple(result.ids.shape) == (64, beam_width, 7)
    expected = bahdanau.search(SOURCE, **options)
    assert_same([part[:3] for part in result], expected, atol=1e-5)
    assert_same([part[63] for part in result], [part[0] for part in expected], 1e-5)
    alone = bahdanau.generate(SOURCE[1:2, :2], **options)
    ids, lengths, scores, attention = (part[1:2] for part in expected)
    assert_same(alone, (ids, lengths, scores, attention[..., :2]), atol=1e-5)


def test_generate_follows_the_weights():
    model = make()
    options = {"beam_width": 1, "max_length": 4}
    before = model.generate(SOURCE, **options)
    model.set_weights(make(seed=1).get_weights())
    after = model.generate(SOURCE, **options)
    assert np.any(to_numpy(after.ids) != to_numpy(before.ids))
    assert_same(after, model.search(SOURCE, **options), atol=1e-5)


def test_n_best_asks_for_the_best_only(bahdanau):
    all_final = bahdanau.search(SOURCE, beam_width=4, max_length=6)
    best_final = bahdanau.search(SOURCE, beam_width=4, max_length=6, n_best=1)
    assert_same([x[:, 0] for x in best_final], [x[:, 0] for x in all_final])


def test_a_source_of_padding_gives_numbers(model):
    blank = np.array([[0, 0, 0], [4, 5, 3]], "int32")
    result = model.search(blank, beam_width=3, max_length=3)
    assert np.all(np.isfinite(to_numpy(result.scores)))
    assert not to_numpy(result.attention)[0].any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam_width": 0}, "`beam_width`.*positive integer"),
        ({"beam_width": 10}, "`beam_width`.*9 of a vocabulary of 11.*beam_width=10"),
        ({"max_length": 0}, "`max_length`.*positive integer"),
        ({"length_penalty": -1}, "`length_penalty`.*at least 0"),
        ({"beam_width": 2, "n_best": 3}, "`n_best`.*at most the beam width, 2"),
    ],
)
def test_a_bad_argument_of_a_search_is_named(bahdanau, options, message):
    for search in (bahdanau.search, bahdanau.generate):
        with pytest.raises(ValueError, match=message):
            search(SOURCE, **options)
