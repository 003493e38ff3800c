"""Functional models built from the layers."""

from keras_attn.models.seq2seq import AttentionSeq2Seq

__all__ = ["AttentionSeq2Seq"]
