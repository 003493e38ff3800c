"""Start-up, speed and memory of the input of training, against the size of the corpus.

    python -m benchmarks.corpus_size --sizes=10000,100000,1000000,10000000

Generates pairs of three to nine words with a fixed seed into a temporary directory (0.8
GB for 10 million), and takes batches of them in a process of its own for every size:

- as a stream with `steps_per_epoch`, as `trainers.train_translation` does with
  `--steps_per_epoch`;
- in memory, as it does without, up to `--in_memory` pairs.

The columns: "tokenizers" is the time of making two word tokenizers; "first batch" that
from opening the files to the first batch, with these given; "resumed" that to the first
batch of a run that is resumed at the last thousandth of the corpus, which grows with
the corpus, as lines have to be counted up to there; "speed" is that of the other
batches of one epoch, of `--epoch_pairs` pairs at most; memory is the growth of the
process in all this. The files are in the page cache, as they were just written.
"""

import concurrent.futures
import itertools
import json
import multiprocessing
import pathlib
import tempfile
import time
from typing import Any

import numpy as np
from absl import app, flags

from benchmarks import machine, memory

FLAGS = flags.FLAGS

BATCH = 64
COLUMNS = "pairs files read tokenizers first_batch resumed speed memory".split()


def generate(directory: pathlib.Path, size: int) -> int:
    """Writes `size` pairs; returns the bytes of both files."""
    draw = np.random.default_rng(0)
    letters = draw.integers(ord("a"), ord("z") + 1, (20_000, 9), np.uint8)
    words = [row[: 3 + i % 7].tobytes().decode() for i, row in enumerate(letters)]
    with (
        (directory / "source").open("w", encoding="ascii") as source,
        (directory / "target").open("w", encoding="ascii") as target,
    ):
        for start in range(0, size, 50_000):
            lengths = draw.integers(3, 10, min(50_000, size - start))
            # Common and rare words, as in a language.
            ids = (len(words) * draw.random(lengths.sum()) ** 3).astype(int)
            text = iter([words[i] for i in ids])
            for length in lengths.tolist():
                line = list(itertools.islice(text, length))
                source.write(" ".join(line) + "\n")
                target.write(" ".join(reversed(line)) + "\n")
    return sum((directory / side).stat().st_size for side in ("source", "target"))


def measure(
    directory: pathlib.Path, size: int, stream: bool, sample: int, epoch_pairs: int
) -> dict[str, Any]:
    """The figures of one corpus, measured in a process that has done nothing yet."""
    # The process that starts this one would otherwise hold TensorFlow too.
    from keras_attn.data import ParallelCorpus, training_dataset
    from keras_attn.text import WordTokenizer

    figures: dict[str, Any] = {}

    def open_files(lazy):
        files = directory / "source", directory / "target"
        return ParallelCorpus.from_files(*files, lazy=lazy)

    def first_batch(tokenizers, pairs, **options):
        if stream:
            options["steps_per_epoch"] = pairs // BATCH or 1
        training = training_dataset(
            open_files(stream), *tokenizers, batch_size=BATCH, **options
        )
        batches = iter(training.dataset)
        next(batches)
        return batches

    def work():
        start = time.perf_counter()
        corpus = open_files(lazy=True)
        sides = corpus.sources(sample), corpus.targets(sample)
        tokenizers = [WordTokenizer.train(texts, 8000) for texts in sides]
        figures["tokenizers_seconds"] = time.perf_counter() - start

        start = time.perf_counter()
        batches = first_batch(tokenizers, min(size, epoch_pairs))
        figures["first_batch_seconds"] = time.perf_counter() - start

        start = time.perf_counter()
        taken = sum(len(labels) for _, labels in batches)
        figures["pairs_per_second"] = taken / (time.perf_counter() - start)
        figures["pairs_taken"] = taken + BATCH

        if stream:
            start = time.perf_counter()
            first_batch(tokenizers, size // 1000, initial_epoch=999)
            figures["resumed_seconds"] = time.perf_counter() - start

    # What TensorFlow allocates on its first call is not the corpus's.
    WordTokenizer(["a"]).tokenize(["a"])
    figures["memory_bytes"] = memory.peak_growth(work)
    return figures


def row(figures: dict[str, Any]) -> list[str]:
    """The cells of `COLUMNS`."""
    resumed = figures.get("resumed_seconds")
    return [
        f"{figures['pairs']:,}",
        f"{figures['bytes'] / 1e6:,.0f} MB",
        "stream" if figures["stream"] else "in memory",
        f"{figures['tokenizers_seconds']:.1f} s",
        f"{figures['first_batch_seconds']:.2f} s",
        "" if resumed is None else f"{resumed:.2f} s",
        f"{figures['pairs_per_second']:,.0f} pairs/s",
        f"{figures['memory_bytes'] / 1e6:,.0f} MB",
    ]


def main(argv: list[str]) -> None:
    del argv
    print(machine.describe())
    print(machine.other_work())
    found = []
    for cells in (COLUMNS, ["---"] * len(COLUMNS)):
        print(f"| {' | '.join(cells)} |".replace("_", " "), flush=True)
    for size in map(int, FLAGS.sizes):
        with tempfile.TemporaryDirectory() as name:
            directory = pathlib.Path(name)
            written = generate(directory, size)
            for stream in (True, False)[: 1 + (size <= FLAGS.in_memory)]:
                with concurrent.futures.ProcessPoolExecutor(
                    1, multiprocessing.get_context("spawn")
                ) as process:
                    figures = process.submit(
                        measure,
                        directory,
                        size,
                        stream,
                        FLAGS.tokenizer_sample,
                        FLAGS.epoch_pairs,
                    ).result()
                figures |= {"pairs": size, "bytes": written, "stream": stream}
                found.append(figures)
                print(f"| {' | '.join(row(figures))} |", flush=True)
    if FLAGS.output:
        text = json.dumps({"machine": machine.describe(), "rows": found}, indent=1)
        pathlib.Path(FLAGS.output).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    flags.DEFINE_list("sizes", ["10000", "100000", "1000000"], "Pairs of the corpora.")
    flags.DEFINE_integer("in_memory", 1_000_000, "The most pairs to read into memory.")
    flags.DEFINE_integer("epoch_pairs", 2_000_000, "The most pairs of an epoch.")
    flags.DEFINE_integer(
        "tokenizer_sample", 1_000_000, "The most lines that a tokenizer is made from."
    )
    flags.DEFINE_string("output", None, "JSON file for the figures.")
    app.run(main)
