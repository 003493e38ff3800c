"""The PyTorch peer is the same model, and searches as the benchmarks say."""

import itertools
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra `bench` is not installed")

import keras  # noqa: E402

from benchmarks import agreement  # noqa: E402
from benchmarks.keras_side import KerasSide  # noqa: E402
from benchmarks.peers import pytorch_seq2seq as peer  # noqa: E402
from benchmarks.peers.pytorch_side import PyTorchSide  # noqa: E402
from keras_attn.models import AttentionSeq2Seq  # noqa: E402

SIZES = {"embedding_dim": 6, "encoder_units": 5, "decoder_units": 7}


class Here:
    """A side in this process, called as one in another."""

    def __init__(self, side):
        self.side = side

    def call(self, method, *args, **kwargs):
        return getattr(self.side, method)(*args, **kwargs)


@pytest.fixture(scope="module")
def sides():
    keras.utils.set_random_seed(0)
    model = AttentionSeq2Seq(20, 22, **SIZES, dropout=0.3)
    # Far from zero, biases too, so that an error in any weight shows.
    generator = np.random.default_rng(0)
    model.set_weights([generator.normal(size=w.shape) for w in model.weights])
    ours = Here(KerasSide(model))
    theirs = Here(PyTorchSide(**ours.call("options")))
    return ours, theirs


@pytest.fixture(scope="module")
def batch():
    (batch,) = agreement.random_batches(1, 8, 6, 20)
    return agreement.with_padding(batch)


def test_both_make_the_same_of_a_padded_batch(sides, batch, capsys):
    agreement.check_same_model(*sides, batch)
    assert "Same model" in capsys.readouterr().out


def test_a_difference_in_any_number_is_found(sides, batch, monkeypatch):
    ours, theirs = sides
    theirs.call("load_weights", ours.call("weights"))
    logits, loss, norm = theirs.call("check", batch)
    other_logits = logits.copy()
    other_logits[0, 0, 0] += 0.01 * logits.std()
    for numbers in (
        (other_logits, loss, norm),
        (logits, 1.001 * loss, norm),
        (logits, loss, 1.001 * norm),
    ):
        monkeypatch.setattr(ours.side, "check", lambda _, numbers=numbers: numbers)
        with pytest.raises(ValueError, match="The models differ"):
            agreement.check_same_model(*sides, batch)


def test_both_find_the_same_hypotheses(sides, batch, capsys):
    ours, theirs = sides
    weights = ours.call("weights")
    weights["output_layer/bias"][peer.EOS_ID] = -1e9
    for side in sides:
        side.call("load_weights", weights)
    agreement.check_same_search(
        ours,
        theirs,
        batch["source_ids"],
        beam_width=3,
        max_length=5,
        length_penalty=0.6,
    )
    assert "100.0% of 24 hypotheses" in capsys.readouterr().out


def test_dropout_of_the_peer_is_that_of_the_model(sides):
    model = sides[1].side.model
    rates = [
        model.encoder.dropout.p,
        model.embedding_dropout.p,
        model.memory_dropout.p,
        model.readout_dropout.p,
    ]
    assert rates == [0.3] * 4


@pytest.fixture(scope="module")
def tiny():
    torch.manual_seed(0)
    model = peer.Seq2Seq(6, 6, 4, 4, 4).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    return model


def log_prob(model, source_ids, ids):
    """That of target ids with </s> under teacher forcing, pad and <s> left in."""
    inputs = torch.tensor([[peer.BOS_ID, *ids[:-1]]])
    log_probs = model(source_ids, inputs)[0].log_softmax(-1)
    return sum(log_probs[t, token].item() for t, token in enumerate(ids))


@torch.inference_mode()
def test_a_beam_that_drops_nothing_finds_the_best_of_all(tiny):
    source_ids = torch.tensor([[4, 5, 3]])
    words, longest, penalty = (1, 4, 5), 3, 0.6
    complete = [
        (*middle, peer.EOS_ID)
        for length in range(longest)
        for middle in itertools.product(words, repeat=length)
    ]
    unfinished = list(itertools.product(words, repeat=longest))
    scores = {
        ids: log_prob(tiny, source_ids, ids) / ((5 + len(ids)) / 6) ** penalty
        for ids in (*complete, *unfinished)
    }
    expected = max(scores, key=scores.__getitem__)
    ids, found = peer.beam_search(
        tiny, source_ids, beam_width=40, max_length=longest, length_penalty=penalty
    )
    best = [token for token in ids[0, 0].tolist() if token != peer.PAD_ID]
    assert tuple(best) == expected
    assert math.isclose(found[0, 0].item(), scores[expected], rel_tol=1e-5)


def test_greedy_search_is_a_beam_of_one(tiny):
    source_ids = torch.tensor([[4, 5, 3], [5, 3, 0], [1, 1, 3]])
    greedy = peer.greedy_search(tiny, source_ids, max_length=6)
    beam, _ = peer.beam_search(tiny, source_ids, 1, max_length=6, length_penalty=0.0)
    assert greedy.tolist() == beam[:, 0].tolist()


def test_translate_gives_every_source_its_own_target(tiny):
    options = {"embedding_dim": 4, "encoder_units": 4, "decoder_units": 4}
    side = PyTorchSide((6, 6), "float32", **options)
    side.model = tiny
    sources = [np.array(ids) for ids in ([4, 5, 5, 3], [5, 3], [1, 4, 3])]
    search = {"beam_width": 2, "max_length": 5, "length_penalty": 0.6}
    _, together = side.translate(sources, batch_size=2, **search)
    for source, target in zip(sources, together, strict=True):
        _, (alone,) = side.translate([source], batch_size=1, **search)
        assert target.tolist() == alone.tolist()


def test_autocast_is_never_used_under_float32():
    side = PyTorchSide((6, 6), "float32", 4, 4, 4)
    assert side.choose_precision("num_parameters") == "float32"
    assert not side.autocast
