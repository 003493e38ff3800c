import pathlib
import random

import numpy as np
import pytest
import tensorflow as tf

from keras_attn.data import (
    CorpusError,
    ParallelCorpus,
    PipelineSummary,
    evaluation_dataset,
    training_dataset,
)
from keras_attn.text import CharacterTokenizer, WordTokenizer

MULTI30K = pathlib.Path("../shared/data/multi30k/tok")

# Ids: a b c d e are 4 to 8 in the source, A B C D E in the target.
SOURCE = WordTokenizer(list("abcde"))
TARGET = WordTokenizer(list("ABCDE"))


def write_corpus(directory, pairs):
    for name, side in (("s", 0), ("t", 1)):
        lines = "".join(pair[side] + "\n" for pair in pairs)
        (directory / name).write_text(lines, encoding="utf-8")
    return ParallelCorpus.from_files(directory / "s", directory / "t")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    draw = random.Random(0)
    sources = [draw.choices("abcde", k=draw.randint(1, 12)) for _ in range(300)]
    pairs = [(" ".join(s), " ".join(s).upper() + " A") for s in sources]
    return write_corpus(tmp_path_factory.mktemp("corpus"), pairs)


def train(corpus, **options):
    return training_dataset(corpus, SOURCE, TARGET, **{"batch_size": 16, **options})


def batches(dataset):
    return [
        (x["source_ids"].tolist(), x["target_ids"].tolist(), labels.tolist())
        for x, labels in dataset.as_numpy_iterator()
    ]


def test_a_batch_holds_ids_with_their_marks_and_zeros_behind(tmp_path):
    corpus = write_corpus(tmp_path, [("a b zz", "B"), ("c", "A E")])
    (inputs, labels), *rest = train(corpus, batch_size=2).dataset
    assert rest == []
    assert set(inputs) == {"source_ids", "target_ids"}
    assert {t.dtype for t in (*inputs.values(), labels)} == {tf.int32}
    # Sorted by target length.
    assert inputs["source_ids"].numpy().tolist() == [[4, 5, 1, 3], [6, 3, 0, 0]]
    assert inputs["target_ids"].numpy().tolist() == [[2, 5, 0], [2, 4, 8]]
    assert labels.numpy().tolist() == [[5, 3, 0], [4, 8, 3]]


def test_the_structure_is_known_before_the_first_batch(corpus):
    spec = tf.TensorSpec([None, None], tf.int32)
    expected = ({"source_ids": spec, "target_ids": spec}, spec)
    assert train(corpus).dataset.element_spec == expected
    evaluation = evaluation_dataset(corpus, SOURCE, TARGET, batch_size=7)
    assert evaluation.element_spec == expected


def words(tokenizer, row):
    """Reads a row of ids, without its marks and padding."""
    return " ".join(tokenizer.vocabulary[i] for i in row if i > 3)


@pytest.mark.parametrize("batch_size", [1, 7, 1000])
def test_an_epoch_holds_every_pair_once_in_full_batches(corpus, batch_size):
    dataset = train(corpus, batch_size=batch_size).dataset
    found, sizes = [], []
    for source_ids, target_ids, labels in batches(dataset):
        sizes.append(len(labels))
        for source, target, label in zip(source_ids, target_ids, labels, strict=True):
            assert words(TARGET, target) == words(TARGET, label)
            found.append((words(SOURCE, source), words(TARGET, label)))
    assert sorted(found) == sorted(corpus.pairs())
    assert dataset.cardinality() == len(sizes) == -(-300 // batch_size)
    assert sum(size != batch_size for size in sizes) <= 1


def test_lengths_count_the_mark(tmp_path):
    corpus = write_corpus(
        tmp_path, [("a a a", "A"), ("b b", "B B B"), ("c c", "C C"), ("d", "D D D D")]
    )
    training = train(corpus, max_source_length=3, max_target_length=4)
    sources = SOURCE.detokenize(next(iter(training.dataset))[0]["source_ids"]).numpy()
    assert sorted(sources) == [b"b b", b"c c"]
    assert training.summary.dropped_long == 2


def test_the_summary_counts_pairs_and_tokens(tmp_path):
    corpus = write_corpus(
        tmp_path,
        [
            ("a b", "A"),
            ("", "A"),
            ("a", "  "),
            ("", "A A A A"),
            ("a a a", "A"),
            ("c",) * 2,
        ],
    )
    summary = train(corpus, batch_size=2, max_source_length=3).summary
    assert summary == PipelineSummary(
        pairs=6,
        kept=2,
        dropped_empty=3,
        dropped_long=1,
        batches=1,
        source_tokens=5,
        target_tokens=4,
    )


def test_a_corpus_of_which_nothing_is_kept_says_why(tmp_path):
    corpus = write_corpus(tmp_path, [("a a a", "A"), ("", "A"), ("a", "A A A A")])
    message = (
        r"None of the 3 pairs .*: 1 have a side without a token, 2 are longer than "
        "max_source_length=3 or max_target_length=4"
    )
    with pytest.raises(CorpusError, match=message):
        train(corpus, max_source_length=3, max_target_length=4)
    blank = write_corpus(tmp_path, [("", "A"), ("  ", "A")])
    with pytest.raises(CorpusError, match="None of the 2 pairs can be evaluated"):
        evaluation_dataset(blank, SOURCE, TARGET, batch_size=2)


def test_the_order_is_a_function_of_seed_and_epoch_alone(corpus):
    first = train(corpus, seed=5)
    epochs = []
    for epoch in range(3):
        first.set_epoch(epoch)
        epochs.append(batches(first.dataset))
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]
    tf.random.set_seed(123)
    resumed = train(corpus, seed=5, initial_epoch=2)
    assert resumed.epoch == 2
    next(iter(resumed.dataset))  # An iterator that is dropped changes nothing.
    assert batches(resumed.dataset) == epochs[2]
    tf.random.set_seed(321)
    resumed.set_epoch(0)
    assert batches(resumed.dataset) == epochs[0]


