"""Attention mechanisms, one a file, on one contract."""

from keras_attn.layers.attention.bahdanau import BahdanauAttention
from keras_attn.layers.attention.base import Attention
from keras_attn.layers.attention.luong import LuongAttention

__all__ = ["Attention", "BahdanauAttention", "LuongAttention"]
