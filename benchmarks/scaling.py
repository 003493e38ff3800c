"""How time and memory of a training step and of a beam search grow with every size.

    python -m benchmarks.scaling --figure=docs/images/scaling.png

The model of `benchmarks.training_step` (embedding 256, hidden 256 a direction), 16
source and 16 target tokens, vocabulary 8000, a batch of 16 (64 for the vocabulary): of
these one is varied at a time, and both lengths together. Beam width 5; a search takes
as many steps as there are target tokens.

Every size is measured in a process of its own. "growth" is the ratio to the size before
over the ratio of the sizes, so 1 is linear. Time is that of the processor, which other
work on the machine hardly changes, the least of several rounds; memory is the growth of
the process at its peak in the first two steps, tracing included. The exponents are the
slopes of the logarithms over the upper half of the sizes: at small sizes, what does not
depend on them hides the growth. The share is that of the time at the largest size which
is in proportion to the size.
"""

import concurrent.futures
import dataclasses
import functools
import json
import multiprocessing
import os
import pathlib

from absl import flags

from benchmarks import machine, pairs, scaling_figure
from benchmarks.scaling_sweeps import (
    GIB,
    SWEEPS,
    Measurement,
    Point,
    Result,
    exponent,
    growing_share,
    growth,
    run_sweep,
)
from keras_attn.files import write_text_atomically

FLAGS = flags.FLAGS

SIDE = "benchmarks.scaling_side"
WORKS = {"training": "training step", "search": "beam search"}
# An exponent may be larger than the mathematics says by this: noise, and caches that
# small sizes fit into.
TOLERANCE = 0.15


@functools.cache
def measure(work: str, point: Point, seconds: float) -> Measurement:
    """`scaling_side.measure` in a process of its own."""
    # Forked from a server that has imported TensorFlow and done nothing with it: a
    # process that begins with the import takes several times as long.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([SIDE])
    with concurrent.futures.ProcessPoolExecutor(1, context) as process:
        return process.submit(_measure, work, point, seconds).result()


def _measure(work: str, point: Point, seconds: float) -> Measurement:
    # The process that starts this one would otherwise hold TensorFlow too.
    from benchmarks import scaling_side

    return scaling_side.measure(work, point, seconds)


def row(result: Result) -> str:
    """The line of the size that was tried last."""
    size = result.sweep.sizes[len(result.sizes) + len(result.skipped) - 1]
    if size in result.skipped:
        return f"| {size:,} | skipped: {result.skipped[size]} | | | |"
    last = result.measurements[-1]
    ratios = [
        growth(result.sizes, values) for values in (result.seconds, result.memory_bytes)
    ]
    time_growth, memory_growth = ("" if r is None else f"{r:.2f}" for r in ratios)
    return (
        f"| {size:,} | {last.seconds:.3f} | {time_growth} "
        f"| {last.memory_bytes / 2**20:,.0f} | {memory_growth} |"
    )


def summary(result: Result) -> dict[str, float | None]:
    """Exponents and share of a sweep; None where too few sizes were measured.

    The share is None, too, where the cost is no line in the size.
    """
    sizes, seconds, linear = result.sizes, result.seconds, result.sweep.order == 1
    return {
        "time_exponent": exponent(sizes, seconds),
        "memory_exponent": exponent(sizes, result.memory_bytes),
        "growing_share_of_time": growing_share(sizes, seconds) if linear else None,
    }


def describe(result: Result) -> str:
    """A summary in words."""
    figures, order = summary(result), result.sweep.order
    parts = []
    for name in ("time", "memory"):
        value = figures[f"{name}_exponent"]
        if value is None:
            return "Too few sizes for an exponent."
        verdict = " (more than it should)" * (value > order + TOLERANCE)
        parts.append(f"{name} {value:.2f}{verdict}")
    text = f"Exponents, {order} at most by the mathematics: {', '.join(parts)}."
    share = figures["growing_share_of_time"]
    if share is None:
        return text
    return (
        f"{text} At {result.sizes[-1]:,}, {share:.0%} of the time is in proportion to "
        "the size."
    )


def main() -> None:
    print(f"{machine.describe()}; threads used: {FLAGS.threads}")
    os.environ |= {
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "OMP_NUM_THREADS": str(FLAGS.threads),
        "TF_NUM_INTRAOP_THREADS": str(FLAGS.threads),
        "TF_NUM_INTEROP_THREADS": str(FLAGS.threads),
    }
    results: dict[tuple[str, str], Result] = {}
    for name in FLAGS.sweeps:
        for work in FLAGS.works:
            sweep = SWEEPS[name]
            print(f"\n{WORKS[work].capitalize()} against {sweep.label}")
            print(f"By the mathematics, {sweep.mathematics}.\n")
            print(f"| {name} | seconds | growth | memory, MiB | growth |")
            print("|---:" * 5 + "|", flush=True)
            results[name, work] = run_sweep(
                sweep,
                functools.partial(measure, work, seconds=FLAGS.seconds),
                FLAGS.memory_limit * GIB,
                lambda result: print(row(result), flush=True),
            )
            print(f"\n{describe(results[name, work])}", flush=True)
            # After each, so that a run that is broken off leaves what it has.
            save(results)


def save(results: dict[tuple[str, str], Result]) -> None:
    """Write --output and --figure."""
    if FLAGS.output:
        write(results, pathlib.Path(FLAGS.output), FLAGS.threads)
    if FLAGS.figure:
        scaling_figure.save(results, pathlib.Path(FLAGS.figure), WORKS)


def write(
    results: dict[tuple[str, str], Result], path: pathlib.Path, threads: int
) -> None:
    """All figures as JSON."""
    sweeps = [
        {"name": name, "work": work, **dataclasses.asdict(result)} | summary(result)
        for (name, work), result in results.items()
    ]
    content = {"machine": machine.describe(), "threads": threads, "sweeps": sweeps}
    write_text_atomically(path, json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    flags.DEFINE_multi_enum("sweeps", list(SWEEPS), list(SWEEPS), "What is varied.")
    flags.DEFINE_multi_enum("works", list(WORKS), list(WORKS), "What is measured.")
    flags.DEFINE_float("seconds", 2.0, "About how long each size is repeated.")
    flags.DEFINE_float("memory_limit", 8.0, "GiB that one size may take.")
    # With one, how well the work of a size can be split does not matter.
    flags.DEFINE_integer("threads", 1, "Threads of TensorFlow.", lower_bound=1)
    flags.DEFINE_string("output", None, "File to write the figures to, as JSON.")
    flags.DEFINE_string("figure", None, "Image to draw, such as scaling.png.")
    pairs.run(main)
