"""Model and tokenizers as one thing: what the scripts, the export and users call."""

import os
import pathlib
from collections.abc import Callable, Iterable

import keras
import numpy as np
import tensorflow as tf

from keras_attn import files, model_dir
from keras_attn.checks import check_positive
from keras_attn.models import AttentionSeq2Seq
from keras_attn.text import Tokenizer, load_tokenizer
from keras_attn.translation import Translation, translations_of


class Translator:
    """Translates text with a model and its two tokenizers.

    A text of nothing but white space has the empty translation, with score 0. A text
    longer than `max_source_length` tokens is cut there, and the translation says so.

    Args:
        model: an `AttentionSeq2Seq`.
        source_tokenizer: the tokenizer of the texts.
        target_tokenizer: the tokenizer of the translations.
        max_source_length: the most source tokens read, </s> among them.

    Raises:
        ValueError: a tokenizer has more or fewer tokens than the model.

    Example:

    >>> translator = Translator.load("runs/de-en")
    >>> translator.translate(["ein hund rennt ."])[0].text
    'a dog is running .'
    """

    def __init__(
        self,
        model: keras.Model,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        max_source_length: int = 100,
    ):
        self.model = model
        self.source_tokenizer = source_tokenizer
        self.target_tokenizer = target_tokenizer
        self.max_source_length = check_positive("max_source_length", max_source_length)
        for side, tokenizer in (
            ("source", source_tokenizer),
            ("target", target_tokenizer),
        ):
            _check_vocabulary(side, model, tokenizer)
        self._compiled: dict = {}

    def encode(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Text to source ids, as part of a graph.

        Args:
            text: string `[B]`.

        Returns:
            `source_ids` int32 `[B, S]`, `source_tokens` string `[B, S]` ("" beyond the
            length), `source_lengths` int32 `[B]` and `source_truncated` bool `[B]`.
        """
        text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="replace")
        # \s of RE2 is ASCII only.
        blank = tf.strings.regex_full_match(text, r"[\s\p{Z}\x{85}]*")
        text = tf.where(blank, "", text)
        ids = self.source_tokenizer.tokenize(text)
        pieces = self.source_tokenizer.split(text)
        limit = self.max_source_length - 1
        lengths = tf.cast(ids.row_lengths(), tf.int32)
        truncated = lengths > limit
        # Row i ends with </s> unless it is empty.
        ends = tf.cast(lengths > 0, tf.int64)

        def finish(ragged, end, padding):
            end = tf.RaggedTensor.from_row_lengths(
                tf.fill([tf.reduce_sum(ends)], end), ends
            )
            dense = tf.concat([ragged[:, :limit], end], axis=1).to_tensor(padding)
            # At least one column, for a batch of nothing but blanks.
            missing = tf.maximum(0, 1 - tf.shape(dense)[1])
            return tf.pad(dense, [[0, 0], [0, missing]], constant_values=padding)

        return {
            "source_ids": finish(ids, Tokenizer.EOS_ID, 0),
            "source_tokens": finish(pieces, "</s>", ""),
            "source_lengths": tf.minimum(lengths, limit) + tf.cast(ends, tf.int32),
            "source_truncated": truncated,
        }

    def decode(
        self,
        text: tf.Tensor,
        beam_width: int = 5,
        max_length: int = 100,
        length_penalty: float = 0.6,
        n_best: int | None = None,
    ) -> dict[str, tf.Tensor]:
        """Translate, as part of a graph; `translate` and the export both are this.

        Args:
            text: string `[B]`.
            beam_width: K, hypotheses kept; 1 is greedy search.
            max_length: the most tokens of a translation, </s> among them.
            length_penalty: see `keras_attn.decoding.beam_search`.
            n_best: how many of the hypotheses have to be final; all by default.

        Returns:
            `text` `[B, K]`, `tokens` `[B, K, T]`, `lengths` int32 `[B, K]`, `score`
            float32 `[B, K]`, `attention` float32 `[B, K, T, S]` (missing without
            attention), and `source_tokens`, `source_lengths`, `source_truncated` as of
            `encode`. T is the longest length; beyond the lengths stand "" and 0.
        """
        source = self.encode(text)
        result = self.model.search(
            source.pop("source_ids"), beam_width, max_length, length_penalty, n_best
        )
        # A blank text has one translation, the empty one.
        has_text = source["source_lengths"][:, None] > 0
        blank_scores = tf.where(tf.range(tf.shape(result.scores)[1]) == 0, 0.0, -np.inf)
        lengths = tf.where(has_text, result.lengths, 0)
        longest = tf.reduce_max(tf.concat([tf.reshape(lengths, [-1]), [0]], 0))
        # [B, K, T]
        inside = tf.sequence_mask(lengths, longest)
        ids = tf.where(inside, result.ids[:, :, :longest], Tokenizer.PAD_ID)
        tokens = self.target_tokenizer.id_to_token(ids)
        answer = {
            "text": self.target_tokenizer.detokenize(ids),
            "tokens": tf.where(inside, tokens, ""),
            "lengths": lengths,
            "score": tf.where(has_text, result.scores, blank_scores),
            **source,
        }
        if result.attention.shape[-1] != 0:
            attention = result.attention[:, :, :longest]
            answer["attention"] = tf.where(inside[..., None], attention, 0.0)
        return answer

    def translate(
        self,
        texts: Iterable[str],
        beam_width: int = 5,
        max_length: int = 100,
        length_penalty: float = 0.6,
        batch_size: int = 32,
        progress: Callable[[int], None] | None = None,
    ) -> list[Translation]:
        """The best translation of every text.

        Args:
            texts: the texts.
            beam_width: hypotheses kept; 1 is greedy search.
            max_length: the most tokens of a translation, </s> among them.
            length_penalty: see `keras_attn.decoding.beam_search`.
            batch_size: texts decoded at once; those of like length are put together.
            progress: called with the number of texts done, after every batch.

        Returns:
            One `Translation` for each text, in the order of the texts.
        """
        options = (beam_width, max_length, length_penalty, 1)
        hypotheses = self._translate(texts, options, batch_size, progress)
        return [translations[0] for translations in hypotheses]

    def translate_n_best(
        self,
        texts: Iterable[str],
        beam_width: int = 5,
        max_length: int = 100,
        length_penalty: float = 0.6,
        batch_size: int = 32,
        progress: Callable[[int], None] | None = None,
    ) -> list[list[Translation]]:
        """The `beam_width` best translations of every text, best first.

        The arguments are those of `translate`. There may be fewer translations of a
        text, one of a blank text, where the search found no more.
        """
        options = (beam_width, max_length, length_penalty, None)
        return self._translate(texts, options, batch_size, progress)

    def _translate(self, texts, options, batch_size, progress):
        if isinstance(texts, (str, bytes)):
            raise TypeError(
                "Invalid value for argument `texts`. Expected a list of str. Received "
                f"one {type(texts).__name__}; put it in a list."
            )
        texts = list(texts)
        check_positive("batch_size", batch_size)
        if options not in self._compiled:
            # One trace for every number of texts.
            self._compiled[options] = tf.function(
                lambda text: self.decode(text, *options),
                input_signature=[tf.TensorSpec([None], tf.string)],
                autograph=False,
            )
        decode = self._compiled[options]
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        translations: list = [None] * len(texts)
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            # Lone surrogates come from files read with surrogateescape.
            rows = [texts[i].encode("utf-8", "surrogateescape") for i in batch]
            answer = {k: v.numpy() for k, v in decode(tf.constant(rows)).items()}
            for row, i in enumerate(batch):
                translations[i] = translations_of(answer, row)
            if progress is not None:
                progress(start + len(batch))
        return translations

    def save(self, directory: str | os.PathLike) -> None:
        """Write `config.json`, `model.keras` and `tokenizers/`, the model last.

        Args:
            directory: made when missing; what is there is replaced file by file.
        """
        directory = pathlib.Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        self.source_tokenizer.save(directory / "tokenizers" / "source")
        self.target_tokenizer.save(directory / "tokenizers" / "target")
        model_dir.write_config(directory, self.max_source_length)
        self.save_model(directory)

    def save_model(self, directory: str | os.PathLike) -> None:
        """Replace `model.keras` of a saved translator; the optimizer is left out."""
        bare = type(self.model).from_config(self.model.get_config())
        bare.set_weights(self.model.get_weights())
        files.write_atomically(pathlib.Path(directory) / "model.keras", bare.save)

    @classmethod
    def load(cls, directory: str | os.PathLike) -> "Translator":
        """Read a translator that `save`, or a training run, wrote.

        Args:
            directory: the MODEL_DIR.

        Raises:
            FileNotFoundError: the directory or one of its files is missing.
            ValueError: a file is corrupt or of another format version.
        """
        directory = pathlib.Path(directory)
        config = model_dir.read_config(directory)
        source, target = (
            load_tokenizer(directory / "tokenizers" / side)
            for side in ("source", "target")
        )
        model = model_dir.read_model(directory)
        if not isinstance(model, AttentionSeq2Seq):
            raise ValueError(
                f"Invalid model file in {directory}. Expected an AttentionSeq2Seq. "
                f"Received: {type(model).__name__}"
            )
        return cls(model, source, target, config["max_source_length"])

    def export(
        self,
        directory: str | os.PathLike,
        beam_width: int = 5,
        max_length: int = 100,
        length_penalty: float = 0.6,
        version: int | None = None,
        export_dtype: str | None = None,
    ) -> pathlib.Path:
        """Write a SavedModel for TF Serving; see `keras_attn.export.export_translator`.

        Returns:
            The path of the new version, `directory/<version>`.
        """
        from keras_attn.export import export_translator

        return export_translator(
            self,
            directory,
            beam_width,
            max_length,
            length_penalty,
            version,
            export_dtype,
        )


def _check_vocabulary(side, model, tokenizer):
    expected = getattr(model, f"{side}_embedding").input_dim
    if tokenizer.vocabulary_size != expected:
        raise ValueError(
            f"The {side} tokenizer does not fit the model. Expected a vocabulary of "
            f"{expected} tokens. Received: {tokenizer.vocabulary_size}"
        )
