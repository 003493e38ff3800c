"""Lines as they are read, checked, skipped and sampled."""

import gzip
import itertools
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_attn.data import CorpusError, read_lines
from keras_attn.data.lines import Lines


def write(path, content):
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("name", ["text", "text.gz"])
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a\nb\n", ["a", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\rb\r\r\n\rc", ["ab", "c"]),
        (b"\xef\xbb\xbfa\nb\n", ["a", "b"]),
        (b"\xef\xbb\xbf\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["\ufeffa", "\ufeffb"]),
        (b"\xef\xbb\xbf\n", [""]),
        (b"\n\n a \n\n", ["", "", " a ", ""]),
        (
            "a\u2028b\x85c\x0bd\x0ce\x1cf\x00\n".encode(),
            ["a\u2028b\x85c\x0bd\x0ce\x1cf\x00"],
        ),
        (b"\n", [""]),
    ],
)
def test_lines_end_with_a_line_feed_and_nothing_else(tmp_path, name, content, expected):
    path = write(tmp_path / name, content)
    assert read_lines(path) == expected
    assert Lines(str(path)).count() == len(expected)


@settings(max_examples=100, deadline=None)
@given(
    text=st.text(
        st.one_of(
            st.sampled_from("\n\r\t\ufeff\u2028\x85 a漢"), st.characters(codec="utf-8")
        ),
        min_size=1,
    ),
    skipped=st.integers(0, 6),
)
def test_skipping_goes_where_reading_would(tmp_path_factory, text, skipped):
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(text.encode())
    lines = Lines(str(path))
    expected = list(lines)
    number, offset = lines.skip(skipped)
    assert number == min(skipped, len(expected))
    assert list(lines.read(offset)) == expected[number:]
    assert lines.skip(2, offset)[0] == min(2, len(expected) - number)


def test_gzip_of_several_members_is_read_to_its_end(tmp_path):
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(b"a\nb") + gzip.compress(b"c\nd\n"))
    assert read_lines(path) == ["a", "bc", "d"]


def test_columns_are_what_stands_between_tabs(tmp_path):
    path = write(tmp_path / "text", b'\xef\xbb\xbfa\t"b\r\n\t\t x \n')
    assert list(Lines(str(path), column=0)) == ["a", ""]
    assert list(Lines(str(path), column=1)) == ['"b', ""]


def test_an_empty_file_is_an_error_unless_allowed(tmp_path):
    path = write(tmp_path / "text", b"")
    with pytest.raises(CorpusError, match=f"Empty file: {path}"):
        read_lines(path)
    assert read_lines(path, allow_empty=True) == []


def test_an_error_is_a_value_error():
    assert issubclass(CorpusError, ValueError)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(CorpusError, match=f"File not found: {tmp_path / 'no'}$"):
        read_lines(tmp_path / "no")


def test_a_directory_is_named(tmp_path):
    with pytest.raises(CorpusError, match=f"Cannot read {tmp_path}: .*directory"):
        read_lines(tmp_path)


@pytest.mark.parametrize(
    ("content", "line", "byte"),
    [
        (b"a\nb\n\xff\n", 3, 1),
        (b"a\nbc\xc3\n", 2, 3),
        (b"\xff\xfea\x00", 1, 1),
        (b"ok\n\xed\xa0\x80\n", 2, 1),
    ],
)
def test_invalid_utf8_names_file_and_line(tmp_path, content, line, byte):
    path = write(tmp_path / "text", content)
    message = f"Invalid UTF-8 in {path}, line {line}: .* at byte {byte} of the line"
    with pytest.raises(CorpusError, match=message):
        read_lines(path)


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n"])
@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf", b"ab\n"])
def test_the_longest_line_is_allowed_and_no_longer_one(tmp_path, start, ending):
    fits = write(tmp_path / "fits", start + b"x" * 10 + ending)
    assert read_lines(fits, max_line_bytes=10)[-1] == "x" * 10
    long = write(tmp_path / "long", start + b"x" * 11 + ending)
    line = 2 if start == b"ab\n" else 1
    message = rf"Line too long in {long}, line {line}\. Expected at most 10 bytes"
    with pytest.raises(CorpusError, match=message):
        read_lines(long, max_line_bytes=10)


