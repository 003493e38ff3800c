"""This project's side of translating text, and what its peer lacks."""

import time
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from benchmarks.keras_side import KerasSide
from keras_attn import Translator
from keras_attn.evaluation import corpus_scores


class TranslatorSide(KerasSide):
    """A trained translator.

    Args:
        model_dir: directory of the training run.
        dtype_policy: precision, whatever it was trained in.
    """

    def __init__(self, model_dir: str, dtype_policy: str):
        saved = Translator.load(model_dir)
        config = {**saved.model.get_config(), "dtype": dtype_policy}
        model = type(saved.model).from_config(config)
        model.set_weights(saved.model.get_weights())
        self.translator = Translator(
            model,
            saved.source_tokenizer,
            saved.target_tokenizer,
            saved.max_source_length,
        )
        super().__init__(model)

    def translate(self, texts: Sequence[str], **options) -> tuple[float, list[str]]:
        """Seconds and translations of all texts, from text to text."""
        start = time.perf_counter()
        translations = self.translator.translate(texts, **options)
        return time.perf_counter() - start, [t.text for t in translations]

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """The source ids of every text."""
        encoded = self.translator.encode(tf.constant(texts))
        ids = encoded["source_ids"].numpy()
        lengths = encoded["source_lengths"].numpy()
        return [row[:length] for row, length in zip(ids, lengths, strict=True)]

    def detokenize(self, ids: Sequence[np.ndarray]) -> list[str]:
        """The texts of target ids."""
        rows = tf.ragged.constant([row.tolist() for row in ids], dtype=tf.int32)
        texts = self.translator.target_tokenizer.detokenize(rows)
        return [text.decode() for text in texts.numpy()]

    def bleu(self, texts: Sequence[str], references: Sequence[str]) -> float:
        """BLEU of tokenized text."""
        return corpus_scores(list(texts), list(references), tokenize="none").bleu
