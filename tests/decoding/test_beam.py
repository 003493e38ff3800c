import itertools

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.decoding import beam_search
from tests.decoding.toy import (
    BOS,
    Chain,
    Recurrent,
    assert_hypotheses,
    hypotheses,
    ids_of,
    to_numpy,
)
from tests.layers.layer_checks import as_graph

# "a" is the likelier start, "b" the likelier whole.
CHAIN = Chain(
    {
        "<s>": {"a": 0.6, "b": 0.4},
        "a": {"c": 0.7, "</s>": 0.3},
        "b": {"</s>": 1.0},
        "c": {"</s>": 0.5, "a": 0.5},
        "</s>": {"j": 1.0},
    }
)


def search(chain, batch_size=1, **options):
    return beam_search(
        chain.step, chain.start(batch_size), batch_size=batch_size, **options
    )


def test_finds_what_greedy_search_misses():
    result = search(CHAIN, beam_width=3, max_length=4)
    expected = [("b", np.log(0.4)), ("ac", np.log(0.21)), ("a", np.log(0.18))]
    assert_hypotheses(result, expected)
    assert to_numpy(result.lengths).tolist() == [[1, 2, 1]]
    assert to_numpy(result.ids)[0].tolist() == [
        [*ids_of("b"), 0, 0, 0],
        [*ids_of("ac"), 0, 0],
        [*ids_of("a"), 0, 0, 0],
    ]
    # Step and last token of each hypothesis' own past.
    nothing = [0, 0]
    assert to_numpy(result.attention)[0].tolist() == [
        [[0, BOS], nothing, nothing, nothing],
        [[0, BOS], [1, *ids_of("a")], nothing, nothing],
        [[0, BOS], nothing, nothing, nothing],
    ]


def test_dtypes():
    result = search(CHAIN, beam_width=2, max_length=3)
    dtypes = [keras.backend.standardize_dtype(x.dtype) for x in result]
    assert dtypes == ["int32", "int32", "float32", "float32"]


def test_finished_hypotheses_rank_before_unfinished_ones():
    """ "acac" is likelier than "aca" and all the same comes after it."""
    result = search(CHAIN, beam_width=5, max_length=4, length_penalty=1.0)
    expected = [
        ("b", np.log(0.4) / (7 / 6)),
        ("ac", np.log(0.21) / (8 / 6)),
        ("a", np.log(0.18) / (7 / 6)),
        ("aca", np.log(0.063) / (9 / 6)),
        ("acac", np.log(0.147) / (9 / 6)),
    ]
    assert_hypotheses(result, expected)


def test_unfinished_hypotheses_are_ordered_too():
    chain = Chain({"<s>": {"b": 0.5, "a": 0.3, "</s>": 0.2}})
    result = search(chain, beam_width=3, max_length=1)
    expected = [("", np.log(0.2)), ("b", np.log(0.5)), ("a", np.log(0.3))]
    assert_hypotheses(result, expected)
    assert to_numpy(result.lengths).tolist() == [[0, 1, 1]]


def test_a_slot_without_hypothesis_is_empty():
    chain = Chain({"<s>": {"a": 0.6, "</s>": 0.4}, "a": {"</s>": 1.0}})
    result = search(chain, beam_width=4, max_length=5, length_penalty=0.6)
    assert to_numpy(result.scores)[0, 2:].tolist() == [-np.inf, -np.inf]
    assert to_numpy(result.lengths).tolist() == [[1, 0, 0, 0]]
    assert not to_numpy(result.ids)[0, 1:].any()
    assert not to_numpy(result.attention)[0, 1:].any()
    expected = [("a", np.log(0.6) / (7 / 6) ** 0.6), ("", np.log(0.4))]
    assert_hypotheses(result, expected)


def test_no_hypothesis_goes_on_past_its_end():
    """After </s> everything is certain, and a long hypothesis scores better."""
    table = {"<s>": {"</s>": 0.9, "a": 0.1}, "a": {"</s>": 1.0}, "</s>": {"b": 1.0}}
    result = search(Chain(table), beam_width=3, max_length=6, length_penalty=2.0)
    expected = [("", np.log(0.9)), ("a", np.log(0.1) / (7 / 6) ** 2)]
    assert_hypotheses(result, expected)


