"""Epochs of a number of steps, from a corpus that is read round and round."""

import itertools
import random

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.data import (
    CorpusError,
    EpochSeed,
    ParallelCorpus,
    pipeline,
    training_dataset,
)
from keras_attn.data.sources import shuffled
from keras_attn.text import CharacterTokenizer

TOKENIZER = CharacterTokenizer(list("0123456789"))
PAIRS = 300
BATCH, STEPS = 8, 10


def write(path, numbers):
    """Pairs of a number and the same backwards."""
    texts = [str(number) for number in numbers]
    path.write_text("".join(f"{text}\t{text[::-1]}\n" for text in texts))
    return ParallelCorpus.from_tsv(path, lazy=True)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("corpus") / "pairs.tsv"


@pytest.fixture(scope="module")
def corpus(path):
    return write(path, range(PAIRS))


def stream(corpus, **options):
    options = {"batch_size": BATCH, "steps_per_epoch": STEPS, **options}
    return training_dataset(corpus, TOKENIZER, TOKENIZER, **options)


@pytest.fixture(scope="module")
def training(corpus):
    return stream(corpus, shuffle_buffer=50)


@pytest.fixture(scope="module")
def expected(training):
    """The numbers in every batch of the epochs 0 to 4."""
    return [epoch_of(training, epoch) for epoch in range(5)]


def epoch_of(training, epoch):
    training.set_epoch(epoch)
    return [numbers(batch) for batch in training.dataset.as_numpy_iterator()]


def numbers(batch):
    inputs, labels = batch
    found = [digits(row) for row in inputs["source_ids"]]
    assert [digits(row) for row in labels] == [text[::-1] for text in found]
    return [int(text) for text in found]


def digits(row):
    """What the ids of a row say; the digit 0 has id 4."""
    return "".join(str(i - 4) for i in row if i > 3)


def test_epochs_follow_each_other_round_the_corpus(training, expected):
    for epoch, batches in enumerate(expected):
        start = epoch * BATCH * STEPS
        read = [number % PAIRS for number in range(start, start + BATCH * STEPS)]
        assert sorted(itertools.chain(*batches)) == sorted(read)
        assert [len(batch) for batch in batches] == [BATCH] * STEPS
    assert training.dataset.cardinality() == training.summary.batches == STEPS
    assert training.left_out == 0


def test_an_epoch_is_shuffled_and_its_batches_are_of_like_lengths(expected):
    for batches in expected:
        order = list(itertools.chain(*batches))
        assert order != sorted(order)
        assert all(batch != sorted(batch) for batch in batches)
    lengths = [{len(str(number)) for number in batch} for batch in expected[0]]
    assert sum(len(batch) == 1 for batch in lengths) >= STEPS - 1
    assert lengths != sorted(lengths, key=max)


