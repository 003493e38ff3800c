"""One size of `benchmarks.scaling`, measured in a process that has done nothing yet."""

import time
from collections.abc import Callable

import numpy as np

from benchmarks.agreement import Batch, random_batches
from benchmarks.decoding import EOS_ID, IMPOSSIBLE
from benchmarks.keras_side import TrainerSide
from benchmarks.memory import peak_growth
from benchmarks.scaling_sweeps import Measurement, Point
from benchmarks.training_step import ARGUMENTS

BEAM_WIDTH = 5
# Steps a round: as many as take this time, so that what a call of `fit` takes beside
# its steps hardly counts.
ROUND_SECONDS, MOST_STEPS = 0.5, 10


def measure(work: str, point: Point, seconds: float) -> Measurement:
    """Time and memory of one step of training or one beam search.

    Args:
        work: "training" or "search".
        point: the sizes.
        seconds: rounds are repeated up to this time, but twice at least and five times
            at most; the fastest counts.
    """
    side = TrainerSide(ARGUMENTS, (point.vocabulary, point.vocabulary))
    prepare = {"training": _training, "search": _search}[work]
    run = prepare(side, point)
    # The first call, tracing included.
    memory = peak_growth(lambda: run(2))
    steps = max(1, min(int(ROUND_SECONDS / _processor_time(run, 1)), MOST_STEPS))
    rounds: list[float] = []
    while len(rounds) < 2 or (len(rounds) < 5 and steps * sum(rounds) < seconds):
        rounds.append(_processor_time(run, steps) / steps)
    return Measurement(min(rounds), memory)


def _processor_time(run: Callable[[int], object], steps: int) -> float:
    """Seconds of all threads: other work on the machine hardly changes them."""
    start = time.process_time()
    run(steps)
    return time.process_time() - start


def _training(side: TrainerSide, point: Point) -> Callable[[int], object]:
    side.set_batches([_batch(point)])
    return side.train


def _search(side: TrainerSide, point: Point) -> Callable[[int], object]:
    # Without </s> every search takes as many steps as it may.
    bias = side.model.output_layer.bias
    values = np.array(bias)
    values[EOS_ID] = IMPOSSIBLE
    bias.assign(values)
    options = {"beam_width": BEAM_WIDTH, "max_length": point.target}
    source_ids = _batch(point)["source_ids"]
    return lambda steps: side.search(source_ids, steps, **options)


def _batch(point: Point) -> Batch:
    longest = max(point.source, point.target)
    (batch,) = random_batches(1, point.batch, longest, point.vocabulary)
    return {
        name: ids[:, : point.source if name == "source_ids" else point.target]
        for name, ids in batch.items()
    }