def test_pad_and_start_are_never_emitted():
    table = {
        "<s>": {"<pad>": 0.5, "<s>": 0.3, "a": 0.15, "b": 0.05},
        "a": {"<pad>": 0.9, "</s>": 0.1},
        "b": {"<s>": 0.9, "</s>": 0.1},
    }
    result = search(Chain(table), beam_width=4, max_length=4)
    assert_hypotheses(result, [("a", np.log(0.015)), ("b", np.log(0.005))])


@pytest.mark.parametrize(
    ("alpha", "best", "best_score"),
    [(0.0, "", np.log(0.5)), (1.0, "abcdefg", np.log(0.4) / (13 / 6))],
)
@pytest.mark.parametrize("n_best", [1, None])
def test_lengths_are_compared_by_normalized_scores(alpha, best, best_score, n_best):
    """The long hypothesis overtakes the one that ended at once only steps later: its
    log-probability is -0.92 to -0.69, over a penalty of up to 13 / 6."""
    table = {"<s>": {"</s>": 0.5, "a": 0.4, "j": 0.1}, "j": {"j": 1.0}}
    way = ["a", "b", "c", "d", "e", "f", "g", "</s>"]
    table |= {last: {token: 1.0} for last, token in itertools.pairwise(way)}
    options: dict = {"beam_width": 2, "max_length": 9, "length_penalty": alpha}
    result = search(Chain(table), **options, n_best=n_best)
    text, score = hypotheses(result)[0]
    assert text == best
    np.testing.assert_allclose(score, best_score, 1e-5)


class Counted:
    """A step that keeps the states it was called with."""

    def __init__(self, step):
        self._step = step
        self.states = []

    def __call__(self, token_ids, state):
        self.states.append(state)
        return self._step(token_ids, state)


@pytest.mark.parametrize(
    ("alpha", "n_best", "calls"),
    # "a" ends with 0.855 at step 2. Nothing open can reach that; its runner-up "b"
    # ends at step 3 (0.099), and "aa" (0.04275) never gets in.
    [(0.0, 1, 2), (1.0, 1, 2), (0.0, 2, 3)],
)
def test_stops_as_soon_as_the_result_is_certain(alpha, n_best, calls):
    if keras.backend.backend() != "tensorflow":
        pytest.skip("only a loop that runs in Python calls the step once a position")
    table = {
        "<s>": {"a": 0.9, "b": 0.1},
        "a": {"</s>": 0.95, "a": 0.05},
        "b": {"c": 1.0},
        "c": {"</s>": 0.99, "c": 0.01},
    }
    chain = Chain(table)
    step = Counted(chain.step)
    result = beam_search(
        step,
        chain.start(),
        batch_size=1,
        beam_width=2,
        max_length=50,
        length_penalty=alpha,
        n_best=n_best,
    )
    assert len(step.states) == calls
    assert hypotheses(result)[0][0] == "a"
    if n_best == 2:
        assert_hypotheses(result, [("a", np.log(0.855)), ("bc", np.log(0.099))])


def test_what_a_step_does_not_touch_is_not_moved():
    if keras.backend.backend() != "tensorflow":
        pytest.skip("only a loop that runs in Python shows its tensors")
    toy = Recurrent("abc", max_length=5)
    step = Counted(toy.step)
    beam_search(step, toy.start([1, 2]), batch_size=2, beam_width=3, max_length=5)
    assert len(step.states) > 2
    assert all(s["sentence"] is step.states[1]["sentence"] for s in step.states[1:])
    assert to_numpy(step.states[-1]["sentence"]).tolist() == [[1]] * 3 + [[2]] * 3


def test_a_state_may_be_any_nest_of_arrays():
    def step(token_ids, state):
        (count, nothing), memory = state["pair"], state["memory"]
        logits, _, _ = CHAIN.step(token_ids, {"time": count})
        weights = ops.stack([count, memory], axis=1)
        return logits, weights, {"pair": (count + 1, nothing), "memory": memory}

    state = {
        "pair": (np.zeros(2, "float32"), []),
        "memory": np.array([7.0, 8.0], "float32"),
    }
    result = beam_search(step, state, batch_size=2, beam_width=2, max_length=4)
    for row, memory in enumerate([7.0, 8.0]):
        assert_hypotheses(result, [("b", np.log(0.4)), ("ac", np.log(0.21))], row)
        attention = to_numpy(result.attention)[row, 1, :2]
        assert attention.tolist() == [[0, memory], [1, memory]]