def test_a_line_of_carriage_returns_does_not_become_two(tmp_path):
    path = write(tmp_path / "text", b"\r" * 30 + b"\n")
    with pytest.raises(CorpusError, match="line 1"):
        read_lines(path, max_line_bytes=10)


@pytest.mark.parametrize("content", [b"plain text\n", gzip.compress(b"abc" * 999)[:-9]])
def test_what_is_no_whole_gzip_file_is_named(tmp_path, content):
    path = tmp_path / "text.gz"
    path.write_bytes(content)
    with pytest.raises(CorpusError, match=f"Not a whole gzip file: {path}"):
        read_lines(path)


def test_a_column_that_is_missing_names_file_and_line(tmp_path):
    path = write(tmp_path / "text", b"a\tb\na\n")
    message = rf"columns in {path}, line 2\. Expected at least 2 .* Received: 1"
    with pytest.raises(CorpusError, match=message):
        list(Lines(str(path), column=1))


@pytest.mark.parametrize("name", ["text", "text.gz"])
def test_skipping_works_over_many_blocks(tmp_path, name):
    path = write(tmp_path / name, b"".join(b"%d\n" % i for i in range(100_000)))
    lines = Lines(str(path))
    assert lines.skip(76_543) == (
        76_543,
        len("".join(map(str, range(76_543)))) + 76_543,
    )
    offset = lines.skip(76_543)[1]
    assert next(lines.read(offset)) == "76543"
    assert next(lines.read(lines.skip(10_000, offset)[1])) == "86543"
    assert lines.skip(30_000, offset) == (23_457, lines.skip(100_000)[1])


def test_an_error_behind_a_skip_names_its_line(tmp_path):
    path = write(tmp_path / "text", b"a\nb\nc\n\xff\n")
    lines = Lines(str(path))
    with pytest.raises(CorpusError, match=f"Invalid UTF-8 in {path}, line 4"):
        list(lines.read(lines.skip(2)[1]))


@pytest.mark.parametrize("name", ["text", "text.gz"])
@pytest.mark.parametrize("most", [5, 6, 1000])
def test_a_sample_of_a_file_that_is_not_longer_is_all_of_it(tmp_path, name, most):
    path = write(tmp_path / name, b"\xef\xbb\xbfa\nb\n\nlong line\ne")
    assert list(Lines(str(path)).sample(most)) == ["a", "b", "", "long line", "e"]


def test_a_sample_is_spread_over_the_file(tmp_path):
    numbers = [str(i) * (1 + i % 7) for i in range(20_000)]
    path = write(tmp_path / "text", "\n".join(numbers).encode())
    places = {text: i for i, text in enumerate(numbers)}
    for most in (700, 3000):
        taken = [places[text] for text in Lines(str(path)).sample(most)]
        assert taken == sorted(set(taken))
        assert 0.98 * most < len(taken) <= most
        assert max(b - a for a, b in itertools.pairwise(taken)) < 100
        assert taken[-1] > 19_900


def test_a_sample_of_a_longer_gzip_file_is_its_start(tmp_path):
    path = write(tmp_path / "text.gz", b"a\nb\nc\nd\n")
    assert list(Lines(str(path)).sample(3)) == ["a", "b", "c"]


def test_an_error_in_a_sample_names_its_line(tmp_path):
    lines = [b"a"] * 5000
    lines[2501] = b"\xff"
    path = write(tmp_path / "text", b"\n".join(lines))
    with pytest.raises(CorpusError, match=f"Invalid UTF-8 in {path}, line 2502"):
        list(Lines(str(path)).sample(4999))


def test_memory_is_constant_for_long_files_and_for_a_long_line(tmp_path):
    many = write(tmp_path / "many", b"a line of text\n" * 200_000)
    endless = write(tmp_path / "endless", b"x" * 20_000_000)
    tracemalloc.start()
    assert sum(1 for _ in Lines(str(many))) == 200_000
    assert Lines(str(endless)).skip(1) == (1, 20_000_000)
    with pytest.raises(CorpusError, match="too long"):
        list(Lines(str(endless), max_line_bytes=1000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000
