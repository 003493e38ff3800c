"""Small models of every kind, and a batch for them."""

import keras
import numpy as np

from keras_attn.layers import BahdanauAttention
from keras_attn.models import AttentionSeq2Seq

SOURCE_SIZE, TARGET_SIZE, UNITS = 13, 11, 6
SOURCE = np.array([[4, 5, 6, 7, 3], [9, 3, 0, 0, 0], [12, 8, 10, 3, 0]], "int32")
TARGET = np.array([[2, 4, 5, 6], [2, 10, 0, 0], [2, 7, 7, 0]], "int32")
INPUTS = {"source_ids": SOURCE, "target_ids": TARGET}


def variants():
    """Options by name, a new attention layer at every call."""
    return {
        "bahdanau": {},
        "bahdanau_lstm_stack": {
            "rnn": "lstm",
            "encoder_layers": 2,
            "decoder_layers": 3,
            "dropout": 0.2,
            "readout_units": 5,
        },
        "bahdanau_after": {"attend": "after", "reset_after": False},
        "luong_dot": {
            "attention": "luong_dot",
            "attend": "after",
            "decoder_units": 2 * UNITS,
            "bridge": "pass",
        },
        "luong_general_feeding": {
            "attention": "luong_general",
            "attend": "after",
            "input_feeding": True,
            "rnn": "lstm",
            "decoder_layers": 2,
        },
        "luong_concat_before": {"attention": "luong_concat", "bridge": "zero"},
        "no_attention_lstm": {
            "attention": None,
            "rnn": "lstm",
            "bidirectional": False,
            "bridge": "pass",
        },
        "no_attention_gru": {"attention": None},
        "a_layer": {"attention": BahdanauAttention(4, normalize=True)},
    }


def make(seed=0, **options):
    """A small model whose next token is far from a matter of chance."""
    keras.utils.set_random_seed(seed)
    sizes = {"embedding_dim": 5, "encoder_units": UNITS, "decoder_units": UNITS}
    model = AttentionSeq2Seq(SOURCE_SIZE, TARGET_SIZE, **{**sizes, **options})
    model.set_weights([3 * weight for weight in model.get_weights()])
    return model
