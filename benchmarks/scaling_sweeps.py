"""The sweeps of `benchmarks.scaling` and what is made of their figures."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

GIB = 2**30


@dataclasses.dataclass(frozen=True)
class Point:
    """Sizes of one measurement."""

    source: int = 16  # tokens of each source
    target: int = 16  # tokens of each target; of a search, its steps
    vocabulary: int = 8000  # tokens of either side
    batch: int = 16  # sentences


@dataclasses.dataclass(frozen=True)
class Measurement:
    """What one step took."""

    seconds: float  # of the processor
    memory_bytes: int  # growth of the process at its peak in the first steps


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Sizes that are varied while all others stay.

    Attributes:
        label: what is varied, with its unit.
        fields: the fields of a `Point` that take the sizes.
        sizes: in ascending order.
        order: the exponent that time and memory may grow with by the mathematics.
        mathematics: why.
        base: the other sizes.
    """

    label: str
    fields: Sequence[str]
    sizes: Sequence[int]
    order: int
    mathematics: str
    base: Point = dataclasses.field(default_factory=Point)

    def point(self, size: int) -> Point:
        return dataclasses.replace(self.base, **dict.fromkeys(self.fields, size))


SWEEPS = {
    "source": Sweep(
        "source tokens, S",
        ["source"],
        (16, 250, 500, 1000),
        1,
        "the encoder takes S steps and attention T x S scores: linear in S",
    ),
    "target": Sweep(
        "target tokens, T",
        ["target"],
        (16, 128, 256, 512),
        1,
        "the decoder takes T steps of S scores and V logits each: linear in T",
    ),
    "both": Sweep(
        "source and target tokens",
        ["source", "target"],
        (16, 64, 128, 256),
        2,
        "attention takes T x S scores, quadratic; all else is linear",
    ),
    "vocabulary": Sweep(
        "vocabulary, V",
        ["vocabulary"],
        (1000, 16_000, 32_000, 64_000),
        1,
        "the output layer makes T x V logits, and training updates V embeddings: "
        "linear in V",
        Point(batch=64),
    ),
    "batch": Sweep(
        "batch, sentences",
        ["batch"],
        (8, 64, 128, 256),
        1,
        "everything is done for each sentence: linear",
    ),
}


@dataclasses.dataclass
class Result:
    """The figures of one sweep, of those sizes that were measured."""

    sweep: Sweep
    sizes: list[int] = dataclasses.field(default_factory=list)
    measurements: list[Measurement] = dataclasses.field(default_factory=list)
    skipped: dict[int, str] = dataclasses.field(default_factory=dict)

    @property
    def seconds(self) -> list[float]:
        return [m.seconds for m in self.measurements]

    @property
    def memory_bytes(self) -> list[int]:
        return [m.memory_bytes for m in self.measurements]


def run_sweep(
    sweep: Sweep,
    measure: Callable[[Point], Measurement],
    memory_limit: float,
    on_row: Callable[[Result], None] = lambda result: None,
) -> Result:
    """Measure the sizes of a sweep in turn.

    Args:
        sweep: the sweep.
        measure: measures one point.
        memory_limit: bytes. A size that would take more than these, by what the last
            one took and the order of the sweep, is skipped.
        on_row: called with the result so far after each size.
    """
    result = Result(sweep)
    for size in sweep.sizes:
        expected = 0.0
        if result.sizes:
            ratio = size / result.sizes[-1]
            expected = result.memory_bytes[-1] * ratio**sweep.order
        if expected > memory_limit:
            result.skipped[size] = (
                f"would take up to {expected / GIB:.1f} GiB of memory, more than the "
                f"{memory_limit / GIB:.1f} allowed"
            )
        else:
            result.measurements.append(measure(sweep.point(size)))
            result.sizes.append(size)
        on_row(result)
    return result


def growth(sizes: Sequence[int], values: Sequence[float]) -> float | None:
    """Ratio of the last value to that before it over the ratio of sizes: 1 is linear.

    None where there is only one.
    """
    if len(sizes) < 2:
        return None
    return (values[-1] / values[-2]) / (sizes[-1] / sizes[-2])


def exponent(sizes: Sequence[int], values: Sequence[float]) -> float | None:
    """Slope of log(value) against log(size), by least squares over the upper half.

    The upper half is that of the range of log(size), where what does not grow with the
    size matters less. None where fewer than two sizes are in it.
    """
    upper = _upper_half(sizes)
    if len(upper) < 2:
        return None
    x, y = (np.log(np.array(part)[upper]) for part in (sizes, values))
    return float(np.polyfit(x, y, 1)[0])


def growing_share(sizes: Sequence[int], values: Sequence[float]) -> float | None:
    """The share of the last value that is in proportion to the size.

    By the line that fits the upper half best. None where `exponent` is.
    """
    upper = _upper_half(sizes)
    if len(upper) < 2:
        return None
    slope, constant = np.polyfit(np.array(sizes)[upper], np.array(values)[upper], 1)
    # Noise may put the line below zero at size 0.
    constant = max(constant, 0.0)
    return float(slope * sizes[-1] / (slope * sizes[-1] + constant))


def _upper_half(sizes: Sequence[int]) -> list[int]:
    """Positions of the sizes at or above the geometric middle of the range."""
    middle = (sizes[0] * sizes[-1]) ** 0.5 if sizes else 0.0
    return [i for i, size in enumerate(sizes) if size >= middle]
