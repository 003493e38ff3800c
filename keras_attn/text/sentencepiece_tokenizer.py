"""SentencePiece: trained with `sentencepiece`, run by TensorFlow Text."""

import hashlib
import io
import pathlib
import re
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Self

import sentencepiece
import tensorflow as tf
import tensorflow_text
from tensorflow_text.python.ops.sentencepiece_tokenizer import (
    gen_sentencepiece_tokenizer,
)

from keras_attn.text import files
from keras_attn.text.base import Tokenizer, check_lines, check_vocabulary_size

_MODEL_TYPES = ("bpe", "unigram")
_NORMALIZATIONS = ("identity", "nfkc", "nmt_nfkc")
# The trainer drops longer lines without an error; this is the most it accepts.
_LONGEST_LINE_BYTES = 2**30
# The trainer drops every line with this character, which it uses itself.
_RESERVED_CHARACTER = "\u2585"
_UNKNOWN_SURFACE = "\u2047"


class _ModelResource(tf.saved_model.experimental.TrackableResource):
    """A SentencePiece model within TensorFlow, under a name of its own.

    The resource that TF-Text makes has no name, so it belongs to the kernel that made
    it and is gone when TensorFlow clears its kernels ("Resource ... does not exist").
    `keras.utils.set_random_seed` and `keras.utils.clear_session` do so.
    """

    def __init__(self, model: bytes) -> None:
        super().__init__()
        self._model = model
        _ = self.resource_handle  # Made on first use.

    def _create_resource(self) -> tf.Tensor:
        name = f"sentencepiece_{hashlib.sha256(self._model).hexdigest()}"
        return gen_sentencepiece_tokenizer.sentencepiece_op(
            model=self._model, shared_name=name
        )


def _tokenizer_op(
    resource: _ModelResource, model: bytes, dtype: tf.DType
) -> tensorflow_text.SentencepieceTokenizer:
    tokenizer = tensorflow_text.SentencepieceTokenizer(model, dtype)
    tokenizer._model_resource = resource
    return tokenizer


