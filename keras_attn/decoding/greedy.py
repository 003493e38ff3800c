"""Greedy search."""

from keras import ops

from keras_attn.decoding.result import (
    EOS_ID,
    PAD_ID,
    SearchResult,
    best_tokens,
    check_search,
    first_step,
    length_penalty_of,
    write,
)


def greedy_search(
    step, state, *, batch_size, max_length: int, length_penalty: float = 0.0
) -> SearchResult:
    """Take the most probable token at every position until </s>.

    Args:
        step: `(token_ids [B], state) -> (logits [B, V], weights [B, S], state)`, a pure
            function.
        state: the state before <s>: a nest of tensors whose first axis is the batch.
        batch_size: B, a number or a scalar tensor.
        max_length: the most tokens emitted, </s> among them.
        length_penalty: exponent of the penalty by which the scores are divided; it
            changes the scores only.

    Returns:
        A `SearchResult` with K = 1.
    """
    check_search(max_length, length_penalty)

    def choose(t, logits, weights, chosen):
        finished, log_prob, ids, attention = chosen
        best, token = (x[:, 0] for x in best_tokens(logits, 1))
        log_prob = log_prob + ops.where(finished, 0.0, best)
        finished = ops.logical_or(finished, ops.equal(token, EOS_ID))
        ids = write(ids, t, ops.where(finished, PAD_ID, token))
        weights = ops.where(finished[:, None], 0.0, weights)
        return token, (finished, log_prob, ids, write(attention, t, weights))

    logits, weights, state = first_step(step, state, batch_size)
    chosen = (
        ops.zeros((batch_size,), dtype="bool"),
        ops.zeros((batch_size,), dtype="float32"),
        ops.zeros((max_length, batch_size), dtype="int32"),
        ops.zeros((max_length, *ops.shape(weights)), dtype="float32"),
    )
    token, chosen = choose(0, logits, weights, chosen)

    def body(t, token, state, chosen):
        logits, weights, state = step(token, state)
        token, chosen = choose(t, logits, ops.cast(weights, "float32"), chosen)
        return t + 1, token, state, chosen

    def unfinished(t, token, state, chosen):
        return ops.logical_and(t < max_length, ops.logical_not(ops.all(chosen[0])))

    loop = (ops.convert_to_tensor(1, dtype="int32"), token, state, chosen)
    _, _, _, chosen = ops.while_loop(
        unfinished, body, loop, maximum_iterations=max_length
    )
    finished, log_prob, ids, attention = chosen
    lengths = ops.sum(ops.cast(ops.not_equal(ids, PAD_ID), "int32"), axis=0)
    emitted = lengths + ops.cast(finished, "int32")
    return SearchResult(
        ids=ops.transpose(ids)[:, None],
        lengths=lengths[:, None],
        scores=(log_prob / length_penalty_of(emitted, length_penalty))[:, None],
        attention=ops.transpose(attention, (1, 0, 2))[:, None],
    )
