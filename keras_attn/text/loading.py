"""Loading a saved tokenizer of any kind."""

import os

from keras_attn.text import files
from keras_attn.text.base import Tokenizer
from keras_attn.text.character_tokenizer import CharacterTokenizer
from keras_attn.text.sentencepiece_tokenizer import SentencePieceTokenizer
from keras_attn.text.word_tokenizer import WordTokenizer

_KINDS: dict[str, type[Tokenizer]] = {
    kind.KIND: kind
    for kind in (SentencePieceTokenizer, WordTokenizer, CharacterTokenizer)
}


def load_tokenizer(directory: str | os.PathLike) -> Tokenizer:
    """Loads a tokenizer whatever its kind.

    Args:
        directory: A directory that `Tokenizer.save` wrote.

    Returns:
        A `SentencePieceTokenizer`, `WordTokenizer` or `CharacterTokenizer`.

    Raises:
        FileNotFoundError: A file of the tokenizer is missing; it is named.
        ValueError: A file is corrupt, of another version or of an unknown kind.
    """
    kind = files.read_config(directory)["kind"]
    if kind not in _KINDS:
        raise ValueError(
            f"Unknown tokenizer kind in {files.config_path(directory)}. Expected one "
            f"of {sorted(_KINDS)}. Received: kind={kind!r}"
        )
    return _KINDS[kind].load(directory)
