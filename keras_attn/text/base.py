"""The contract every tokenizer keeps."""

import abc
import numbers
import os
import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Self

import tensorflow as tf

from keras_attn.text import files


class Tokenizer(tf.Module, metaclass=abc.ABCMeta):
    """Base class of the tokenizers: text to int32 ids and back, as TensorFlow ops.

    Every method that takes or returns tensors also works inside a `tf.function` and
    in an exported SavedModel. A tokenizer is a `tf.Module`, so that
    `keras.export.ExportArchive.track(tokenizer)` finds its lookup tables.

    The first four ids are the same in every kind: 0 `<pad>`, 1 `<unk>`, 2 `<s>` and
    3 `</s>`. No text, not even a literal `<s>`, is tokenized to id 0, 2 or 3.
    Bytes that are not UTF-8 are read as U+FFFD.

    Args:
        tokens: The token of every id from 4 on, in id order.
    """

    PAD_ID: ClassVar[int] = 0
    UNK_ID: ClassVar[int] = 1
    BOS_ID: ClassVar[int] = 2
    EOS_ID: ClassVar[int] = 3
    SPECIAL_TOKENS: ClassVar[tuple[str, ...]] = ("<pad>", "<unk>", "<s>", "</s>")
    KIND: ClassVar[str]

    def __init__(self, tokens: Sequence[str]) -> None:
        super().__init__()
        vocabulary = [*self.SPECIAL_TOKENS, *tokens]
        # TF-Text's own id-to-piece op ends the process on an unknown id; a table does
        # not, and serves every kind.
        self._id_to_token = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(
                tf.range(len(vocabulary)), tf.constant(vocabulary)
            ),
            default_value=self.SPECIAL_TOKENS[self.UNK_ID],
        )
        self._vocabulary = tuple(vocabulary)

    @classmethod
    @abc.abstractmethod
    def train(cls, *args: Any, **kwargs: Any) -> Self:
        """Learns a tokenizer from text: `train(lines, vocabulary_size, **options)`.

        Args:
            *args: `lines`, the training text, an iterable of one string a line; then
                `vocabulary_size`, the number of ids, the special ones included.
            **kwargs: The same by name, and the options of the kind.

        Returns:
            The trained tokenizer. The same lines give the same tokenizer.

        Raises:
            ValueError: There is no text in `lines`, or it does not give
                `vocabulary_size` tokens.
        """

    @abc.abstractmethod
    def _tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Maps valid UTF-8 strings [B] to int32 ids [B, None]."""

    @abc.abstractmethod
    def _split(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Maps valid UTF-8 strings [B] to their pieces, strings [B, None]."""

    @abc.abstractmethod
    def _detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Maps int32 ids [B, None], none of them 0, 2 or 3, to strings [B]."""

    @property
    @abc.abstractmethod
    def _options(self) -> dict[str, Any]:
        """Constructor options of the kind, as JSON values."""

    @abc.abstractmethod
    def _write(self, directory: pathlib.Path) -> None:
        """Writes the kind's own file."""

    @classmethod
    @abc.abstractmethod
    def _read(cls, directory: pathlib.Path, options: dict[str, Any]) -> Self:
        """Makes the tokenizer from the kind's own file and `options`."""

    @property
    def vocabulary(self) -> list[str]:
        """The token of every id, in id order, the special ones included."""
        return list(self._vocabulary)

    @property
    def vocabulary_size(self) -> int:
        """The number of ids, the special ones included."""
        return len(self._vocabulary)

    def tokenize(self, text: Any) -> tf.RaggedTensor | tf.Tensor:
        """Maps text to ids. Adds neither `<s>` nor `</s>`.

        Args:
            text: A list of strings or a string tensor [B], or one string.

        Returns:
            int32 ids, a `tf.RaggedTensor` [B, None]; for one string a tensor [N].
        """
        return _by_row(self._tokenize, text)

    def split(self, text: Any) -> tf.RaggedTensor | tf.Tensor:
        """Maps text to the pieces behind the ids, as they stand in the text.

        Row lengths are those of `tokenize`. An unknown piece shows as itself.

        Args:
            text: A list of strings or a string tensor [B], or one string.

        Returns:
            Strings, a `tf.RaggedTensor` [B, None]; for one string a tensor [N].
        """
        return _by_row(self._split, text)

    def detokenize(self, ids: Any) -> tf.Tensor:
        """Maps ids to text. Leaves out `<pad>`, `<s>` and `</s>`.

        Ids outside the vocabulary read as the unknown token.

        Args:
            ids: Integers, a `tf.RaggedTensor` [B, None] or dense [..., T].

        Returns:
            A string tensor [B] or [...]; a scalar for ids [T].
        """
        if isinstance(ids, tf.RaggedTensor):
            return self._detokenize(self._readable(ids))
        ids = tf.convert_to_tensor(ids)
        if ids.shape.rank is None or ids.shape.rank < 1:
            raise ValueError(
                "Invalid value for argument `ids`. Expected a tensor of known rank, "
                f"at least 1. Received: shape={ids.shape}"
            )
        outer = tf.shape(ids)[:-1]
        rows = tf.reshape(ids, [tf.reduce_prod(outer), tf.shape(ids)[-1]])
        text = self._detokenize(self._readable(tf.RaggedTensor.from_tensor(rows)))
        return tf.ensure_shape(tf.reshape(text, outer), ids.shape[:-1])

    def _readable(self, ids: tf.RaggedTensor) -> tf.RaggedTensor:
        """Leaves out special ids and makes ids outside the vocabulary unknown."""
        # On the flat values: ragged comparisons would broadcast, in a hundred ops each.
        flat = tf.cast(ids.flat_values, tf.int32)
        known = (flat >= 0) & (flat < self.vocabulary_size)
        flat = tf.where(known, flat, self.UNK_ID)
        kept = (flat == self.UNK_ID) | (flat > self.EOS_ID)
        return tf.ragged.boolean_mask(
            ids.with_flat_values(flat), ids.with_flat_values(kept)
        )

    def id_to_token(self, ids: Any) -> tf.RaggedTensor | tf.Tensor:
        """Maps every id to its token.

        Ids 0 to 3 give `<pad>`, `<unk>`, `<s>` and `</s>`; ids outside the vocabulary
        give `<unk>`.

        Args:
            ids: Integers, a tensor of any rank or a `tf.RaggedTensor`.

        Returns:
            A string tensor of the shape of `ids`.
        """
        return self._id_to_token.lookup(tf.cast(ids, tf.int32))

    def save(self, directory: str | os.PathLike) -> None:
        """Writes the tokenizer into a directory, which is made when missing.

        `tokenizer.json` is written last: where it stands, the tokenizer is whole.

        Args:
            directory: The directory to write into.
        """
        directory = pathlib.Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        self._write(directory)
        files.write_config(directory, self.KIND, self._options)

    @classmethod
    def load(cls, directory: str | os.PathLike) -> Self:
        """Reads a tokenizer of this kind; `load_tokenizer` reads any kind.

        Args:
            directory: A directory that `save` wrote.

        Returns:
            The tokenizer.

        Raises:
            FileNotFoundError: A file is missing; the message names it.
            ValueError: A file is corrupt, or holds another kind of tokenizer.
        """
        config = files.read_config(directory)
        if config["kind"] != cls.KIND:
            raise ValueError(
                f"Wrong tokenizer kind in {files.config_path(directory)}. Expected: "
                f"{cls.KIND!r}. Received: kind={config['kind']!r}"
            )
        return cls._read(pathlib.Path(directory), config["options"])


