"""Tokenizers that run inside TensorFlow graphs: text to ids and back."""

from keras_attn.text.base import Tokenizer
from keras_attn.text.character_tokenizer import CharacterTokenizer
from keras_attn.text.loading import load_tokenizer
from keras_attn.text.sentencepiece_tokenizer import SentencePieceTokenizer
from keras_attn.text.word_tokenizer import WordTokenizer

__all__ = [
    "CharacterTokenizer",
    "SentencePieceTokenizer",
    "Tokenizer",
    "WordTokenizer",
    "load_tokenizer",
]
