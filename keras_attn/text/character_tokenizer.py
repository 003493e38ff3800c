"""Unicode code points."""

from collections.abc import Iterable
from typing import Any, ClassVar, Self

import tensorflow as tf

from keras_attn.text.vocabulary_tokenizer import VocabularyTokenizer

_UNKNOWN_CHARACTER = "\ufffd"


class CharacterTokenizer(VocabularyTokenizer):
    """Tokens are the Unicode code points of the text.

    For spelling: grapheme-to-phoneme, transliteration, dates. Any text of known
    characters comes back exactly; an unknown character comes back as U+FFFD.

    Example:

    ```python
    tokenizer = CharacterTokenizer.train(["3 May"])
    tokenizer.split("May 3")   # ["M", "a", "y", " ", "3"]
    ```

    Args:
        tokens: The characters with the ids 4, 5, 6, ...
    """

    KIND: ClassVar[str] = "characters"

    @classmethod
    def train(cls, lines: Iterable[str], vocabulary_size: int | None = None) -> Self:
        """Makes a tokenizer of the most frequent characters.

        Args:
            lines: The training text, one string a line.
            vocabulary_size: Number of ids, the four special ones included. None takes
                every character.

        Returns:
            The tokenizer: the most frequent character first, ties by code point.

        Raises:
            ValueError: There is no character in `lines`, or fewer different ones than
                `vocabulary_size` asks for.
        """
        return cls._learn(lines, vocabulary_size)

    @staticmethod
    def _segment(text: tf.Tensor, **options: Any) -> tf.RaggedTensor:
        return tf.strings.unicode_split(text, "UTF-8")

    def _detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        flat = ids.flat_values
        characters = tf.where(
            flat == self.UNK_ID, _UNKNOWN_CHARACTER, self.id_to_token(flat)
        )
        return tf.strings.reduce_join(ids.with_flat_values(characters), axis=-1)

    @property
    def _options(self) -> dict[str, Any]:
        return {}
