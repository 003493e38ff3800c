"""The hypotheses of a beam search: how they go on, end, and are traced back."""

from typing import Any, NamedTuple

from keras import ops, tree

from keras_attn import backend
from keras_attn.decoding.result import (
    EOS_ID,
    IMPOSSIBLE,
    SearchResult,
    best_tokens,
    length_penalty_of,
)


class Finished(NamedTuple):
    """The K best hypotheses that ended in </s>, best first; all `[B, K]`."""

    scores: Any
    lengths: Any  # without </s>
    beams: Any  # the open hypothesis that </s> closed


class Beams(NamedTuple):
    """What is known of each sentence."""

    log_probs: Any  # `[B, K]`, of its open hypotheses, best first
    steps: Any  # int32 `[B]`, their length
    finished: Finished


class History(NamedTuple):
    """What every step chose, for tracing hypotheses back: `[max_length, B, K, ...]`."""

    tokens: Any
    parents: Any  # the open hypothesis each one continues
    weights: Any  # of the parents


def extend(t, logits, beams, length_penalty):
    """The best continuations of the open hypotheses; those that end join `finished`.

    Returns:
        The beams after it, and the parent and token of each open hypothesis.
    """
    log_probs, finished = beams.log_probs, beams.finished
    beam_width = log_probs.shape[1]
    # At most K of the best 2 K end here, so that K remain open; all may be of one
    # parent, if it has so many.
    count = min(2 * beam_width, logits.shape[-1] - 2)
    scores, tokens = best_tokens(logits, count)
    scores = ops.reshape(log_probs, (-1, 1)) + scores
    # [B, K * count]
    scores, tokens = (
        ops.reshape(x, (-1, beam_width * count)) for x in (scores, tokens)
    )
    scores, index = ops.top_k(scores, min(2 * beam_width, beam_width * count))
    index = ops.cast(index, "int32")
    parents, tokens = index // count, _pick(tokens, index)
    ends = ops.equal(tokens, EOS_ID)

    possible = ops.logical_and(ends, scores > IMPOSSIBLE / 2)
    ended = scores / length_penalty_of(t + 1, length_penalty)
    ended = ops.where(possible, ended, IMPOSSIBLE)
    merged = Finished(
        scores=ops.concatenate([finished.scores, ended], axis=1),
        lengths=ops.concatenate(
            [finished.lengths, ops.full_like(parents, 0) + t], axis=1
        ),
        beams=ops.concatenate([finished.beams, parents], axis=1),
    )
    best, order = ops.top_k(merged.scores, beam_width)
    finished = Finished(best, _pick(merged.lengths, order), _pick(merged.beams, order))

    log_probs, order = ops.top_k(ops.where(ends, IMPOSSIBLE, scores), beam_width)
    beams = Beams(log_probs, beams.steps * 0 + t + 1, finished)
    return beams, _pick(parents, order), _pick(tokens, order)


def reorder(old_state, state, rows):
    # A tensor that the step did not touch is the same for all beams of a sentence.
    return tree.map_structure(
        lambda old, new: new if new is old else ops.take(new, rows, axis=0),
        old_state,
        state,
    )


def collect(beams, history, length_penalty):
    """Finished hypotheses first, unfinished ones in the slots that remain."""
    log_probs, finished, steps = beams.log_probs, beams.finished, beams.steps[:, None]
    beam_width = log_probs.shape[1]
    slots = ops.arange(beam_width, dtype="int32")[None]
    is_finished = finished.scores > IMPOSSIBLE / 2
    count = ops.sum(ops.cast(is_finished, "int32"), axis=1, keepdims=True)
    is_open = log_probs > IMPOSSIBLE / 2
    rank = ops.maximum(slots - count, 0)

    open_scores = log_probs / length_penalty_of(steps, length_penalty)
    open_scores = ops.where(is_open, open_scores, float("-inf"))
    open_lengths = ops.where(is_open, steps, 0)
    beams = ops.where(is_finished, finished.beams, rank)
    lengths = ops.where(is_finished, finished.lengths, _pick(open_lengths, rank))
    scores = ops.where(is_finished, finished.scores, _pick(open_scores, rank))

    path, parents = _trace(history.parents, beams, lengths)
    max_length = ops.shape(path)[0]
    inside = ops.arange(max_length, dtype="int32")[:, None, None] < lengths[None]
    ids = ops.where(inside, ops.take_along_axis(history.tokens, path, axis=2), 0)
    # [T * B * K, S], rows in the order of the steps' parents
    width = ops.shape(history.weights)[-1]
    rows = ops.size(path)
    weights = ops.reshape(history.weights, (rows, width))
    weights = ops.take(weights, _flat_of_time(parents), axis=0)
    attention = ops.reshape(weights, (*ops.shape(path), width))
    attention = ops.where(inside[..., None], attention, 0.0)
    return SearchResult(
        ids=ops.transpose(ids, (1, 2, 0)),
        lengths=lengths,
        scores=scores,
        attention=ops.transpose(attention, (1, 2, 0, 3)),
    )


def _trace(parents, beams, lengths):
    """Follow the back pointers from the hypotheses' last tokens.

    Returns:
        `[T, B, K]`: the beam that held each hypothesis after each step, and that beam's
        parent. Beyond the length they mean nothing.
    """
    times = ops.arange(ops.shape(parents)[0], dtype="int32")

    def back(beam, x, _):
        t, parent = x
        parent = ops.take_along_axis(parent, beam, axis=1)
        return ops.where(t < lengths, parent, beam), (beam, parent)

    xs = (ops.flip(times, 0), ops.flip(parents, 0))
    _, (path, parents) = backend.scan(back, beams, xs, ("int32", "int32"))
    return ops.flip(path, 0), ops.flip(parents, 0)


def _pick(x, order):
    return ops.take_along_axis(x, ops.cast(order, "int32"), axis=1)


def flat(beams):
    """`[B, K]` beam numbers as row numbers of `[B * K, ...]`: `[B * K]`."""
    batch_size, beam_width = ops.shape(beams)
    offset = ops.arange(batch_size, dtype="int32")[:, None] * beam_width
    return ops.reshape(offset + beams, (-1,))


def _flat_of_time(beams):
    """`[T, B, K]` beam numbers as row numbers of `[T * B * K, ...]`."""
    steps, batch_size, beam_width = ops.shape(beams)
    return flat(ops.reshape(beams, (steps * batch_size, beam_width)))
