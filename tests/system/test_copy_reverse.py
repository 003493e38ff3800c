"""Training, translation and export on tasks whose attention is a known permutation.

Row t of the attention must point at the source position of token t: for the best
hypothesis and for the others, through the translator and through the export.
"""

import itertools

import numpy as np
import pytest
import tensorflow as tf

BEAM_WIDTH = 4
OPTIONS = {"beam_width": BEAM_WIDTH, "max_length": 12}


@pytest.fixture(scope="module", params=["copy_task", "reverse_task"])
def task(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def n_best(task):
    return task.translator.translate_n_best(task.sources, **OPTIONS)


def target_tokens(task, row):
    tokenizer = task.translator.target_tokenizer
    return [t.decode() for t in tokenizer.split(task.targets[row]).numpy()]


def points_right(translation):
    """For each row of the attention, whether it points at the token it stands for."""
    return [
        translation.source_tokens[weights.argmax()] == token
        for token, weights in zip(
            translation.tokens, translation.attention, strict=True
        )
    ]


def exact_match(translations, task):
    return np.mean(
        [t.text == target for t, target in zip(translations, task.targets, strict=True)]
    )


def test_unseen_sentences_are_translated(task, n_best):
    assert len(task.sources) > 100
    assert exact_match([hypotheses[0] for hypotheses in n_best], task) >= 0.95


def test_greedy_search_translates_them_too(task):
    best = task.translator.translate(task.sources, beam_width=1, max_length=12)
    assert exact_match(best, task) >= 0.95
    assert np.mean([all(points_right(translation)) for translation in best]) >= 0.95


def test_without_attention_short_sentences_are_translated(plain_task):
    best = plain_task.translator.translate(plain_task.sources, **OPTIONS)
    assert exact_match(best, plain_task) >= 0.9
    assert all(translation.attention is None for translation in best)


def test_rows_and_columns_line_up_with_the_tokens(task, n_best):
    for source, hypotheses in zip(task.sources, n_best, strict=True):
        assert len(hypotheses) == BEAM_WIDTH
        scores = [hypothesis.score for hypothesis in hypotheses]
        assert scores == sorted(scores, reverse=True)
        pieces = [
            t.decode() for t in task.translator.source_tokenizer.split(source).numpy()
        ]
        for hypothesis in hypotheses:
            assert hypothesis.source_tokens == [*pieces, "</s>"]
            shape = (len(hypothesis.tokens), len(pieces) + 1)
            assert hypothesis.attention.shape == shape
            sums = hypothesis.attention.sum(axis=1)
            np.testing.assert_allclose(sums, 1, atol=1e-5)


@pytest.mark.parametrize(("name", "step"), [("copy_task", 1), ("reverse_task", -1)])
def test_the_best_attention_is_the_permutation(request, name, step):
    """The identity for a copy; for a reversal its mirror image."""
    task = request.getfixturevalue(name)
    best = task.translator.translate_n_best(task.sources, **OPTIONS)
    right = []
    for hypotheses, target in zip(best, task.targets, strict=True):
        if hypotheses[0].text == target:
            positions = list(range(len(hypotheses[0].tokens)))[::step]
            found = hypotheses[0].attention.argmax(axis=1).tolist()
            right.append(found == positions)
    assert np.mean(right) >= 0.97


def test_the_attention_of_every_other_hypothesis_is_its_own(task, n_best):
    """Where another hypothesis has the right token in its place, its own row there
    points at that token's source, also behind a wrong token."""
    right, after_an_error = [], 0
    for row, hypotheses in enumerate(n_best):
        target = target_tokens(task, row)
        for hypothesis in hypotheses[1:]:
            in_place = [
                token == wanted
                for token, wanted in zip(hypothesis.tokens, target, strict=False)
            ]
            rows = points_right(hypothesis)
            right += [rows[t] for t, same in enumerate(in_place) if same]
            after_an_error += sum(in_place) - sum(itertools.takewhile(bool, in_place))
    assert len(right) > 1000
    assert after_an_error > 200
    assert np.mean(right) >= 0.97


def test_hypotheses_share_rows_as_far_as_they_share_tokens(n_best):
    """A row depends on the tokens before it only."""
    shared = 0
    for best, *others in n_best:
        for other in others:
            # The first tokens in which they differ come from one and the same row.
            pairs = zip(best.tokens, other.tokens, strict=False)
            same = sum(1 for _ in itertools.takewhile(lambda p: p[0] == p[1], pairs))
            rows = min(same + 1, len(best.tokens), len(other.tokens))
            np.testing.assert_allclose(
                other.attention[:rows], best.attention[:rows], atol=1e-5
            )
            shared += rows
    assert shared > 1000


@pytest.fixture(scope="module")
def served(copy_task, tmp_path_factory):
    """The outputs of both signatures, as TF Serving's Session gives them."""
    directory = tmp_path_factory.mktemp("export")
    path = copy_task.translator.export(directory, **OPTIONS)
    texts = [*copy_task.sources[:20], " "]
    runs = {
        "serving_default": ("serving_default", texts),
        "nbest": ("nbest", texts),
        "no text": ("nbest", np.array([], "object")),
    }
    answers = {}
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        loaded = tf.compat.v1.saved_model.load(session, ["serve"], str(path))
        for run, (name, batch) in runs.items():
            signature = loaded.signature_def[name]
            answers[run] = session.run(
                {key: info.name for key, info in signature.outputs.items()},
                {signature.inputs["text"].name: batch},
            )
    return answers


def hypothesis(answer, index):
    """One hypothesis of an answer, cut at its lengths as the contract says."""
    row = index[0]
    length, source_length = answer["lengths"][index], answer["source_lengths"][row]
    return (
        answer["tokens"][index][:length],
        answer["source_tokens"][row][:source_length],
        answer["attention"][index][:length, :source_length],
    )


@pytest.mark.parametrize("signature", ["serving_default", "nbest"])
def test_the_export_answers_as_the_translator(served, copy_task, signature):
    answer = served[signature]
    n_best = copy_task.translator.translate_n_best(copy_task.sources[:20], **OPTIONS)
    for index in np.ndindex(answer["lengths"][:20].shape):
        k = index[1] if signature == "nbest" else 0
        expected = n_best[index[0]][k]
        tokens, source_tokens, attention = hypothesis(answer, index)
        assert answer["text"][index].decode() == expected.text
        assert [token.decode() for token in tokens] == expected.tokens
        assert [token.decode() for token in source_tokens] == expected.source_tokens
        np.testing.assert_allclose(attention, expected.attention, atol=1e-4)
        np.testing.assert_allclose(answer["score"][index], expected.score, atol=1e-4)


@pytest.mark.parametrize("signature", ["serving_default", "nbest"])
def test_the_export_is_empty_beyond_the_lengths(served, signature):
    answer = served[signature]
    for index in np.ndindex(answer["lengths"].shape):
        row, length = index[0], answer["lengths"][index]
        source_length = answer["source_lengths"][row]
        assert np.all(answer["tokens"][index][length:] == b"")
        assert np.all(answer["tokens"][index][:length] != b"")
        assert np.all(answer["source_tokens"][row][source_length:] == b"")
        assert np.all(answer["source_tokens"][row][:source_length] != b"")
        assert not answer["attention"][index][length:].any()
        assert not answer["attention"][index][:, source_length:].any()
    blank = answer["lengths"][-1]
    assert not np.any(blank)
    assert answer["source_lengths"][-1] == 0
    assert np.all(answer["text"][-1] == b"")


def test_the_exported_attention_is_the_permutation(served):
    answer = served["serving_default"]
    right = []
    for row in range(20):
        tokens, source_tokens, attention = hypothesis(answer, (row,))
        right += list(source_tokens[attention.argmax(axis=1)] == tokens)
    assert len(right) > 60
    assert np.mean(right) >= 0.98


def test_the_export_takes_an_empty_batch(served):
    answer = served["no text"]
    assert answer.keys() == served["nbest"].keys()
    assert {value.shape[0] for value in answer.values()} == {0}
    assert answer["text"].shape == (0, BEAM_WIDTH)