def test_any_seed_from_0_on_gives_its_own_order(corpus):
    orders = [batches(train(corpus, seed=seed).dataset) for seed in (0, 2**31 - 3)]
    assert orders[0] != orders[1]


def test_making_a_dataset_leaves_the_global_seed_alone(corpus):
    tf.random.set_seed(1)
    expected = tf.random.uniform([3]).numpy().tolist()
    tf.random.set_seed(1)
    next(iter(train(corpus, seed=9).dataset))
    assert tf.random.uniform([3]).numpy().tolist() == expected


def test_batches_are_of_like_lengths_and_come_in_no_order_of_length(corpus):
    found = batches(train(corpus).dataset)
    arrays = [np.array(side) for batch in found for side in batch]
    padding = sum((a == 0).sum() for a in arrays) / sum(a.size for a in arrays)
    assert padding < 0.06
    lengths = [len(labels[0]) for _, _, labels in found]
    assert lengths != sorted(lengths)
    assert lengths != sorted(lengths, reverse=True)


def test_bucket_width_rounds_the_lengths_up(corpus):
    shapes = set()
    for source, target, labels in batches(train(corpus, bucket_width=4).dataset):
        assert np.shape(target) == np.shape(labels)
        assert np.any(np.array(source)[:, -4:])
        shapes |= {np.shape(source)[1], np.shape(target)[1]}
    assert shapes == {4, 8, 12, 16}


def test_evaluation_keeps_the_order_and_cuts(tmp_path):
    corpus = write_corpus(
        tmp_path,
        [("a b c d", "A B C D"), ("", "A"), ("b", "B"), ("c c", "C C"), ("d", "D D D")],
    )
    dataset = evaluation_dataset(
        corpus,
        SOURCE,
        TARGET,
        batch_size=3,
        max_source_length=3,
        max_target_length=3,
    )
    assert dataset.cardinality() == 2
    assert batches(dataset) == batches(dataset)
    assert batches(dataset) == [
        (
            [[4, 5, 3], [5, 3, 0], [6, 6, 3]],
            [[2, 4, 5], [2, 5, 0], [2, 6, 6]],
            [[4, 5, 6], [5, 3, 0], [6, 6, 3]],
        ),
        ([[7, 3]], [[2, 7, 7]], [[7, 7, 7]]),
    ]


def test_evaluation_rounds_the_lengths_up_but_cuts_at_the_limits(tmp_path):
    corpus = write_corpus(tmp_path, [("a b c", "A"), ("a b c d e", "A B C D E")])
    dataset = evaluation_dataset(
        corpus,
        SOURCE,
        TARGET,
        batch_size=1,
        bucket_width=3,
        max_source_length=5,
        max_target_length=4,
    )
    assert batches(dataset) == [
        ([[4, 5, 6, 3, 0, 0]], [[2, 4, 0]], [[4, 3, 0]]),
        ([[4, 5, 6, 7, 3, 0]], [[2, 4, 5, 6, 0, 0]], [[4, 5, 6, 7, 0, 0]]),
    ]


@pytest.mark.parametrize(
    ("argument", "value", "least"),
    [
        ("batch_size", 0, 1),
        ("batch_size", 2.5, 1),
        ("max_source_length", 1, 2),
        ("max_target_length", 1, 2),
        ("seed", -1, 0),
        ("initial_epoch", -1, 0),
        ("bucket_width", 0, 1),
        ("steps_per_epoch", 0, 1),
        ("shuffle_buffer", 0, 1),
    ],
)
def test_an_argument_out_of_range_is_named(corpus, argument, value, least):
    message = rf"`{argument}`.*at least {least}\. Received: {argument}={value}"
    with pytest.raises(ValueError, match=message):
        train(corpus, **{argument: value})


def test_evaluation_checks_its_arguments(corpus):
    with pytest.raises(ValueError, match=r"`batch_size`.*Received: batch_size=0"):
        evaluation_dataset(corpus, SOURCE, TARGET, batch_size=0)


def test_a_lazy_corpus_that_cannot_be_read_is_an_error_of_its_own(tmp_path):
    (tmp_path / "table").write_bytes(b"a\tA\nb\n")
    corpus = ParallelCorpus.from_tsv(tmp_path / "table", lazy=True)
    with pytest.raises(CorpusError, match=r"Too few columns in .*table, line 2\."):
        train(corpus)


@pytest.mark.skipif(not MULTI30K.is_dir(), reason=f"needs {MULTI30K}")
def test_real_text_in_two_kinds_of_tokens():
    corpus = ParallelCorpus.from_files(
        MULTI30K / "val.lc.norm.tok.de", MULTI30K / "val.lc.norm.tok.en"
    )
    assert corpus.size == 1014
    words = WordTokenizer.train(corpus.sources())
    characters = CharacterTokenizer.train(corpus.targets())
    training = training_dataset(
        corpus, words, characters, batch_size=32, max_target_length=400
    )
    assert training.summary.kept == 1014
    real = padded = 0
    for inputs, labels in training.dataset.as_numpy_iterator():
        for ids in (inputs["source_ids"], labels):
            real += np.count_nonzero(ids)
            padded += ids.size
    assert real == training.summary.source_tokens + training.summary.target_tokens
    assert real / padded > 0.92
