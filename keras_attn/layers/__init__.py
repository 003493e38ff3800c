"""Keras layers that a user composes into recurrent attention models."""

from keras_attn.layers.attention import BahdanauAttention, LuongAttention
from keras_attn.layers.bridge import Bridge
from keras_attn.layers.decoder import AttentionDecoder
from keras_attn.layers.encoders import BiGRUEncoder, RNNEncoder
from keras_attn.layers.output import OutputLayer

__all__ = [
    "AttentionDecoder",
    "BahdanauAttention",
    "BiGRUEncoder",
    "Bridge",
    "LuongAttention",
    "OutputLayer",
    "RNNEncoder",
]