def test_an_epoch_depends_on_nothing_that_was_read_before(path, training, expected):
    next(iter(training.dataset))  # An iterator that is dropped changes nothing.
    assert epoch_of(training, 3) == expected[3]
    tf.random.set_seed(5)
    assert epoch_of(training, 1) == expected[1]
    assert epoch_of(training, 4 + PAIRS // 20) != expected[4]  # the same pairs
    resumed = stream(ParallelCorpus.from_tsv(path), shuffle_buffer=50, initial_epoch=4)
    assert [numbers(b) for b in resumed.dataset.as_numpy_iterator()] == expected[4]


def test_the_seed_changes_the_order_and_not_the_pairs(corpus, expected):
    other = epoch_of(stream(corpus, shuffle_buffer=50, seed=1), 0)
    assert other != expected[0]
    assert sorted(itertools.chain(*other)) == sorted(itertools.chain(*expected[0]))


def test_where_pairs_are_left_out_an_epoch_reads_on(tmp_path):
    # Every fourth is too long, every tenth empty.
    texts = [str(i) if i % 4 else "1" * 20 for i in range(90)]
    lines = [("" if i % 10 == 9 else t) + "\t" + t[::-1] for i, t in enumerate(texts)]
    (tmp_path / "pairs.tsv").write_text("\n".join(lines))
    corpus = ParallelCorpus.from_tsv(tmp_path / "pairs.tsv", lazy=True)
    training = stream(corpus, max_source_length=9, shuffle_buffer=1000)
    kept = [i for i in range(90) if i % 4 and i % 10 != 9]
    for epoch in (0, 1):
        found = list(itertools.chain(*epoch_of(training, epoch)))
        share = {(epoch * 80 + i) % 90 for i in range(80)} & set(kept)
        assert len(found) == 80
        # All of its own share, and some of what comes behind.
        assert share <= set(found) <= set(kept)
        assert training.left_out == pytest.approx(1 - len(kept) / 90, abs=0.03)
    summary = training.summary
    assert (summary.pairs, summary.kept) == (90, len(kept))
    assert (summary.dropped_empty, summary.dropped_long) == (9, 23)
    assert summary.batches == STEPS


def test_an_epoch_may_go_round_many_times(tmp_path):
    training = stream(write(tmp_path / "pairs.tsv", [1, 2, 3]), batch_size=9)
    batches = epoch_of(training, 7)
    assert [len(batch) for batch in batches] == [9] * STEPS
    assert sorted(itertools.chain(*batches)) == [1] * 30 + [2] * 30 + [3] * 30


def test_nothing_is_read_beforehand_but_the_first_pairs(tmp_path, monkeypatch):
    monkeypatch.setattr(pipeline, "FIRST_PAIRS", 4)
    path = tmp_path / "pairs.tsv"
    path.write_text("123\t321\n\t\n1\t1\n2\t2\nno second column\n")
    corpus = ParallelCorpus.from_tsv(path, lazy=True)
    summary = stream(corpus, max_source_length=3).summary
    assert (summary.pairs, summary.kept) == (4, 2)
    assert (summary.dropped_empty, summary.dropped_long) == (1, 1)
    message = r"None of the first 2 pairs .*: 1 have .* 1 are longer than"
    monkeypatch.setattr(pipeline, "FIRST_PAIRS", 2)
    with pytest.raises(CorpusError, match=message):
        stream(corpus, max_source_length=3)


def test_an_error_of_the_files_is_raised_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(pipeline, "FIRST_PAIRS", 2)
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"1\n2\n3\n4\n\xff\n6\n")
    target.write_bytes(b"1\n2\n3\n4\n5\n6\n7\n")
    corpus = ParallelCorpus.from_files(source, target, lazy=True)
    training = stream(corpus, batch_size=2, steps_per_epoch=2)
    assert sorted(itertools.chain(*epoch_of(training, 0))) == [1, 2, 3, 4]
    training.set_epoch(1)
    with (
        pytest.raises(CorpusError, match=f"Invalid UTF-8 in {source}, line 5: "),
        training.reading(),
    ):
        list(training.dataset)
    source.write_bytes(b"1\n2\n3\n4\n5\n6\n")
    message = rf"{source}: 6 lines, {target}: 7 lines$"
    for epoch in (1, 2):
        training.set_epoch(epoch)
        with pytest.raises(CorpusError, match=message), training.reading():
            list(training.dataset)
    # Without it, TensorFlow's own error holds the message.
    with pytest.raises(tf.errors.InvalidArgumentError, match="7 lines"):
        list(training.dataset)


def test_other_errors_are_left_as_they_are(training):
    with pytest.raises(tf.errors.OutOfRangeError), training.reading():
        raise tf.errors.OutOfRangeError(None, None, "of someone else")


class Model(keras.Model):
    def __init__(self):
        super().__init__()
        self.seen = []
        self.built = True

    def train_step(self, data):
        self.seen.append(numbers(tf.nest.map_structure(np.array, data)))
        return {"loss": 0.0}


def test_fit_goes_on_where_it_was_and_logs_what_is_left_out(training, expected):
    model = Model()
    model.compile("sgd", "mse", run_eagerly=True)
    history = model.fit(
        training.dataset,
        initial_epoch=2,
        epochs=4,
        callbacks=[EpochSeed(training)],
        verbose=0,
    )
    assert model.seen == expected[2] + expected[3]
    assert history.history["left_out"] == [0, 0]


@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_shuffling_holds_no_more_than_its_buffer(size):
    taken = 0

    def source():
        nonlocal taken
        for taken in range(1, 51):
            yield (str(taken), "")

    found = []
    for number, _ in shuffled(source(), size, random.Random(3)):
        assert taken <= len(found) + size + 1
        found.append(int(number))
    assert sorted(found) == list(range(1, 51))
    assert (found == sorted(found)) == (size == 1)
    moved = np.array(found) - np.arange(1, 51)
    assert moved.max() <= size
