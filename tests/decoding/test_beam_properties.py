"""Beam search against the definition, on random probabilities."""

from typing import NamedTuple

import keras
import numpy as np
import pytest

from keras_attn.decoding import beam_search
from tests.decoding.toy import (
    EOS,
    VOCABULARY,
    Recurrent,
    assert_hypotheses,
    hypotheses,
    to_numpy,
)


def search_sentences(toy, sentences, **options):
    return beam_search(
        toy.step,
        toy.start(sentences),
        batch_size=len(sentences),
        max_length=toy.max_length,
        **options,
    )


@pytest.mark.parametrize(
    ("alpha", "n_best"), [(0.0, None), (0.6, 2), (1.0, None), (2.0, 2), (2.0, None)]
)
def test_a_wide_beam_is_exhaustive(alpha, n_best):
    """Two letters, four steps: at most 8 open hypotheses with 24 continuations, which
    are the 2 K that a beam of 12 looks at; all 15 that can end do so."""
    toy, sentences = Recurrent("ab", max_length=4), [0, 1, 2, 3]
    result = search_sentences(
        toy, sentences, beam_width=12, length_penalty=alpha, n_best=n_best
    )
    for row, sentence in enumerate(sentences):
        expected = toy.all_finished(sentence, alpha)
        assert len(expected) == 15
        count = n_best or 12
        found = hypotheses(result, row)[:count]
        assert [text for text, _ in found] == [text for text, _ in expected[:count]]
        np.testing.assert_allclose(
            [s for _, s in found], [s for _, s in expected[:count]], 1e-5
        )


def plain_beam_search(toy, sentence, beam_width, alpha):
    """The search on lists, without stopping early."""
    beam: list = [(0.0, [])]
    ended: list = []
    for _ in range(toy.max_length):
        every = [
            (toy.log_prob(sentence, [*ids, token]), [*ids, token])
            for _, ids in beam
            for token in toy.tokens
        ]
        every = sorted(every, reverse=True)[: 2 * beam_width]
        ended += [ids[:-1] for _, ids in every if ids[-1] == EOS]
        beam = [pair for pair in every if pair[1][-1] != EOS][:beam_width]
    finished = [(toy.score(sentence, ids, alpha), ids) for ids in ended]
    unfinished = [(toy.score(sentence, ids, alpha, False), ids) for _, ids in beam]
    ranked = sorted(finished, reverse=True) + sorted(unfinished, reverse=True)
    return [
        ("".join(VOCABULARY[i] for i in ids), score)
        for score, ids in ranked[:beam_width]
    ]


@pytest.mark.parametrize(
    ("beam_width", "alpha"), [(1, 0.6), (2, 0.0), (3, 1.0), (5, 2.0)]
)
def test_a_narrow_beam_prunes_as_defined(beam_width, alpha):
    toy, sentences = Recurrent("abcde", max_length=6, seed=1), [3, 14, 15, 92]
    result = search_sentences(
        toy, sentences, beam_width=beam_width, length_penalty=alpha
    )
    for row, sentence in enumerate(sentences):
        expected = plain_beam_search(toy, sentence, beam_width, alpha)
        assert_hypotheses(result, expected, row)


class Searched(NamedTuple):
    toy: Recurrent
    sentences: list[int]
    result: list[np.ndarray]  # ids, lengths, scores, attention

    def hypotheses(self):
        """`(sentence, ids, score, attention [T, S])` of every hypothesis."""
        ids, lengths, scores, attention = self.result
        for row, k in np.ndindex(lengths.shape):
            own = ids[row, k, : lengths[row, k]].tolist()
            yield self.sentences[row], own, scores[row, k], attention[row, k]


@pytest.fixture(scope="module")
def crossing():
    """A search in which hypotheses often change places."""
    toy, sentences = Recurrent("abcdefg", max_length=7, unknown=True), list(range(20))
    result = search_sentences(toy, sentences, beam_width=6, length_penalty=1.0)
    return Searched(toy, sentences, [to_numpy(part) for part in result])


