import gzip
import itertools

import pytest

from keras_attn.data import CorpusError, ParallelCorpus
from keras_attn.data.lines import Lines


def files(tmp_path, source, target):
    (tmp_path / "s").write_bytes(source)
    (tmp_path / "t").write_bytes(target)
    return tmp_path / "s", tmp_path / "t"


def test_pairs_from_two_files(tmp_path):
    corpus = ParallelCorpus.from_files(
        *files(tmp_path, b"\xef\xbb\xbfein Hund\r\nzwei\r\n", b"a dog\ntwo")
    )
    assert corpus.size == len(corpus) == 2
    assert corpus.empty_pairs == 0
    assert list(corpus.sources()) == ["ein Hund", "zwei"]
    assert list(corpus.targets()) == ["a dog", "two"]
    pairs = [("ein Hund", "a dog"), ("zwei", "two")]
    assert list(corpus.pairs()) == list(corpus.pairs()) == pairs


def test_plain_and_gzip_mix(tmp_path):
    source, _ = files(tmp_path, b"a\nb\n", b"")
    (tmp_path / "t.gz").write_bytes(gzip.compress("é\nü\n".encode()))
    corpus = ParallelCorpus.from_files(str(source), tmp_path / "t.gz")
    assert list(corpus.pairs()) == [("a", "é"), ("b", "ü")]


def test_pairs_from_a_table(tmp_path):
    (tmp_path / "table.tsv").write_bytes(b"1\ta\tx\r\n2\tb\ty\textra\r\n")
    corpus = ParallelCorpus.from_tsv(tmp_path / "table.tsv")
    assert list(corpus.pairs()) == [("1", "a"), ("2", "b")]
    turned = ParallelCorpus.from_tsv(tmp_path / "table.tsv", 2, 1)
    assert list(turned.pairs()) == [("x", "a"), ("y", "b")]


def test_a_table_with_too_few_columns_names_file_and_line(tmp_path):
    path = tmp_path / "table.tsv"
    path.write_bytes(b"a\tb\nc\n")
    with pytest.raises(CorpusError, match=rf"{path}, line 2\. .*at least 2.*: 1$"):
        ParallelCorpus.from_tsv(path)
    path.write_bytes(b"a\tb\n\n")
    with pytest.raises(CorpusError, match=r"line 2\. .*at least 2.*: 1$"):
        ParallelCorpus.from_tsv(path)
    with pytest.raises(CorpusError, match=r"line 1\. .*at least 6.*: 2$"):
        ParallelCorpus.from_tsv(path, 0, 5)


def test_a_negative_column_is_rejected(tmp_path):
    with pytest.raises(ValueError, match=r"0-based columns\. .*target_column=-1"):
        ParallelCorpus.from_tsv(tmp_path / "table.tsv", 0, -1)


def test_empty_sides_are_counted_once_a_pair(tmp_path):
    corpus = ParallelCorpus.from_files(*files(tmp_path, b"a\n\n\n \n", b"a\nb\n\n\n"))
    assert corpus.size == 4
    assert corpus.empty_pairs == 3
    assert list(corpus.pairs()) == [("a", "a"), ("", "b"), ("", ""), (" ", "")]


@pytest.mark.parametrize(
    ("source", "target", "counts"),
    [(b"a\nb\nc\n", b"a\n", (3, 1)), (b"a", b"a\nb\n\n\n", (1, 4))],
)
def test_different_lengths_name_both_files_and_counts(tmp_path, source, target, counts):
    source, target = files(tmp_path, source, target)
    message = rf"{source}: {counts[0]} lines, {target}: {counts[1]} lines$"
    with pytest.raises(CorpusError, match=message):
        ParallelCorpus.from_files(source, target)
    lazy = ParallelCorpus.from_files(source, target, lazy=True)
    assert next(lazy.pairs()) == ("a", "a")
    with pytest.raises(CorpusError, match=message):
        list(lazy.pairs())
    for start in range(6):
        with pytest.raises(CorpusError, match=message):
            list(itertools.islice(lazy.endless_pairs(start), 6))


@pytest.mark.parametrize(
    ("source", "target", "empty"), [(b"", b"", "s"), (b"", b"a", "s"), (b"a", b"", "t")]
)
def test_an_empty_file_is_named(tmp_path, source, target, empty):
    for lazy in (False, True):
        with pytest.raises(CorpusError, match=f"Empty file: {tmp_path / empty}"):
            ParallelCorpus.from_files(*files(tmp_path, source, target), lazy=lazy)


