import numpy as np
import pytest
import tensorflow as tf

from keras_attn.export import ExportError
from keras_attn.export.agreement import check_agreement, check_same


def n_best(*rows):
    """What signature `nbest` returns, of (text, score) pairs for each text."""
    return {
        "text": tf.constant([[text for text, _ in row] for row in rows]),
        "score": tf.constant([[score for _, score in row] for row in rows]),
    }


def test_scores_may_move_a_little_and_hypotheses_of_equal_worth_change_places():
    own = n_best(
        [("a", -1.0), ("b", -9.0)], [("", 0.0), ("", -np.inf)], [("a", -50.0)] * 2
    )
    check_agreement(own, own, "bfloat16")
    other = n_best(
        [("a", -1.11), ("b", -9.0)], [("", 0.0), ("", -np.inf)], [("b", -51.0)] * 2
    )
    check_agreement(own, other, "bfloat16")


@pytest.mark.parametrize(
    ("text", "score"),
    [("a", -1.13), ("a", -0.87), ("b", -1.0), ("a", np.nan)],
    ids=["worse", "better", "another text", "NaN"],
)
def test_a_real_difference_is_told(text, score):
    own = n_best([("a", -1.0), ("b", -1.2)])
    with pytest.raises(ExportError, match=r"in bfloat16 .*'a' with score -1\.0000 "):
        check_agreement(own, n_best([(text, score), ("b", -1.2)]), "bfloat16")


def test_of_one_hypothesis_the_scores_are_compared():
    own = n_best([("a", -1.0)])
    check_agreement(own, n_best([("b", -1.1)]), "bfloat16")
    with pytest.raises(ExportError, match="Received: 'b' with score -2"):
        check_agreement(own, n_best([("b", -2.0)]), "bfloat16")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"text": [b"a"], "score": [-1.1]}, "Output 'score' of signature 'best'"),
        ({"text": [b"b"], "score": [-1.0]}, "Output 'text' of signature 'best'"),
        ({"text": [b"a"], "score": [[-1.0]]}, "Output 'score' of signature 'best'"),
        ({"text": [b"a"]}, r"returns \['text'\]. Expected: \['score', 'text'\]"),
    ],
)
def test_a_written_signature_has_to_answer_the_same(answer, message):
    expected = {"text": tf.constant(["a"]), "score": tf.constant([-1.0])}
    answer = {key: np.array(value) for key, value in answer.items()}
    with pytest.raises(ExportError, match=message):
        check_same("best", expected, answer)
    check_same("best", expected, {k: v.numpy() for k, v in expected.items()})
