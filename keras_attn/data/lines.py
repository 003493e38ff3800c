"""Lines of text files, checked in Python and streamed in C++, the same in both."""

import dataclasses
import gzip
import itertools
import os
import zlib
from collections.abc import Iterator

import tensorflow as tf

MAX_LINE_BYTES = 1_000_000
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class CorpusError(ValueError):
    """A text file that cannot be used; the message names the file and the line."""


@dataclasses.dataclass(frozen=True)
class Lines:
    """The lines of a UTF-8 file, or one tab-separated column of them.

    Lines end with a line feed. Carriage returns are left out wherever they stand, as
    `tf.data.TextLineDataset` does, and so is a byte order mark at the start of the
    file. A path that ends with `.gz` is read as gzip.

    Args:
        path: The file.
        column: The 0-based column, or None for whole lines.
        max_line_bytes: Longer lines are an error.
    """

    path: str
    column: int | None = None
    max_line_bytes: int = MAX_LINE_BYTES

    def __iter__(self) -> Iterator[str]:
        """Iterates over the text of the lines, checking each.

        Yields:
            The lines, or their column, as strings.

        Raises:
            CorpusError: The file cannot be read, or a line is too long, is not UTF-8
                or has too few columns.
        """
        for number, line in enumerate(self._raw_lines(), 1):
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise CorpusError(
                    f"Invalid UTF-8 in {self.path}, line {number}: {error.reason} at "
                    f"byte {error.start + 1} of the line"
                ) from error
            yield text if self.column is None else self._cell(text, number, self.column)

    def dataset(self) -> tf.data.Dataset:
        """Returns the strings of `__iter__` as a dataset that streams in C++.

        It checks nothing: iterate over the lines once before.
        """
        packed = self.path.endswith(".gz")
        lines = tf.data.TextLineDataset(
            self.path, compression_type="GZIP" if packed else None
        )
        if self._has_byte_order_mark():
            size = len(_BYTE_ORDER_MARK)
            first = lines.take(1).map(lambda line: tf.strings.substr(line, size, -1))
            lines = first.concatenate(lines.skip(1))
        if self.column is None:
            return lines
        return lines.map(lambda line: tf.strings.split(line, "\t")[self.column])

    def _raw_lines(self) -> Iterator[bytes]:
        """Iterates over the lines as bytes, at most one of them in memory."""
        # Room for a byte order mark and CR LF.
        most = self.max_line_bytes + len(_BYTE_ORDER_MARK) + 2
        try:
            with self._open() as file:
                for number in itertools.count(1):
                    raw = file.readline(most)
                    if not raw:
                        return
                    line = raw.removesuffix(b"\n").replace(b"\r", b"")
                    if number == 1:
                        line = line.removeprefix(_BYTE_ORDER_MARK)
                    cut = len(raw) == most and not raw.endswith(b"\n")
                    if cut or len(line) > self.max_line_bytes:
                        raise CorpusError(
                            f"Line too long in {self.path}, line {number}. Expected at "
                            f"most {self.max_line_bytes} bytes (max_line_bytes)."
                        )
                    yield line
        except FileNotFoundError as error:
            raise CorpusError(f"File not found: {self.path}") from error
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise CorpusError(
                f"Not a whole gzip file: {self.path} ({error}). Expected gzip because "
                "the name ends with .gz"
            ) from error
        except OSError as error:
            raise CorpusError(
                f"Cannot read {self.path}: {error.strerror or error}"
            ) from error

    def _open(self):
        return (
            gzip.open(self.path) if self.path.endswith(".gz") else open(self.path, "rb")
        )

    def _has_byte_order_mark(self) -> bool:
        with self._open() as file:
            return file.read(len(_BYTE_ORDER_MARK)) == _BYTE_ORDER_MARK

    def _cell(self, text: str, number: int, column: int) -> str:
        cells = text.split("\t")
        if column >= len(cells):
            raise CorpusError(
                f"Too few columns in {self.path}, line {number}. Expected at least "
                f"{column + 1} tab-separated columns. Received: {len(cells)}"
            )
        return cells[column]


def read_lines(
    path: str | os.PathLike,
    *,
    allow_empty: bool = False,
    max_line_bytes: int = MAX_LINE_BYTES,
) -> list[str]:
    """Reads the lines of a UTF-8 text file, plain or gzip (`.gz`).

    Args:
        path: The file to read.
        allow_empty: Whether a file without a line is fine.
        max_line_bytes: Longer lines are an error.

    Returns:
        The lines, without line ends and without a byte order mark.

    Raises:
        CorpusError: The file is missing, unreadable or empty, or a line of it is too
            long or not UTF-8. The message names the file and the line.
    """
    lines = list(Lines(os.fspath(path), max_line_bytes=max_line_bytes))
    if not lines and not allow_empty:
        raise CorpusError(f"Empty file: {os.fspath(path)}. Expected at least one line")
    return lines
