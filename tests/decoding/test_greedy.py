import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.decoding import greedy_search
from tests.decoding.toy import (
    BOS,
    Chain,
    Recurrent,
    assert_hypotheses,
    ids_of,
    to_numpy,
)
from tests.layers.layer_checks import as_graph

CHAIN = Chain(
    {
        "<s>": {"a": 0.6, "b": 0.4},
        "a": {"b": 0.5, "c": 0.3, "</s>": 0.2},
        "b": {"</s>": 0.9, "a": 0.1},
        "</s>": {"j": 1.0},
    }
)


def search(chain, batch_size=1, **options):
    return greedy_search(
        chain.step, chain.start(batch_size), batch_size=batch_size, **options
    )


def test_most_probable_token_until_the_end():
    result = search(CHAIN, max_length=6)
    assert_hypotheses(result, [("ab", np.log(0.6 * 0.5 * 0.9))])
    assert to_numpy(result.ids).tolist() == [[[*ids_of("ab"), 0, 0, 0, 0]]]
    assert to_numpy(result.lengths).tolist() == [[2]]
    # The weights say step and last token: of <s>, of "a"; nothing stands at </s>.
    expected = [[0, BOS], [1, *ids_of("a")], [0, 0], [0, 0], [0, 0], [0, 0]]
    assert to_numpy(result.attention).tolist() == [[expected]]


def test_dtypes():
    result = search(CHAIN, max_length=3)
    dtypes = [keras.backend.standardize_dtype(x.dtype) for x in result]
    assert dtypes == ["int32", "int32", "float32", "float32"]


@pytest.mark.parametrize(("alpha", "penalty"), [(0.6, (8 / 6) ** 0.6), (1, 8 / 6)])
def test_length_penalty_changes_the_score_only(alpha, penalty):
    result = search(CHAIN, max_length=6, length_penalty=alpha)
    assert_hypotheses(result, [("ab", np.log(0.27) / penalty)])


@pytest.mark.parametrize(
    ("max_length", "text", "probability"),
    [(1, "a", 0.6), (2, "ab", 0.3), (3, "ab", 0.27)],
)
def test_max_length_counts_the_end(max_length, text, probability):
    """Three tokens let </s> in; with two "ab" stays unfinished, scored as two long."""
    result = search(CHAIN, max_length=max_length, length_penalty=1.0)
    penalty = (5 + max_length) / 6
    assert_hypotheses(result, [(text, np.log(probability) / penalty)])
    assert to_numpy(result.ids).shape == (1, 1, max_length)


def test_pad_and_start_are_never_emitted():
    chain = Chain({"<s>": {"<pad>": 0.5, "<s>": 0.3, "a": 0.2}, "a": {"</s>": 1.0}})
    assert_hypotheses(search(chain, max_length=4), [("a", np.log(0.2))])


def test_the_empty_hypothesis():
    chain = Chain({"<s>": {"</s>": 0.7, "a": 0.3}, "</s>": {"a": 1.0}})
    result = search(chain, max_length=4)
    assert_hypotheses(result, [("", np.log(0.7))])
    assert not to_numpy(result.ids).any()
    assert not to_numpy(result.attention).any()


def test_a_sentence_that_ended_waits_for_the_others():
    toy, sentences = Recurrent("abc", max_length=9), list(range(12))

    def run(sentences):
        return greedy_search(
            toy.step,
            toy.start(sentences),
            batch_size=len(sentences),
            max_length=9,
            length_penalty=1.0,
        )

    batch = [to_numpy(part) for part in run(sentences)]
    lengths = batch[1][:, 0]
    assert len(set(lengths.tolist())) > 2
    for row, sentence in enumerate(sentences):
        ids = batch[0][row, 0, : lengths[row]].tolist()
        assert not batch[0][row, 0, lengths[row] :].any()
        expected = toy.score(sentence, ids, 1.0, finished=lengths[row] < 9)
        np.testing.assert_allclose(batch[2][row, 0], expected, 1e-5)
        attention = batch[3][row, 0]
        assert attention[: len(ids)].tolist() == toy.attention(sentence, ids)
        assert not attention[len(ids) :].any()
    for row in (int(np.argmin(lengths)), int(np.argmax(lengths))):
        for part, alone in zip(batch, run([sentences[row]]), strict=True):
            np.testing.assert_allclose(part[row], to_numpy(alone)[0], atol=1e-6)


def test_stops_when_all_have_ended():
    if keras.backend.backend() != "tensorflow":
        pytest.skip("only a loop that runs in Python calls the step once a position")
    calls = []

    def step(token_ids, state):
        calls.append(token_ids)
        return CHAIN.step(token_ids, state)

    greedy_search(step, CHAIN.start(2), batch_size=2, max_length=50)
    assert len(calls) == 3


def test_without_weights():
    def step(token_ids, state):
        logits, weights, state = CHAIN.step(token_ids, state)
        return logits, weights[:, :0], state

    result = greedy_search(step, CHAIN.start(2), batch_size=2, max_length=4)
    assert_hypotheses(result, [("ab", np.log(0.27))], row=1)
    assert tuple(result.attention.shape) == (2, 1, 4, 0)


def test_half_precision_logits_and_weights_give_float32():
    def step(token_ids, state):
        logits, weights, state = CHAIN.step(token_ids, state)
        logits = ops.cast(ops.maximum(logits, -1e4), "float16")
        return logits, ops.cast(weights, "float16"), state

    result = greedy_search(step, CHAIN.start(), batch_size=1, max_length=4)
    dtypes = [keras.backend.standardize_dtype(x.dtype) for x in result]
    assert dtypes == ["int32", "int32", "float32", "float32"]
    np.testing.assert_allclose(to_numpy(result.scores), [[np.log(0.27)]], atol=2e-3)


def test_in_a_graph():
    def run(sentences):
        return search(CHAIN, ops.shape(sentences)[0], max_length=4)

    result = as_graph(run, ops.zeros((3,)))
    assert_hypotheses(result, [("ab", np.log(0.27))], row=2)


def test_in_a_graph_of_unknown_batch_size():
    if keras.backend.backend() != "tensorflow":
        pytest.skip("TensorFlow graphs alone have unknown sizes")
    import tensorflow as tf

    toy = Recurrent("abc", max_length=5)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)])
    def run(sentences):
        return greedy_search(
            toy.step,
            toy.start(sentences),
            batch_size=tf.shape(sentences)[0],
            max_length=5,
        )

    for sentences in ([4], list(range(64)), []):
        expected = greedy_search(
            toy.step, toy.start(sentences), batch_size=len(sentences), max_length=5
        )
        result = run(tf.constant(sentences, "int32"))
        for part, wanted in zip(result, expected, strict=True):
            np.testing.assert_array_equal(part, wanted)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_length": 0}, "`max_length`.*positive integer.*max_length=0"),
        (
            {"max_length": 3, "length_penalty": -0.5},
            "`length_penalty`.*at least 0.*length_penalty=-0.5",
        ),
    ],
)
def test_a_bad_argument_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        search(CHAIN, **options)