class SentencePieceTokenizer(Tokenizer):
    """Tokens are the subwords of a SentencePiece model (BPE or unigram).

    With `normalization="identity"` any text over the characters seen in training comes
    back exactly, white space of every number and place included. Exceptions are
    U+2581, with which SentencePiece writes a space and which comes back as one, and
    U+2585, which it keeps for itself and which is always unknown. A run of unknown
    characters is one `<unk>` and comes back as one U+2047; with `byte_fallback` there
    is no unknown text.

    Example:

    ```python
    tokenizer = SentencePieceTokenizer.train(lines, vocabulary_size=8000)
    ids = tokenizer.tokenize(["Ein Hund springt."])
    tokenizer.detokenize(ids)   # [b"Ein Hund springt."]
    ```

    Args:
        model: The bytes of a SentencePiece model with the ids 0 `<pad>`, 1 `<unk>`,
            2 `<s>` and 3 `</s>`, as `train` makes it.

    Raises:
        ValueError: `model` is not such a model.

    Reference:
        Kudo and Richardson, 2018, "SentencePiece: A simple and language independent
        subword tokenizer and detokenizer for neural text processing".
    """

    KIND: ClassVar[str] = "sentencepiece"

    def __init__(self, model: bytes) -> None:
        pieces = _pieces(model)
        specials = len(self.SPECIAL_TOKENS)
        if tuple(pieces[:specials]) != self.SPECIAL_TOKENS:
            raise ValueError(
                "Invalid value for argument `model`. Expected a model whose first "
                f"pieces are {self.SPECIAL_TOKENS}. Received: {pieces[:specials]}"
            )
        super().__init__(pieces[specials:])
        self._model = model
        resource = _ModelResource(model)
        self._to_ids = _tokenizer_op(resource, model, tf.int32)
        self._to_pieces = _tokenizer_op(resource, model, tf.string)
        unknown = self._to_ids.detokenize(tf.constant([[self.UNK_ID]]))
        self._start = "^" + re.escape(unknown.numpy()[0].decode("utf-8")) + " ?"

    @classmethod
    def train(
        cls,
        lines: Iterable[str],
        vocabulary_size: int,
        *,
        model_type: str = "bpe",
        character_coverage: float = 1.0,
        byte_fallback: bool = False,
        normalization: str = "identity",
    ) -> Self:
        """Trains a SentencePiece model.

        Args:
            lines: The training text, one string a line; held in memory while training.
            vocabulary_size: Number of ids, the four special ones included.
            model_type: `"bpe"` or `"unigram"`.
            character_coverage: Share of the characters of the text that the model must
                know, greater than 0 and at most 1.
            byte_fallback: Whether unknown characters are split into their UTF-8 bytes,
                which takes 256 ids.
            normalization: `"identity"` keeps text as it is. `"nfkc"` and `"nmt_nfkc"`
                normalise it and drop leading, trailing and repeated spaces.

        Returns:
            The tokenizer.

        Raises:
            ValueError: An option is unknown, there is no text in `lines`, or
                `vocabulary_size` is more or less than the text allows.
        """
        _check_choice("model_type", model_type, _MODEL_TYPES)
        _check_choice("normalization", normalization, _NORMALIZATIONS)
        if not 0.0 < character_coverage <= 1.0:
            raise ValueError(
                "Invalid value for argument `character_coverage`. Expected a number "
                "greater than 0 and at most 1. Received: "
                f"character_coverage={character_coverage}"
            )
        check_vocabulary_size(vocabulary_size)
        model = io.BytesIO()
        training_lines = _TrainingLines(lines)
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(training_lines),
                model_writer=model,
                model_type=model_type,
                vocab_size=vocabulary_size,
                character_coverage=character_coverage,
                byte_fallback=byte_fallback,
                normalization_rule_name=normalization,
                remove_extra_whitespaces=normalization != "identity",
                max_sentence_length=_LONGEST_LINE_BYTES,
                pad_id=cls.PAD_ID,
                unk_id=cls.UNK_ID,
                bos_id=cls.BOS_ID,
                eos_id=cls.EOS_ID,
                pad_piece=cls.SPECIAL_TOKENS[cls.PAD_ID],
                unk_surface=_UNKNOWN_SURFACE,
                minloglevel=2,
            )
        except RuntimeError as error:
            # The trainer turns what the lines raise into text; it is told as it was.
            raise training_lines.error or _explained(error, vocabulary_size) from error
        return cls(model.getvalue())

    def _tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        return self._to_ids.tokenize(text)

    def _split(self, text: tf.Tensor) -> tf.RaggedTensor:
        return self._to_pieces.tokenize(text)

    def _detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        # The op strips every space at the start of a text, where the model has put
        # just one. So an unknown token goes first, and is taken off with that space.
        first = tf.fill([ids.nrows(out_type=tf.int32), 1], self.UNK_ID)
        text = self._to_ids.detokenize(tf.concat([first, ids], axis=1))
        return tf.strings.regex_replace(text, self._start, "", replace_global=False)

    @property
    def _options(self) -> dict[str, Any]:
        return {}

    def _write(self, directory: pathlib.Path) -> None:
        files.write(_path(directory), self._model)

    @classmethod
    def _read(cls, directory: pathlib.Path, options: dict[str, Any]) -> Self:
        path = _path(directory)
        try:
            return cls(files.read(path), **options)
        except (TypeError, ValueError) as error:
            raise ValueError(f"Corrupt tokenizer file {path}: {error}") from error


def _path(directory: pathlib.Path) -> pathlib.Path:
    return directory / "model.spm"


def _pieces(model: bytes) -> list[str]:
    """Returns the pieces of a serialized model, in id order."""
    try:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        return [processor.id_to_piece(i) for i in range(processor.vocab_size())]
    except RuntimeError as error:
        raise ValueError(
            "Invalid value for argument `model`. Expected the bytes of a "
            f"SentencePiece model. Received: {len(model)} bytes ({error})"
        ) from error


class _TrainingLines:
    """Iterates over the lines that are not empty, and keeps the error they end in."""

    def __init__(self, lines: Iterable[str]) -> None:
        check_lines(lines)
        self.error: Exception | None = None
        self._lines = (line.replace(_RESERVED_CHARACTER, "") for line in lines)
        self._first = next(filter(None, self._lines), "")
        if not self._first:
            raise ValueError(
                "Invalid value for argument `lines`. Expected at least one line of "
                "text to train on. Received: no text"
            )

    def __iter__(self) -> Iterator[str]:
        yield self._first
        try:
            yield from filter(None, self._lines)
        except Exception as error:
            self.error = error
            raise


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(
            f"Invalid value for argument `{name}`. Expected one of {choices}. "
            f"Received: {name}={value!r}"
        )


def _explained(error: RuntimeError, vocabulary_size: int) -> ValueError:
    """Turns an error of the trainer into one about `vocabulary_size`."""
    message = str(error)
    if most := re.search(r"Vocabulary size too high .* value <= (\d+)", message):
        expected = f"at most {most[1]}, the most that the training data allows"
    elif least := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        expected = f"at least {least[1]}, one id for every character and special token"
    else:
        return ValueError(f"SentencePiece could not be trained: {message}")
    return ValueError(
        f"Invalid value for argument `vocabulary_size`. Expected {expected}. "
        f"Received: vocabulary_size={vocabulary_size}"
    )
