"""Corpus scores: BLEU and chrF as sacreBLEU computes them, and exact match."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

References = Sequence[str] | Sequence[Sequence[str]]


@dataclasses.dataclass(frozen=True)
class Scores:
    """Quality of a corpus of hypotheses.

    Attributes:
        bleu: corpus BLEU, 0 to 100.
        chrf: corpus chrF2, 0 to 100.
        bleu_signature: sacreBLEU's signature, which makes `bleu` comparable.
        chrf_signature: the same for `chrf`.
    """

    bleu: float
    chrf: float
    bleu_signature: str
    chrf_signature: str

    def to_dict(self) -> dict[str, Any]:
        """The scores as a dictionary of plain values, ready for JSON."""
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        return (
            f"BLEU  {self.bleu:6.2f}  {self.bleu_signature}\n"
            f"chrF2 {self.chrf:6.2f}  {self.chrf_signature}"
        )


def corpus_scores(
    hypotheses: Sequence[str],
    references: References,
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
) -> Scores:
    """Scores a corpus of hypotheses with BLEU and chrF.

    Args:
        hypotheses: one text a sentence, detokenised unless `tokenize="none"`.
        references: one reference a hypothesis; or several lists of references, each
            with one a hypothesis.
        tokenize: sacreBLEU's tokeniser for BLEU. "13a" is the standard, "zh" is for
            Chinese, "none" for text that is tokenised already.
        lowercase: whether case is ignored, in both scores.

    Returns:
        The `Scores`.

    Raises:
        TypeError: hypotheses or references are not lists of `str`.
        ValueError: nothing to score, different numbers of hypotheses and references,
            or an unknown `tokenize`.

    Example:

    ```python
    scores = corpus_scores(["a man sleeps ."], ["a man is asleep ."], tokenize="none")
    print(scores.bleu, scores.bleu_signature)
    ```
    """
    from sacrebleu.metrics import BLEU, CHRF

    reference_lists = _checked(hypotheses, references)
    if tokenize not in BLEU.TOKENIZERS:
        raise ValueError(
            "Invalid value for argument `tokenize`. Expected one of "
            f"{', '.join(map(repr, BLEU.TOKENIZERS))}. Received: {tokenize!r}"
        )
    # `force` silences advice on text that looks tokenised: the caller has chosen.
    bleu = BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
    chrf = CHRF(lowercase=lowercase)
    return Scores(
        bleu=bleu.corpus_score(hypotheses, reference_lists).score,
        chrf=chrf.corpus_score(hypotheses, reference_lists).score,
        bleu_signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
    )


def exact_match(hypotheses: Sequence[str], references: References) -> float:
    """The percentage of hypotheses that equal their reference, or one of several.

    Args:
        hypotheses: one text a sentence.
        references: one reference a hypothesis; or several lists of references, each
            with one a hypothesis.

    Returns:
        A percentage, 0 to 100.

    Raises:
        TypeError: hypotheses or references are not lists of `str`.
        ValueError: nothing to score, or different numbers of hypotheses and references.
    """
    reference_lists = _checked(hypotheses, references)
    answers = zip(*reference_lists, strict=True)
    matches = [
        hypothesis in accepted
        for hypothesis, accepted in zip(hypotheses, answers, strict=True)
    ]
    return 100.0 * sum(matches) / len(matches)


def _checked(hypotheses: Sequence[str], references: References) -> list[Sequence[str]]:
    """Returns the references as a list of lists that fit the hypotheses."""
    _check_texts("hypotheses", hypotheses)
    several = len(references) > 0 and not isinstance(references[0], str)
    reference_lists: list[Any] = list(references) if several else [references]
    for index, texts in enumerate(reference_lists):
        name = f"references[{index}]" if several else "references"
        _check_texts(name, texts)
        if len(texts) != len(hypotheses):
            raise ValueError(
                f"Invalid value for argument `{name}`. Expected {len(hypotheses)} "
                f"text(s), one a hypothesis. Received: {len(texts)}"
            )
    return reference_lists


def _check_texts(name: str, texts: Any) -> None:
    if isinstance(texts, (str, bytes)) or not isinstance(texts, Sequence):
        raise TypeError(
            f"Invalid value for argument `{name}`. Expected a list of str. "
            f"Received: {texts!r:.200}"
        )
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(
                f"Invalid value for argument `{name}`. Expected a list of str. "
                f"Received: {text!r:.200} at index {index}"
            )
    if not texts:
        raise ValueError(
            f"Invalid value for argument `{name}`. Expected at least one text. "
            "Received: an empty list"
        )
