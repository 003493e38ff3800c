"""Beam search."""

from typing import Any, NamedTuple

from keras import ops, tree

from keras_attn import backend
from keras_attn.checks import check_positive
from keras_attn.decoding.hypotheses import (
    Beams,
    Finished,
    History,
    collect,
    extend,
    flat,
    reorder,
)
from keras_attn.decoding.result import (
    IMPOSSIBLE,
    SearchResult,
    check_search,
    first_step,
    length_penalty_of,
    write,
)


class Search(NamedTuple):
    """What a step goes on with: of the b sentences that are still searched."""

    place: Any  # int32 `[B]`, where each sentence stands among them
    searched: Any  # bool `[B]`, whether it is still one of them
    tokens: Any  # int32 `[b * K]`, the last tokens
    state: Any  # the decoder's
    beams: Beams


def beam_search(
    step,
    state,
    *,
    batch_size,
    beam_width: int,
    max_length: int,
    length_penalty: float = 0.0,
    n_best: int | None = None,
) -> SearchResult:
    """Keep the `beam_width` most probable hypotheses at every position.

    A hypothesis that emits </s> leaves the beam and is kept with its score,
    log-probability / ((5 + n) / 6)^length_penalty with n its length counting </s>
    (Wu et al. 2016), by which hypotheses of different length are compared. The search
    of a sentence is over when no open hypothesis can still enter its `n_best` finished
    ones. Finished hypotheses rank before unfinished ones. <pad> and <s> are never
    emitted.

    The search repeats `state` for the hypotheses and re-orders it itself. A tensor of
    the state that `step` hands back untouched (the memory, the keys) is the same for
    all hypotheses of a sentence and is not re-ordered.

    Args:
        step: `(token_ids [N], state) -> (logits [N, V], weights [N, S], state)`, a pure
            function, N = B * beam_width with the hypotheses of a sentence side by side.
        state: the state before <s>: a nest of tensors whose first axis is the batch.
        batch_size: B, a number or a scalar tensor.
        beam_width: K, hypotheses kept; at most the tokens that can be emitted.
        max_length: the most tokens emitted, </s> among them.
        length_penalty: exponent alpha of at least 0; 0 compares log-probabilities, and
            the larger it is the longer the translations.
        n_best: how many hypotheses have to be final, the best ones; all by default.
            With fewer the search may stop earlier, and those after the `n_best` first
            are then what was found so far.

    Returns:
        A `SearchResult` with K = `beam_width`, best first.

    Raises:
        ValueError: for an argument out of range.
    """
    check_search(max_length, length_penalty)
    check_positive("beam_width", beam_width)
    n_best = beam_width if n_best is None else check_positive("n_best", n_best)
    if n_best > beam_width:
        raise ValueError(
            "Invalid value for argument `n_best`. Expected at most the beam width, "
            f"{beam_width}. Received: n_best={n_best}"
        )
    options = _Options(beam_width, max_length, length_penalty, n_best)
    state = tree.map_structure(lambda x: ops.repeat(x, beam_width, axis=0), state)
    logits, weights, state = first_step(step, state, batch_size * beam_width)
    _check_vocabulary(beam_width, logits.shape[-1])
    search, history = _start(options, batch_size, state, weights)
    start = ops.convert_to_tensor(0, dtype="int32")
    # The first step's input state is not at hand here, but all its rows are equal.
    loop = _choose(options, start, logits, weights, state, search, history)

    def body(t, search, history):
        logits, weights, state = step(search.tokens, search.state)
        old_state, search = search.state, search._replace(state=state)
        return _choose(options, t, logits, weights, old_state, search, history)

    _, done, history = _run(options, body, loop)
    return collect(done, history, length_penalty)


class _Options(NamedTuple):
    beam_width: int
    max_length: int
    length_penalty: float
    n_best: int


def _start(options, batch_size, state, weights):
    """Before the first choice: all sentences are searched, with no history."""
    beam_width, max_length = options.beam_width, options.max_length
    shape = (batch_size, beam_width)
    # The hypotheses of a sentence are still one and the same: continue only one.
    first = ops.arange(beam_width) == 0
    beams = Beams(
        log_probs=ops.where(first, 0.0, IMPOSSIBLE) + ops.zeros(shape),
        steps=ops.zeros((batch_size,), dtype="int32"),
        finished=Finished(
            scores=ops.full(shape, IMPOSSIBLE, dtype="float32"),
            lengths=ops.zeros(shape, dtype="int32"),
            beams=ops.zeros(shape, dtype="int32"),
        ),
    )
    search = Search(
        place=ops.arange(batch_size, dtype="int32"),
        searched=ops.ones((batch_size,), dtype="bool"),
        tokens=ops.zeros((batch_size * beam_width,), dtype="int32"),
        state=state,
        beams=beams,
    )
    width = ops.shape(weights)[-1]
    history = History(
        tokens=ops.zeros((max_length, *shape), dtype="int32"),
        parents=ops.zeros((max_length, *shape), dtype="int32"),
        weights=ops.zeros((max_length, *shape, width), dtype="float32"),
    )
    return search, history


