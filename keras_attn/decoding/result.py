"""What every search returns, and what they share."""

from typing import Any, NamedTuple

from keras import ops, tree

from keras_attn.checks import check_positive

PAD_ID, BOS_ID, EOS_ID = 0, 2, 3

# The log-probability of what must never be chosen: far below any real one, yet finite.
IMPOSSIBLE = -1e9


class SearchResult(NamedTuple):
    """Hypotheses of a batch of B sources, best first, K a source.

    Attributes:
        ids: int32 `[B, K, T]`, without <s> and </s>; 0 beyond the length.
        lengths: int32 `[B, K]`.
        scores: float32 `[B, K]`: log-probability with </s>, divided by the length
            penalty. A slot for which there was no hypothesis has score -inf, length 0.
        attention: float32 `[B, K, T, S]`, row t the weights with which token t was
            chosen; 0 beyond the length. S is 0 for a model without attention.
    """

    ids: Any
    lengths: Any
    scores: Any
    attention: Any


def length_penalty_of(length, alpha: float):
    """((5 + length) / 6)^alpha, the length counting </s> (Wu et al. 2016, eq. 14)."""
    return ((5.0 + ops.cast(length, "float32")) / 6.0) ** alpha


def allowed_log_probs(logits):
    """Log-probabilities in float32 of `[..., V]` logits; never <pad> nor <s>."""
    log_probs = ops.log_softmax(ops.cast(logits, "float32"), axis=-1)
    ids = ops.arange(logits.shape[-1])
    forbidden = ops.logical_or(ops.equal(ids, PAD_ID), ops.equal(ids, BOS_ID))
    return ops.where(forbidden, IMPOSSIBLE, log_probs)


def write(buffer, t, value):
    """`buffer` `[T, ...]` with row t replaced by `value`."""
    # A scatter is no faster here, and refuses rows that are empty: those of a model
    # without attention, and of a batch of no sentence.
    here = ops.equal(ops.arange(ops.shape(buffer)[0], dtype="int32"), t)
    here = ops.reshape(here, (-1, *[1] * len(value.shape)))
    return ops.where(here, value[None], buffer)


def first_step(step, state, rows: int):
    """The step on <s>, taken before the loop to learn the widths of its outputs."""
    state = tree.map_structure(ops.convert_to_tensor, state)
    logits, weights, state = step(ops.full((rows,), BOS_ID, dtype="int32"), state)
    return logits, ops.cast(weights, "float32"), state


def check_search(max_length: int, length_penalty: float) -> None:
    check_positive("max_length", max_length)
    if length_penalty < 0:
        raise ValueError(
            "Invalid value for argument `length_penalty`. Expected a number of at "
            f"least 0. Received: length_penalty={length_penalty}"
        )
