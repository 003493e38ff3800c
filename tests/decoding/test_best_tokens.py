"""The choice of tokens, which all searches share."""

import numpy as np
import pytest

from keras_attn.decoding.result import GROUP, best_tokens
from tests.layers.layer_checks import to_numpy


def in_numpy(logits, count):
    """Log-softmax, all tokens sorted, <pad> and <s> left out."""
    logits = logits.astype("float64")
    total = np.log(
        np.exp(logits - logits.max(-1, keepdims=True)).sum(-1, keepdims=True)
    )
    log_probs = logits - logits.max(-1, keepdims=True) - total
    log_probs[:, [0, 2]] = -np.inf
    order = np.argsort(-log_probs, axis=-1, kind="stable")[:, :count]
    return np.take_along_axis(log_probs, order, axis=1), order


@pytest.mark.parametrize("count", [1, 4, 10])
# One stage, two stages, and two with a last group that is not full.
@pytest.mark.parametrize("width", [12, 60 * GROUP, 60 * GROUP + 1])
def test_are_those_of_the_whole_vocabulary(count, width):
    rng = np.random.default_rng(width + count)
    logits = rng.normal(size=(7, width), scale=3.0).astype("float32")
    # <pad> and <s> would be the best.
    logits[:, [0, 2]] = 20.0
    expected_log_probs, expected_ids = in_numpy(logits, count)
    log_probs, ids = best_tokens(logits, count)
    np.testing.assert_array_equal(to_numpy(ids), expected_ids)
    np.testing.assert_allclose(to_numpy(log_probs), expected_log_probs, rtol=1e-5)


@pytest.mark.parametrize("width", [20, 60 * GROUP])
def test_ties_go_to_the_smaller_id(width):
    """Whole groups of equal logits, and equal ones far apart."""
    rng = np.random.default_rng(0)
    logits = rng.integers(0, 3, size=(5, width)).astype("float32")
    _, ids = best_tokens(logits, 6)
    np.testing.assert_array_equal(to_numpy(ids), in_numpy(logits, 6)[1])


def test_no_row():
    log_probs, ids = best_tokens(np.zeros((0, 60 * GROUP), "float32"), 3)
    assert to_numpy(ids).shape == to_numpy(log_probs).shape == (0, 3)