def test_a_missing_file_is_named(tmp_path):
    source, _ = files(tmp_path, b"a\n", b"")
    with pytest.raises(CorpusError, match=f"File not found: {tmp_path / 'no'}"):
        ParallelCorpus.from_files(source, tmp_path / "no")
    with pytest.raises(CorpusError, match=f"File not found: {tmp_path / 'no'}"):
        ParallelCorpus.from_tsv(tmp_path / "no")
    with pytest.raises(CorpusError, match=f"File not found: {tmp_path / 'no'}"):
        ParallelCorpus.from_files(tmp_path / "no", source, lazy=True)


def test_a_bad_line_is_found_when_the_corpus_is_made(tmp_path):
    source, target = files(tmp_path, b"a\nb\n", b"a\n\xc3(\n")
    with pytest.raises(CorpusError, match=f"Invalid UTF-8 in {target}, line 2"):
        ParallelCorpus.from_files(source, target)
    source, target = files(tmp_path, b"a\nbbbbbb\n", b"a\nb\n")
    with pytest.raises(CorpusError, match=f"Line too long in {source}, line 2"):
        ParallelCorpus.from_files(source, target, max_line_bytes=5)
    with pytest.raises(CorpusError, match="line 2"):
        ParallelCorpus.from_tsv(source, 0, 0, max_line_bytes=5)


def test_a_lazy_corpus_is_checked_when_it_is_read(tmp_path):
    source, target = files(tmp_path, b"a\nb\n", b"a\n\xc3(\n")
    corpus = ParallelCorpus.from_files(source, target, lazy=True)
    assert corpus.size is None
    assert corpus.empty_pairs is None
    with pytest.raises(TypeError, match="size of a lazy corpus is not known"):
        len(corpus)
    assert list(corpus.sources()) == ["a", "b"]
    with pytest.raises(CorpusError, match=f"Invalid UTF-8 in {target}, line 2"):
        list(corpus.pairs())
    source.write_bytes(b"a\tx\nb\n")
    table = ParallelCorpus.from_tsv(source, lazy=True)
    with pytest.raises(CorpusError, match=rf"{source}, line 2\. .*at least 2.*: 1$"):
        list(table.pairs())


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("end", [b"", b"\n"])
@pytest.mark.parametrize("name", ["t", "t.gz"])
def test_pairs_go_round_from_any_start(tmp_path, lazy, end, name):
    source, target = files(
        tmp_path, b"a\nbb\nc\r\nd\n", b"\xef\xbb\xbf1\n2\n\n44" + end
    )
    if name == "t.gz":
        (tmp_path / name).write_bytes(gzip.compress(target.read_bytes()))
    corpus = ParallelCorpus.from_files(source, tmp_path / name, lazy=lazy)
    pairs = [("a", "1"), ("bb", "2"), ("c", ""), ("d", "44")]
    for start in (0, 1, 2, 4, 3, 9, 5, 0, 4, 400, 7):
        expected = [pairs[(start + i) % 4] for i in range(9)]
        assert list(itertools.islice(corpus.endless_pairs(start), 9)) == expected
    assert corpus.size == 4


def test_a_start_is_found_from_the_last_one_on(tmp_path, monkeypatch):
    source, target = files(tmp_path, b"a\n" * 1000, b"b\n" * 1000)
    corpus = ParallelCorpus.from_files(source, target, lazy=True)
    skips = []
    skip = Lines.skip
    monkeypatch.setattr(
        Lines,
        "skip",
        lambda *arguments: skips.append(arguments[1:]) or skip(*arguments),
    )
    for start in (300, 500, 400):
        next(corpus.endless_pairs(start))
    assert skips[::2] == [(300, 0), (200, 600), (400, 0)]


def test_a_sample_of_the_texts(tmp_path):
    source, target = files(tmp_path, b"a\nb\nc\n", b"1\n2\n3\n")
    corpus = ParallelCorpus.from_files(source, target)
    assert list(corpus.sources(3)) == ["a", "b", "c"]
    assert list(corpus.targets(5)) == ["1", "2", "3"]
    assert list(corpus.targets(1)) == ["1"]
