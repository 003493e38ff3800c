import keras
import numpy as np
import pytest

from keras_attn.layers import BahdanauAttention
from keras_attn.models import AttentionSeq2Seq
from tests.layers.layer_checks import assert_same, to_numpy
from tests.models.small_models import INPUTS, make


def test_an_attention_layer_is_taken_as_it_is():
    layer = BahdanauAttention(4, normalize=True)
    model = make(attention=layer)
    assert model.decoder.attention is layer
    by_name = make()
    # v, query and memory kernel are narrower; g and b come on top.
    assert len(model.weights) == len(by_name.weights) + 2


@pytest.mark.parametrize(
    ("options", "parameters"),
    [
        # A GRU has 3 U (E + U + 2) parameters, an LSTM 4 U (E + U + 1).
        (
            {"attention": None, "bidirectional": False, "rnn": "lstm"},
            (13 + 11) * 5 + 2 * 4 * 6 * (5 + 6 + 1) + 2 * (6 * 6 + 6) + (6 + 1) * 11,
        ),
        (
            {},
            (13 + 11) * 5
            + 2 * 3 * 6 * (5 + 6 + 2)  # encoder, two directions
            + (12 + 1) * 6  # bridge
            + 3 * 6 * (5 + 12 + 6 + 2)  # decoder, fed with the context
            + (6 + 12 + 1) * 6  # attention: query, memory, v
            + (6 + 12 + 5 + 1) * 6  # readout of state, context and token
            + (6 + 1) * 11,
        ),
    ],
    ids=["no_attention_lstm", "bahdanau"],
)
def test_number_of_parameters(options, parameters):
    assert make(**options).count_params() == parameters


def test_each_dropout_has_its_rate():
    model = make(dropout=0.1, embedding_dropout=0.2, readout_dropout=0.0)
    rates = {
        layer.name: layer.rate
        for layer in model.layers
        if isinstance(layer, keras.layers.Dropout)
    }
    assert rates == {
        "source_embedding_dropout": 0.2,
        "target_embedding_dropout": 0.2,
        "memory_dropout": 0.1,
        "readout_dropout": 0.0,
    }
    assert model.encoder.dropout == model.decoder.dropout == 0.1
    still = model(INPUTS)
    assert_same(model(INPUTS, training=False), still)
    assert np.abs(to_numpy(model(INPUTS, training=True) - still)).max() > 1e-3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attention": "bahdanaw"}, "`attention`.*'luong_dot'.*attention='bahdanaw'"),
        ({"bridge": "tunnel"}, "`bridge`.*'dense', 'pass', 'zero'.*bridge='tunnel'"),
        ({"rnn": "elman"}, "`rnn`.*'gru', 'lstm'.*rnn='elman'"),
        ({"attend": "during"}, "`attend`.*'before', 'after'.*attend='during'"),
        ({"dropout": 1.0}, r"`dropout`.*below 1.*dropout=1\.0"),
        ({"memory_dropout": -0.1}, r"`memory_dropout`.*memory_dropout=-0\.1"),
        ({"encoder_layers": 0}, "`num_layers`.*positive integer"),
        ({"bridge": "pass"}, r"\"pass\".*\[12\] wide, decoder 6 wide"),
        ({"attention": "luong_dot"}, "query 6 wide, memory 12 wide"),
    ],
)
def test_a_bad_argument_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("size", [0, 3.5, "many"])
def test_a_bad_vocabulary_size_is_named(side, size):
    sizes: dict = {"source_vocabulary_size": 9, "target_vocabulary_size": 9}
    sizes[f"{side}_vocabulary_size"] = size
    with pytest.raises(ValueError, match=f"`{side}_vocabulary_size`.*positive integer"):
        AttentionSeq2Seq(**sizes)
