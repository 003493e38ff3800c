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


def best_tokens(logits, count: int):
    """The most probable tokens, of those that can be emitted: neither <pad> nor <s>.

    Only what is chosen is normalised, and ties go to the smaller id.

    Args:
        logits: `[N, V]`.
        count: at most V - 2.

    Returns:
        Log-probabilities in float32 and ids in int32, `[N, count]`, best first.
    """
    logits = ops.cast(logits, "float32")
    # Two more, since <pad> and <s> may be among them.
    values, ids = _top_k(logits, count + 2)
    total = ops.sum(ops.exp(logits - values[:, :1]), axis=-1, keepdims=True)
    forbidden = ops.logical_or(ops.equal(ids, PAD_ID), ops.equal(ids, BOS_ID))
    values = values - values[:, :1] - ops.log(total)
    values, order = ops.top_k(ops.where(forbidden, IMPOSSIBLE, values), count)
    return values, ops.take_along_axis(ids, ops.cast(order, "int32"), axis=1)


# Columns compared at once in the first of two stages.
GROUP = 40


def _top_k(x, k: int):
    """`ops.top_k` of `[N, V]`: the k largest are in the k groups of largest maxima.

    Two thirds of the time of one stage for 160 rows of 8,000, half of it for more.
    """
    width = x.shape[-1]
    groups = -(-width // GROUP)
    if groups < 4 * k:
        values, ids = ops.top_k(x, k)
        return values, ops.cast(ids, "int32")
    x = ops.pad(
        x, [[0, 0], [0, groups * GROUP - width]], constant_values=2 * IMPOSSIBLE
    )
    x = ops.reshape(x, (-1, GROUP))
    # With `initial` it takes a batch of no row, too.
    maxima = ops.max(x, axis=-1, initial=2 * IMPOSSIBLE)
    maxima = ops.reshape(maxima, (-1, groups))
    _, chosen = ops.top_k(maxima, k)
    # In the order of their ids, so that ties go to the smaller one here, too.
    chosen = ops.sort(ops.cast(chosen, "int32"), axis=-1)
    first = ops.arange(ops.shape(chosen)[0], dtype="int32")[:, None] * groups
    x = ops.take(x, first + chosen, axis=0)
    values, order = ops.top_k(ops.reshape(x, (-1, k * GROUP)), k)
    order = ops.cast(order, "int32")
    ids = ops.take_along_axis(chosen, order // GROUP, axis=1) * GROUP + order % GROUP
    return values, ids


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
