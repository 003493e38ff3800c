"""What word and character tokenizers share: a vocabulary of whole pieces."""

import abc
import collections
import itertools
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any, Self

import tensorflow as tf

from keras_attn.text import files
from keras_attn.text.base import Tokenizer, check_lines, check_vocabulary_size, clean

_LINES_PER_CHUNK = 4096


class VocabularyTokenizer(Tokenizer):
    """A tokenizer that looks each piece of the text up in a list.

    Args:
        tokens: The pieces with the ids 4, 5, 6, ..., without repetition. A piece may
            be spelled like a special token: it is an ordinary piece all the same.
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        tokens = list(tokens)
        repeated = [t for t, n in collections.Counter(tokens).items() if n > 1]
        if not tokens or repeated or not all(isinstance(t, str) for t in tokens):
            raise ValueError(
                "Invalid value for argument `tokens`. Expected at least one string "
                f"and no string twice. Received: {len(tokens)} tokens, "
                f"repeated: {repeated[:5]}"
            )
        super().__init__(tokens)
        first = len(self.SPECIAL_TOKENS)
        self._token_to_id = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(
                tf.constant(tokens), tf.range(first, first + len(tokens))
            ),
            default_value=self.UNK_ID,
        )

    @staticmethod
    @abc.abstractmethod
    def _segment(text: tf.Tensor, **options: Any) -> tf.RaggedTensor:
        """Maps valid UTF-8 strings [B] to pieces [B, None], training or not."""

    @classmethod
    def _learn(
        cls, lines: Iterable[str], vocabulary_size: int | None, **options: Any
    ) -> Self:
        """Makes the tokenizer of the most frequent pieces; ties by code point."""
        check_lines(lines)
        if vocabulary_size is not None:
            check_vocabulary_size(vocabulary_size)
        counts: collections.Counter[bytes] = collections.Counter()
        remaining = iter(lines)
        while chunk := list(itertools.islice(remaining, _LINES_PER_CHUNK)):
            pieces = cls._segment(clean(tf.constant(chunk, tf.string)), **options)
            counts.update(pieces.flat_values.numpy().tolist())
        if not counts:
            raise ValueError(
                "Invalid value for argument `lines`. Expected at least one line of "
                "text to train on. Received: no text"
            )
        specials = len(cls.SPECIAL_TOKENS)
        largest = len(counts) + specials
        size = largest if vocabulary_size is None else vocabulary_size
        if size > largest:
            raise ValueError(
                "Invalid value for argument `vocabulary_size`. Expected at most "
                f"{largest}, the most that the training data allows, or None for that. "
                f"Received: vocabulary_size={vocabulary_size}"
            )
        # The byte order of UTF-8 is the order of code points.
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return cls(
            [token.decode("utf-8") for token, _ in ordered[: size - specials]],
            **options,
        )

    def _split(self, text: tf.Tensor) -> tf.RaggedTensor:
        return self._segment(text, **self._options)

    def _tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        return self._token_to_id.lookup(self._split(text))

    def _write(self, directory: pathlib.Path) -> None:
        tokens = self.vocabulary[len(self.SPECIAL_TOKENS) :]
        files.write(_path(directory), files.to_json(tokens))

    @classmethod
    def _read(cls, directory: pathlib.Path, options: dict[str, Any]) -> Self:
        path = _path(directory)
        tokens = files.read_json(path)
        if not isinstance(tokens, list):
            raise ValueError(
                f"Corrupt tokenizer file {path}. Expected a list of strings. "
                f"Received: {type(tokens).__name__}"
            )
        try:
            return cls(tokens, **options)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"Corrupt tokenizer files {path} and {files.config_path(directory)}: "
                f"{error}"
            ) from error


def _path(directory: pathlib.Path) -> pathlib.Path:
    return directory / "vocabulary.json"
