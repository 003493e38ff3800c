"""A translation with what it was made of."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np


@dataclasses.dataclass(frozen=True)
class Translation:
    """One translation of one text.

    Attributes:
        text: the translation.
        tokens: its T target tokens, without <s> and </s>.
        source_tokens: the S source tokens the model read, </s> last; none for a text of
            white space only.
        attention: float32 `[T, S]`, row t what the model looked at when it chose token
            t; None for a model without attention.
        score: log-probability with </s>, in nats, divided by the length penalty.
        truncated: whether the text was longer than the model's maximum and was cut.
    """

    text: str
    tokens: list[str]
    source_tokens: list[str]
    attention: np.ndarray | None
    score: float
    truncated: bool


def translations_of(answer: Mapping, row: int) -> list[Translation]:
    """The translations in one row of a `Translator.decode` answer, best first.

    Args:
        answer: the outputs of `decode`, as numpy arrays.
        row: which text of the batch.

    Returns:
        One `Translation` for every hypothesis found, which may be fewer than K.
    """
    source_length = answer["source_lengths"][row]
    source_tokens = _strings(answer["source_tokens"][row, :source_length])
    translations = []
    for k, score in enumerate(answer["score"][row]):
        if score == -np.inf:
            continue
        length = answer["lengths"][row, k]
        attention = None
        if "attention" in answer:
            attention = answer["attention"][row, k, :length, :source_length].copy()
        translations.append(
            Translation(
                text=answer["text"][row, k].decode("utf-8"),
                tokens=_strings(answer["tokens"][row, k, :length]),
                source_tokens=source_tokens,
                attention=attention,
                score=float(score),
                truncated=bool(answer["source_truncated"][row]),
            )
        )
    return translations


def _strings(tokens: Sequence[bytes]) -> list[str]:
    return [token.decode("utf-8") for token in tokens]