def test_infinite_logits_are_what_never_happens():
    def step(token_ids, state):
        logits, weights, state = CHAIN.step(token_ids, state)
        return ops.where(logits < -1e8, -np.inf, logits), weights, state

    result = beam_search(step, CHAIN.start(), batch_size=1, beam_width=6, max_length=3)
    expected = [("b", 0.4), ("ac", 0.21), ("a", 0.18), ("aca", 0.21)]
    assert_hypotheses(result, [(text, np.log(p)) for text, p in expected])


def test_half_precision_logits_and_weights_give_float32():
    def step(token_ids, state):
        logits, weights, state = CHAIN.step(token_ids, state)
        logits = ops.cast(ops.maximum(logits, -1e4), "bfloat16")
        return logits, ops.cast(weights, "bfloat16"), state

    result = beam_search(step, CHAIN.start(), batch_size=1, beam_width=2, max_length=4)
    dtypes = [keras.backend.standardize_dtype(x.dtype) for x in result]
    assert dtypes == ["int32", "int32", "float32", "float32"]
    found = hypotheses(result)
    assert [text for text, _ in found] == ["b", "ac"]
    np.testing.assert_allclose([s for _, s in found], np.log([0.4, 0.21]), atol=2e-2)


def test_a_beam_of_one_keeps_the_finished_one():
    """It goes the way of greedy search, and what ended on the way counts."""
    chain = Chain({"<s>": {"a": 0.6, "</s>": 0.4}, "a": {"a": 1.0}})
    result = search(chain, batch_size=64, beam_width=1, max_length=3)
    assert tuple(result.ids.shape) == (64, 1, 3)
    assert_hypotheses(result, [("", np.log(0.4))], row=63)
    result = search(CHAIN, batch_size=64, beam_width=1, max_length=3)
    assert_hypotheses(result, [("ac", np.log(0.21))], row=63)


def test_without_weights():
    def step(token_ids, state):
        logits, weights, state = CHAIN.step(token_ids, state)
        return logits, weights[:, :0], state

    result = beam_search(step, CHAIN.start(2), batch_size=2, beam_width=2, max_length=4)
    assert_hypotheses(result, [("b", np.log(0.4)), ("ac", np.log(0.21))], row=1)
    assert tuple(result.attention.shape) == (2, 2, 4, 0)


def test_in_a_graph():
    def run(sentences):
        return search(CHAIN, ops.shape(sentences)[0], beam_width=2, max_length=4)

    result = as_graph(run, ops.zeros((3,)))
    assert_hypotheses(result, [("b", np.log(0.4)), ("ac", np.log(0.21))], row=2)


def test_in_a_graph_of_unknown_batch_size():
    if keras.backend.backend() != "tensorflow":
        pytest.skip("TensorFlow graphs alone have unknown sizes")
    import tensorflow as tf

    toy = Recurrent("abc", max_length=5)
    options: dict = {"beam_width": 3, "max_length": 5, "length_penalty": 0.6}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)])
    def run(sentences):
        return beam_search(
            toy.step,
            toy.start(sentences),
            batch_size=tf.shape(sentences)[0],
            **options,
        )

    for sentences in ([4], list(range(64)), []):
        expected = beam_search(
            toy.step, toy.start(sentences), batch_size=len(sentences), **options
        )
        result = run(tf.constant(sentences, "int32"))
        for part, wanted in zip(result, expected, strict=True):
            np.testing.assert_allclose(part, wanted, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_length": 0}, "`max_length`.*positive integer.*max_length=0"),
        ({"length_penalty": -1.0}, "`length_penalty`.*at least 0.*length_penalty=-1.0"),
        ({"beam_width": 0}, "`beam_width`.*positive integer.*beam_width=0"),
        ({"beam_width": 13}, "`beam_width`.*12 of a vocabulary of 14.*beam_width=13"),
        ({"n_best": 0}, "`n_best`.*positive integer.*n_best=0"),
        ({"n_best": 4}, "`n_best`.*at most the beam width, 3.*n_best=4"),
    ],
)
def test_a_bad_argument_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        search(CHAIN, **{"beam_width": 3, "max_length": 3, **options})


def test_a_beam_as_wide_as_what_can_be_emitted():
    """The widest allowed: one of its 12 places cannot be filled at the first step."""
    result = search(CHAIN, beam_width=12, max_length=3)
    expected = [("b", 0.4), ("ac", 0.21), ("a", 0.18), ("aca", 0.21)]
    assert_hypotheses(result, [(text, np.log(p)) for text, p in expected])
