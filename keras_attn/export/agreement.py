"""Whether an exported model answers as it has to."""

import numpy as np

# How far weights of two bytes may move a score, a normalised log-probability: so much,
# and so much of the score itself, which grows with the number of tokens.
SCORE_ATOL = 0.1
SCORE_RTOL = 0.02


class ExportError(RuntimeError):
    """An export that was refused; nothing of it is left on the disk."""


def check_same(signature: str, expected: dict, answer: dict) -> None:
    """Check that a written signature answers as the function it was made of.

    Args:
        signature: its name.
        expected: what the function returned, tensors by name.
        answer: what the signature returned, arrays by name.

    Raises:
        ExportError: it returns other names, or other values.
    """
    if set(expected) != set(answer):
        raise ExportError(
            f"Signature {signature!r} of the exported model returns {sorted(answer)}. "
            f"Expected: {sorted(expected)}"
        )
    for key, value in expected.items():
        value = value.numpy()
        if value.dtype == np.float32:
            same = value.shape == answer[key].shape and np.allclose(
                value, answer[key], rtol=1e-3, atol=1e-4
            )
        else:
            same = np.array_equal(value, answer[key])
        if not same:
            raise ExportError(
                f"Output {key!r} of signature {signature!r} of the exported model "
                f"differs from the translator's. Expected: {value}. "
                f"Received: {answer[key]}"
            )


def check_agreement(expected: dict, answer: dict, dtype: str) -> None:
    """Check that weights in another dtype give the translations of the model's own.

    Rounded weights may tip the balance between two hypotheses that are about equally
    good, and nothing else: the best score of each text has to be within `SCORE_ATOL` +
    `SCORE_RTOL` |score| of the model's own, and the best text has to be the same
    wherever the model's own second best score is further away than that. Greedy search
    knows no second best, so its scores alone are compared.

    Args:
        expected: what signature `nbest` answers with the model's own weights.
        answer: what it answers with the others.
        dtype: the dtype of those.

    Raises:
        ExportError: they disagree.
    """
    texts, scores = expected["text"].numpy(), expected["score"].numpy()
    for i, (text, score) in enumerate(
        zip(answer["text"].numpy()[:, 0], answer["score"].numpy()[:, 0], strict=True)
    ):
        tolerance = SCORE_ATOL + SCORE_RTOL * abs(scores[i, 0])
        second = scores[i, 1] if scores.shape[1] > 1 else scores[i, 0]
        apart = scores[i, 0] - second > tolerance
        # Not "difference > tolerance", which NaN passes.
        close = abs(score - scores[i, 0]) <= tolerance
        if not close or (apart and text != texts[i, 0]):
            raise ExportError(
                f"With weights in {dtype} the model answers otherwise than with its "
                f"own. Expected: {texts[i, 0].decode()!r} with score {scores[i, 0]:.4f}"
                f" within {tolerance:.4f}. Received: {text.decode()!r} with score "
                f"{score:.4f}"
            )
