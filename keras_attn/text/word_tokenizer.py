"""Words between white space."""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Self

import tensorflow as tf

from keras_attn.text.vocabulary_tokenizer import VocabularyTokenizer

# The characters that Unicode and Python's `str.split` take for white space. The op
# that splits knows only those of ASCII.
_WHITE_SPACE = (
    r"[\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}"
    r"\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]+"
)


class WordTokenizer(VocabularyTokenizer):
    """Tokens are the words between white space.

    For text that is tokenized already, and for small closed vocabularies. A text of
    known words with single spaces between them comes back exactly; other white space
    comes back as one space, and an unknown word as `<unk>`.

    Example:

    ```python
    tokenizer = WordTokenizer.train(["ein Hund", "ein Ball"], vocabulary_size=None)
    tokenizer.tokenize(["ein Ball ein"])   # [[4, 5, 4]]
    ```

    Args:
        tokens: The words with the ids 4, 5, 6, ...
        lowercase: Whether text is lower-cased first.
    """

    KIND: ClassVar[str] = "words"

    def __init__(self, tokens: Sequence[str], lowercase: bool = False) -> None:
        super().__init__(tokens)
        self.lowercase = lowercase

    @classmethod
    def train(
        cls,
        lines: Iterable[str],
        vocabulary_size: int | None = None,
        *,
        lowercase: bool = False,
    ) -> Self:
        """Makes a tokenizer of the most frequent words.

        Args:
            lines: The training text, one string a line.
            vocabulary_size: Number of ids, the four special ones included. None takes
                every word.
            lowercase: Whether text is lower-cased first.

        Returns:
            The tokenizer: the most frequent word first, ties by code point.

        Raises:
            ValueError: There is no word in `lines`, or fewer different words than
                `vocabulary_size` asks for.
        """
        return cls._learn(lines, vocabulary_size, lowercase=lowercase)

    @staticmethod
    def _segment(text: tf.Tensor, **options: Any) -> tf.RaggedTensor:
        if options["lowercase"]:
            text = tf.strings.lower(text, encoding="utf-8")
        return tf.strings.split(tf.strings.regex_replace(text, _WHITE_SPACE, " "))

    def _detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        return tf.strings.reduce_join(self.id_to_token(ids), axis=-1, separator=" ")

    @property
    def _options(self) -> dict[str, Any]:
        return {"lowercase": self.lowercase}