def _by_row(
    function: Callable[[tf.Tensor], tf.RaggedTensor], text: Any
) -> tf.RaggedTensor | tf.Tensor:
    """Applies a function of strings [B] to strings [B] or to one string."""
    text = tf.convert_to_tensor(text, tf.string)
    if text.shape.rank not in (0, 1):
        raise ValueError(
            "Invalid value for argument `text`. Expected a string or a list of "
            f"strings (rank 0 or 1). Received: shape={text.shape}"
        )
    if text.shape.rank == 0:
        return function(clean(text[tf.newaxis])).values
    return function(clean(text))


def clean(text: tf.Tensor) -> tf.Tensor:
    """Replaces bytes that are not UTF-8 by U+FFFD."""
    return tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="replace")


def check_lines(lines: Iterable[str]) -> None:
    """Rejects one string where an iterable of strings is meant."""
    if isinstance(lines, str | bytes):
        raise ValueError(
            "Invalid value for argument `lines`. Expected an iterable of strings, one "
            f"a line. Received: lines of type {type(lines).__name__}"
        )


def check_vocabulary_size(vocabulary_size: int) -> None:
    """Rejects what is not a number of ids with room for a token."""
    least = len(Tokenizer.SPECIAL_TOKENS) + 1
    if not isinstance(vocabulary_size, numbers.Integral) or vocabulary_size < least:
        raise ValueError(
            "Invalid value for argument `vocabulary_size`. Expected an integer of at "
            f"least {least}, the special tokens and one more. "
            f"Received: vocabulary_size={vocabulary_size!r}"
        )
