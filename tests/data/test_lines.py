"""Lines as they are read, checked and streamed."""

import gzip
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_attn.data import CorpusError, read_lines
from keras_attn.data.lines import Lines


def streamed(path, **options):
    dataset = Lines(str(path), **options).dataset()
    return [line.decode("utf-8") for line in dataset.as_numpy_iterator()]


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
def test_lines_are_the_same_in_python_and_streamed(tmp_path, name, content, expected):
    path = write(tmp_path / name, content)
    assert read_lines(path) == expected
    assert streamed(path) == expected


@settings(max_examples=30, deadline=None)
@given(
    text=st.text(
        st.one_of(
            st.sampled_from("\n\r\t\ufeff\u2028\x85 a漢"), st.characters(codec="utf-8")
        ),
        min_size=1,
    )
)
def test_any_text_is_the_same_in_python_and_streamed(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(text.encode())
    assert streamed(path) == read_lines(path, allow_empty=True)


def test_gzip_of_several_members_is_read_to_its_end(tmp_path):
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(b"a\nb") + gzip.compress(b"c\nd\n"))
    assert read_lines(path) == ["a", "bc", "d"]
    assert streamed(path) == ["a", "bc", "d"]


def test_columns_are_the_same_in_python_and_streamed(tmp_path):
    path = write(tmp_path / "text", b'\xef\xbb\xbfa\t"b\r\n\t\t x \n')
    assert list(Lines(str(path), column=0)) == streamed(path, column=0) == ["a", ""]
    assert list(Lines(str(path), column=1)) == streamed(path, column=1) == ['"b', ""]


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


def test_memory_is_constant_for_long_files_and_for_a_long_line(tmp_path):
    many = write(tmp_path / "many", b"a line of text\n" * 200_000)
    endless = write(tmp_path / "endless", b"x" * 20_000_000)
    tracemalloc.start()
    assert sum(1 for _ in Lines(str(many))) == 200_000
    with pytest.raises(CorpusError, match="too long"):
        list(Lines(str(endless), max_line_bytes=1000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000
