import json
import math
import subprocess
import sys

import pytest
import sacrebleu

from keras_attn.evaluation import Scores, corpus_scores, exact_match

HYPOTHESES = ["A man sleeps on the red bench.", "Two dogs run across the wet grass."]
REFERENCES = ["A man is asleep on a red bench.", "Two dogs are running on wet grass."]
OTHERS = ["A man sleeps on a bench.", "Two dogs run over the wet grass."]


def test_equal_texts_score_100():
    scores = corpus_scores(REFERENCES, REFERENCES)
    assert scores.bleu == pytest.approx(100)
    assert scores.chrf == pytest.approx(100)


def test_bleu_by_hand():
    # Matches: 5 of 6 words, 3 of 5 pairs, 2 of 4 triples, 1 of 3 fours; no brevity.
    scores = corpus_scores(["a b c d x f"], ["a b c d e f"], tokenize="none")
    expected = 100 * math.prod([5 / 6, 3 / 5, 2 / 4, 1 / 3]) ** (1 / 4)
    assert scores.bleu == pytest.approx(expected)


def test_brevity_by_hand():
    # Every n-gram of the four words matches; the reference is one word longer.
    scores = corpus_scores(["a b c d"], ["a b c d e"], tokenize="none")
    assert scores.bleu == pytest.approx(100 * math.exp(1 - 5 / 4))


def test_nothing_in_common_scores_0():
    scores = corpus_scores(["aaaa"], ["bbbb"])
    assert scores.bleu == 0
    assert scores.chrf == 0


def test_an_empty_hypothesis_counts():
    scores = corpus_scores(["", "a b c d"], ["a b c d", "a b c d"], tokenize="none")
    assert scores.bleu == pytest.approx(100 * math.exp(1 - 8 / 4))


@pytest.mark.parametrize("tokenize", ["13a", "none", "intl", "char"])
@pytest.mark.parametrize("lowercase", [False, True])
def test_values_are_sacrebleus(tokenize, lowercase):
    hypotheses = [HYPOTHESES[0].upper(), HYPOTHESES[1]]
    scores = corpus_scores(
        hypotheses, REFERENCES, tokenize=tokenize, lowercase=lowercase
    )
    bleu = sacrebleu.corpus_bleu(
        hypotheses, [REFERENCES], tokenize=tokenize, lowercase=lowercase
    )
    chrf = sacrebleu.metrics.CHRF(lowercase=lowercase)
    assert 0 < scores.bleu < 100
    assert scores.bleu == bleu.score
    assert scores.chrf == chrf.corpus_score(hypotheses, [REFERENCES]).score
    case = "lc" if lowercase else "mixed"
    assert f"nrefs:1|case:{case}|eff:no|tok:{tokenize}|" in scores.bleu_signature
    assert f"nrefs:1|case:{case}|eff:yes|nc:6|nw:0|" in scores.chrf_signature
    for signature in (scores.bleu_signature, scores.chrf_signature):
        assert signature.endswith(f"version:{sacrebleu.__version__}")


def test_chinese_is_scored_by_characters():
    scores = corpus_scores(["我喜欢红苹果"], ["我喜欢青苹果"], tokenize="zh")
    # Matches: 5 of 6 characters, 3 of 5 pairs, 1 of 4 triples, 0 of 3 fours, which
    # exponential smoothing counts as half a match.
    expected = 100 * math.prod([5 / 6, 3 / 5, 1 / 4, 0.5 / 3]) ** (1 / 4)
    assert scores.bleu == pytest.approx(expected)


def test_several_references():
    scores = corpus_scores(HYPOTHESES, [REFERENCES, OTHERS])
    assert scores.bleu == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES, OTHERS]).score
    assert scores.bleu > corpus_scores(HYPOTHESES, REFERENCES).bleu
    assert "nrefs:2" in scores.bleu_signature


def test_tokenised_text_raises_no_advice(caplog):
    corpus_scores(["a ."] * 200, ["b ."] * 200)
    assert not caplog.records


def test_as_text_and_as_json():
    scores = Scores(33.456, 5.0, "nrefs:1|x", "nrefs:1|y")
    assert str(scores) == "BLEU   33.46  nrefs:1|x\nchrF2   5.00  nrefs:1|y"
    assert json.loads(json.dumps(scores.to_dict())) == {
        "bleu": 33.456,
        "chrf": 5.0,
        "bleu_signature": "nrefs:1|x",
        "chrf_signature": "nrefs:1|y",
    }


def test_exact_match():
    assert exact_match(["a", "b", "c", "d"], ["a", "B", "c ", "d"]) == 50.0
    assert exact_match([""], [""]) == 100.0
    assert exact_match(["a", "b", "c"], [["x", "b", "x"], ["a", "x", "x"]]) == (
        pytest.approx(200 / 3)
    )


@pytest.mark.parametrize("score", [corpus_scores, exact_match])
@pytest.mark.parametrize(
    ("hypotheses", "references", "words"),
    [
        (["a"], ["a", "b"], r"`references`\. Expected 1 text.*Received: 2"),
        (["a", "b"], [["a", "b"], ["a"]], r"`references\[1\]`.* 2 text.*Received: 1"),
        ([], [], "`hypotheses`.*at least one"),
        (["a"], [], "`references`.*at least one"),
        (["a"], [[]], r"`references\[0\]`.*at least one"),
    ],
)
def test_bad_lengths(score, hypotheses, references, words):
    with pytest.raises(ValueError, match=words):
        score(hypotheses, references)


@pytest.mark.parametrize(
    ("hypotheses", "references", "words"),
    [
        ("a", ["a"], "`hypotheses`.*Received: 'a'"),
        ([b"a"], ["a"], "`hypotheses`.*Received: b'a' at index 0"),
        (["a"], "a", "`references`.*Received: 'a'"),
        (["a", "b"], ["a", None], "`references`.*Received: None at index 1"),
        (["a", "b"], [["a", "b"], "ab"], r"`references\[1\]`.*Received: 'ab'"),
    ],
)
def test_bad_types(hypotheses, references, words):
    with pytest.raises(TypeError, match=words):
        corpus_scores(hypotheses, references)


def test_an_unknown_tokeniser():
    with pytest.raises(ValueError, match=r"`tokenize`.*'13a'.*Received: 'moses'"):
        corpus_scores(["a"], ["a"], tokenize="moses")


def test_importing_the_package_imports_no_sacrebleu():
    code = (
        "import sys; import keras_attn.evaluation; sys.exit('sacrebleu' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
