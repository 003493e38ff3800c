"""Lines of text files, checked as they are read."""

import contextlib
import dataclasses
import gzip
import itertools
import os
import sys
import zlib
from collections.abc import Iterator
from typing import BinaryIO

MAX_LINE_BYTES = 1_000_000
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Read at once where lines are only counted.
_BLOCK_BYTES = 1 << 16
# Places of a file at which a sample is taken.
_SAMPLE_PLACES = 1000


class CorpusError(ValueError):
    """A text file that cannot be used; the message names the file and the line."""


@dataclasses.dataclass(frozen=True)
class Lines:
    """The lines of a UTF-8 file, or one tab-separated column of them.

    Lines end with a line feed. Carriage returns are left out wherever they stand, and
    so is a byte order mark at the start of the file. A path that ends with `.gz` is
    read as gzip.

    Args:
        path: The file.
        column: The 0-based column, or None for whole lines.
        max_line_bytes: Longer lines are an error.
    """

    path: str
    column: int | None = None
    max_line_bytes: int = MAX_LINE_BYTES

    def __iter__(self) -> Iterator[str]:
        """Iterates over the text of all lines, as `read` does."""
        return self.read()

    def read(self, offset: int = 0) -> Iterator[str]:
        """Iterates over the text of the lines from a place on, checking each.

        Args:
            offset: The byte at which the first line to read starts. In a gzip file it
                is one of the unpacked text, which has to be unpacked up to there.

        Yields:
            The lines, or their column, as strings.

        Raises:
            CorpusError: The file cannot be read, or a line is too long, is not UTF-8
                or has too few columns.
        """
        for index, line in enumerate(self._raw_lines(offset)):
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise CorpusError(
                    f"Invalid UTF-8 in {self._place(offset, index)}: {error.reason} at "
                    f"byte {error.start + 1} of the line"
                ) from error
            if self.column is not None:
                cells = text.split("\t")
                if self.column >= len(cells):
                    raise CorpusError(
                        f"Too few columns in {self._place(offset, index)}. Expected at "
                        f"least {self.column + 1} tab-separated columns. Received: "
                        f"{len(cells)}"
                    )
                text = cells[self.column]
            yield text

    def skip(self, lines: int, offset: int = 0) -> tuple[int, int]:
        """Finds where a line starts. Reads without checking, about 1 GB a second.

        Args:
            lines: How many lines to skip.
            offset: The byte at which the first of them starts.

        Returns:
            How many lines were skipped, which is less than `lines` where the file ends
            before, and the byte behind them.
        """
        skipped, ended = 0, True
        with self._opened(offset) as file:
            while block := file.read(_BLOCK_BYTES):
                found = block.count(b"\n")
                if skipped + found >= lines:
                    end = 0
                    for _ in range(lines - skipped):
                        end = block.index(b"\n", end) + 1
                    return lines, offset + end
                skipped += found
                offset += len(block)
                ended = block.endswith(b"\n")
        # The last line may have no line feed.
        return skipped + (not ended), offset

    def count(self) -> int:
        """Counts the lines of the file, as `skip` does."""
        return self.skip(sys.maxsize)[0]

    def sample(self, most: int) -> Iterator[str]:
        """Iterates over a part of the lines, in order, checking each.

        The cost is that of reading `most` lines, however many the file has.

        Args:
            most: The most lines to take. Of a longer file they come from a thousand
                places spread evenly over it, a run of lines from each; of a longer gzip
                file, in which nothing can be found without reading what stands before
                it, they are the first.

        Yields:
            The lines, or their column, as strings.

        Raises:
            CorpusError: As `read` does.
        """
        if self._packed or self.skip(most + 1)[0] <= most:
            yield from itertools.islice(self, most)
            return
        size, places, end = os.path.getsize(self.path), min(_SAMPLE_PLACES, most), 0
        for place in range(places):
            run = most * (place + 1) // places - most * place // places
            start = max(size * place // places, end)
            if start:
                # The first line that starts there or behind.
                start = self.skip(1, start - 1)[1]
            yield from itertools.islice(self.read(start), run)
            end = self.skip(run, start)[1]

    def _raw_lines(self, offset: int) -> Iterator[bytes]:
        """Iterates over the lines as bytes, at most one of them in memory."""
        # Room for a byte order mark and CR LF.
        most = self.max_line_bytes + len(_BYTE_ORDER_MARK) + 2
        with self._opened(offset) as file:
            for index in itertools.count():
                raw = file.readline(most)
                if not raw:
                    return
                line = raw.removesuffix(b"\n").replace(b"\r", b"")
                if index == offset == 0:
                    line = line.removeprefix(_BYTE_ORDER_MARK)
                cut = len(raw) == most and not raw.endswith(b"\n")
                if cut or len(line) > self.max_line_bytes:
                    raise CorpusError(
                        f"Line too long in {self._place(offset, index)}. Expected at "
                        f"most {self.max_line_bytes} bytes (max_line_bytes)."
                    )
                yield line

    @contextlib.contextmanager
    def _opened(self, offset: int) -> Iterator[BinaryIO]:
        """Opens the file at a byte; what cannot be read in it is a `CorpusError`."""
        try:
            with self._open() as file:
                if offset:
                    file.seek(offset)
                yield file
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
        return gzip.open(self.path) if self._packed else open(self.path, "rb")

    @property
    def _packed(self) -> bool:
        return self.path.endswith(".gz")

    def _place(self, offset: int, index: int) -> str:
        """Names the line that is `index` lines behind the one at byte `offset`."""
        before = 0
        with self._opened(0) as file:
            while offset and (block := file.read(min(_BLOCK_BYTES, offset))):
                before += block.count(b"\n")
                offset -= len(block)
        return f"{self.path}, line {before + index + 1}"


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