def _settled(options, beams):
    """Whether the `n_best` finished hypotheses are final: `[b]`."""
    # Log-probabilities only fall, so this is the most the best one can still reach.
    largest = length_penalty_of(options.max_length, options.length_penalty)
    reachable = beams.log_probs[:, 0] / largest
    return beams.finished.scores[:, options.n_best - 1] >= reachable


def _choose(options, t, logits, weights, old_state, search, history):
    """Continue the sentences that are not settled, and note what was chosen."""
    settled = _settled(options, search.beams)
    beams, parents, tokens = extend(t, logits, search.beams, options.length_penalty)
    # What is settled stays as it is, whatever it shares the batch with.
    beams = tree.map_structure(
        lambda old, new: ops.where(
            ops.reshape(settled, (-1, *[1] * (len(new.shape) - 1))), old, new
        ),
        search.beams,
        beams,
    )
    weights = ops.cast(weights, "float32")
    # Not -1, which a width of 0 leaves open.
    shape = (ops.shape(settled)[0], options.beam_width, ops.shape(weights)[-1])
    weights = ops.reshape(weights, shape)

    def note(buffer, value):
        # Sentences no longer searched get any row: theirs is not looked at any more.
        return write(buffer, t, ops.take(value, search.place, axis=0))

    history = History(
        tokens=note(history.tokens, tokens),
        parents=note(history.parents, parents),
        weights=note(history.weights, weights),
    )
    state = reorder(old_state, search.state, flat(parents))
    tokens = ops.reshape(tokens, (-1,))
    search = search._replace(tokens=tokens, state=state, beams=beams)
    return t + 1, search, history


def _run(options, body, loop):
    """Step until all sentences are settled: steps done, their beams and history.

    On TensorFlow, whenever half of them are, only the others go on.
    """
    shrinks = backend.can_shrink()

    def going_on(t, search, history):
        going = ops.logical_not(_settled(options, search.beams))
        if not shrinks:
            return ops.logical_and(t < options.max_length, ops.any(going))
        count, total = ops.sum(ops.cast(going, "int32")), ops.shape(going)[0]
        return ops.logical_and(t < options.max_length, 2 * count > total)

    if not shrinks:
        t, search, history = ops.while_loop(going_on, body, loop, options.max_length)
        return t, search.beams, history

    def unsettled(t, history, done, *search):
        settled = ops.all(_settled(options, Search(*search).beams))
        return ops.logical_and(t < options.max_length, ops.logical_not(settled))

    def run_and_shrink(t, history, done, *search):
        t, search, history = ops.while_loop(
            going_on, body, (t, Search(*search), history), options.max_length
        )
        search, done = _shrink(options, search, done)
        return t, history, done, *search

    t, search, history = loop
    shrinking = [name not in ("place", "searched") for name in Search._fields]
    t, history, done, *_ = backend.while_loop(
        unsettled,
        run_and_shrink,
        (t, history, search.beams, *search),
        options.max_length,
        (False, False, False, *shrinking),
    )
    return t, done, history


def _shrink(options, search, done):
    """Put what is known into `done`, and keep the sentences that are not settled."""
    place, searched = search.place, search.searched

    def put(old, new):
        here = ops.reshape(searched, (-1, *[1] * (len(new.shape) - 1)))
        return ops.where(here, ops.take(new, place, axis=0), old)

    done = tree.map_structure(put, done, search.beams)
    going = ops.logical_not(_settled(options, search.beams))
    searched = ops.logical_and(searched, ops.take(going, place, axis=0))
    ranks = ops.cumsum(ops.cast(going, "int32")) - 1
    place = ops.where(searched, ops.take(ranks, place, axis=0), 0)
    (rows,) = ops.nonzero(going)
    rows = ops.cast(rows, "int32")
    slots = ops.arange(options.beam_width, dtype="int32")
    # [b * K]
    hypotheses = ops.reshape(rows[:, None] * options.beam_width + slots, (-1,))
    search = Search(
        place=place,
        searched=searched,
        tokens=ops.take(search.tokens, hypotheses, axis=0),
        state=tree.map_structure(
            lambda x: ops.take(x, hypotheses, axis=0), search.state
        ),
        beams=tree.map_structure(lambda x: ops.take(x, rows, axis=0), search.beams),
    )
    return search, done


def _check_vocabulary(beam_width, vocabulary_size):
    emittable = vocabulary_size - 2  # all but <pad> and <s>
    if beam_width > emittable:
        raise ValueError(
            "Invalid value for argument `beam_width`. Expected at most the number of "
            f"tokens that can be emitted, {emittable} of a vocabulary of "
            f"{vocabulary_size}. Received: beam_width={beam_width}"
        )
