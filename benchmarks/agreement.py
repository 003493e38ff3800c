"""Both sides on the same model, and the proof that it is the same."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from benchmarks.pairs import Process

PYTORCH = "benchmarks.peers.pytorch_side:PyTorchSide"
BOS_ID, FIRST_WORD = 2, 4

Batch = Mapping[str, np.ndarray]


@contextlib.contextmanager
def both_sides(target: str, *args, threads: int) -> Iterator[tuple[Process, Process]]:
    """One of this project's sides, and a `PyTorchSide` of the same sizes.

    Args:
        target: our side, "package.module:Class".
        *args: its arguments.
        threads: threads of each side.
    """
    with (
        Process(target, *args, threads=threads) as ours,
        Process(PYTORCH, **ours.call("options"), threads=threads) as peer,
    ):
        yield ours, peer


def random_batches(
    count: int, batch_size: int, length: int, vocabulary_size: int
) -> list[Batch]:
    """Batches of random words without padding: int32 `[batch_size, length]` each."""
    generator = np.random.default_rng(0)

    def words():
        shape = (batch_size, length)
        return generator.integers(FIRST_WORD, vocabulary_size, shape, dtype="int32")

    def batch():
        labels = words()
        first = np.full_like(labels[:, :1], BOS_ID)
        target_ids = np.concatenate([first, labels[:, :-1]], axis=1)
        return {"source_ids": words(), "target_ids": target_ids, "labels": labels}

    return [batch() for _ in range(count)]


def with_padding(batch: Batch) -> Batch:
    """The batch with sentences of unlike lengths, so that a check sees the masks."""
    padded = {name: ids.copy() for name, ids in batch.items()}
    rows, length = batch["labels"].shape
    for row in range(rows):
        padded["source_ids"][row, length - row % (length // 2) :] = 0
        end = length - (3 * row) % (length // 2)
        padded["target_ids"][row, end:] = 0
        padded["labels"][row, end:] = 0
    return padded


def check_same_model(ours: Process, peer: Process, batch: Batch) -> None:
    """Give the peer our weights and compare what both make of a batch in float32.

    Compared are the number of parameters, the logits of real positions, the loss and
    the norm of its gradient.

    Raises:
        ValueError: they differ.
    """
    counts = [side.call("num_parameters") for side in (ours, peer)]
    if counts[0] != counts[1]:
        raise ValueError(f"The models have {counts[0]} and {counts[1]} parameters")
    peer.call("load_weights", ours.call("weights"))
    (logits, *ours_numbers), (peer_logits, *peer_numbers) = (
        side.call("check", batch) for side in (ours, peer)
    )
    real = batch["labels"] != 0
    difference = np.abs(logits - peer_logits)[real].max() / logits[real].std()
    found = (
        f"{counts[0]:,} parameters; logits differ by at most {difference:.0e} of their "
        f"deviation; loss and norm of the gradient {_numbers(ours_numbers)} and "
        f"{_numbers(peer_numbers)}"
    )
    if difference > 1e-3 or not np.allclose(ours_numbers, peer_numbers, rtol=1e-4):
        raise ValueError(f"The models differ: {found}")
    print(f"Same model: {found}", flush=True)


def check_same_search(
    ours: Process, peer: Process, source_ids: np.ndarray, **options
) -> None:
    """Compare the hypotheses of a beam search in float32.

    Args:
        ours: this project's side.
        peer: the other one, with the same weights.
        source_ids: int32 `[B, S]`.
        **options: of `AttentionSeq2Seq.generate`.

    Raises:
        ValueError: they differ.
    """
    (ids, scores), (peer_ids, peer_scores) = (
        side.call("check_search", source_ids, **options) for side in (ours, peer)
    )
    equal = (ids == peer_ids).all(axis=-1).mean()
    difference = np.abs(scores - peer_scores).max()
    found = (
        f"{equal:.1%} of {scores.size} hypotheses are equal, scores differ by at most "
        f"{difference:.0e}"
    )
    # Rounding may make candidates that are about as probable change places.
    if not np.allclose(scores, peer_scores, rtol=1e-5) or equal < 0.98:
        raise ValueError(f"The searches differ: {found}")
    print(f"Same search: {found}", flush=True)


def check_same_training(ours: Sequence[float], peer: Sequence[float]) -> None:
    """Compare the mean loss of every round of training from the same weights.

    The optimizers add Adam's epsilon in different places, which matters in the first
    steps; so the losses are alike and not equal.

    Raises:
        ValueError: one differs by more than 2 %.
    """
    if not np.allclose(ours, peer, rtol=0.02):
        raise ValueError(f"The losses of the rounds differ: {ours} and {peer}")
    print(f"Loss a round: {_numbers(ours)} and {_numbers(peer)}", flush=True)


def _numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.5g}" for value in values)