def test_every_score_is_that_of_its_hypothesis(crossing):
    for sentence, ids, score, _ in crossing.hypotheses():
        finished = len(ids) < crossing.toy.max_length
        expected = crossing.toy.score(sentence, ids, 1.0, finished)
        np.testing.assert_allclose(score, expected, 1e-5)


def test_beyond_its_length_a_hypothesis_is_zero(crossing):
    ids, lengths, _, attention = crossing.result
    assert len(np.unique(lengths)) > 3
    beyond = np.arange(crossing.toy.max_length) >= lengths[..., None]
    assert not ids[beyond].any()
    assert not attention[beyond].any()


def test_no_two_hypotheses_are_the_same(crossing):
    found = [(sentence, *ids) for sentence, ids, _, _ in crossing.hypotheses()]
    assert len(set(found)) == len(found) == 20 * 6


def test_hypotheses_come_best_first_the_finished_before(crossing):
    _, lengths, scores, _ = crossing.result
    finished = lengths < crossing.toy.max_length
    assert np.all(finished[:, :-1] >= finished[:, 1:])
    falls = scores[:, :-1] >= scores[:, 1:]
    assert np.all(falls | (finished[:, :-1] & ~finished[:, 1:]))


def test_state_and_attention_follow_each_hypothesis(crossing):
    """Row t of the attention is what the state knew at step t: the sentence, which no
    step touches, and the tokens before, which every step adds to."""
    ids = crossing.result[0]
    assert np.any(ids[:, 1:, 0] != ids[:, :1, 0])  # they differ from the start
    for sentence, own_ids, _, attention in crossing.hypotheses():
        expected = crossing.toy.attention(sentence, own_ids)
        assert attention[: len(own_ids)].tolist() == expected


def test_a_sentence_does_not_depend_on_its_batch(crossing):
    toy, sentences, batch = crossing
    for row in (0, 7):
        alone = search_sentences(
            toy, [sentences[row]], beam_width=6, length_penalty=1.0
        )
        for part, alone_part in zip(batch, alone, strict=True):
            np.testing.assert_allclose(part[row], to_numpy(alone_part)[0], atol=1e-6)


def test_the_best_does_not_depend_on_how_many_are_asked_for(crossing):
    toy, sentences, all_final = crossing
    options = {"beam_width": 6, "length_penalty": 1.0, "n_best": 1}
    batch = search_sentences(toy, sentences, **options)
    alone = search_sentences(toy, sentences[7:8], **options)
    for final, part, alone_part in zip(all_final, batch, alone, strict=True):
        np.testing.assert_allclose(to_numpy(part)[:, 0], final[:, 0], atol=1e-6)
        np.testing.assert_allclose(to_numpy(alone_part)[0, 0], final[7, 0], atol=1e-6)


def test_a_settled_sentence_stays_as_it_was(crossing):
    """All of its hypotheses, whatever it shared the batch with and for how long; on
    TensorFlow it costs no further steps."""
    toy, sentences, _ = crossing
    rows = []

    def step(token_ids, state):
        rows.append(token_ids.shape[0])
        return toy.step(token_ids, state)

    options = {"beam_width": 3, "max_length": toy.max_length, "n_best": 1}
    batch = beam_search(
        step, toy.start(sentences), batch_size=len(sentences), **options
    )
    for row, sentence in enumerate(sentences):
        alone = search_sentences(toy, [sentence], beam_width=3, n_best=1)
        for part, alone_part in zip(batch, alone, strict=True):
            np.testing.assert_allclose(
                to_numpy(part)[row], to_numpy(alone_part)[0], atol=1e-6
            )
    if keras.backend.backend() == "tensorflow":
        assert rows == sorted(rows, reverse=True)
        assert rows[-1] < rows[0] / 2
