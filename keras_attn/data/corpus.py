"""Parallel text in two files or in two columns of one."""

import itertools
import os
from collections.abc import Iterator
from typing import NoReturn, Self

from keras_attn.data.lines import MAX_LINE_BYTES, CorpusError, Lines, read_lines

__all__ = ["CorpusError", "ParallelCorpus", "read_lines"]


class ParallelCorpus:
    """Pairs of source and target text, read from their files whenever they are needed.

    Make one with `from_files` or `from_tsv`. That reads everything once, at constant
    memory, and raises `CorpusError` for what cannot be used. With `lazy` only the first
    pair is read, and every other checked when its turn comes, so that a corpus of any
    size is there at once. Files are UTF-8, plain or, when the name ends with `.gz`,
    gzip.

    Example:

    ```python
    corpus = ParallelCorpus.from_files("train.de", "train.en")
    tokenizer = WordTokenizer.train(corpus.sources(), vocabulary_size=8000)
    ```

    Args:
        source: The source lines.
        target: The target lines.
        lazy: Whether to check pairs when they are read, and not all of them now.

    Attributes:
        size: Number of pairs; None for a lazy corpus of which no end was found yet.
        empty_pairs: Number of pairs with an empty source or target; None for a lazy
            corpus.
    """

    def __init__(self, source: Lines, target: Lines, *, lazy: bool = False) -> None:
        self._source = source
        self._target = target
        # A pair, and the bytes of the two files at which it starts.
        self._known = (0, (0, 0))
        self.size: int | None = None
        self.empty_pairs: int | None = None
        if lazy:
            next(self.pairs())
        else:
            self.size, self.empty_pairs = self._check()

    @classmethod
    def from_files(
        cls,
        source: str | os.PathLike,
        target: str | os.PathLike,
        *,
        max_line_bytes: int = MAX_LINE_BYTES,
        lazy: bool = False,
    ) -> Self:
        """Reads pairs from two files of the same number of lines.

        Args:
            source: The file of source lines.
            target: The file of target lines.
            max_line_bytes: Longer lines are an error.
            lazy: Whether to check pairs when they are read, and not all of them now.

        Returns:
            The corpus.

        Raises:
            CorpusError: A file is missing, unreadable or empty, a line is too long or
                not UTF-8, or the numbers of lines differ.
        """
        return cls(
            Lines(os.fspath(source), None, max_line_bytes),
            Lines(os.fspath(target), None, max_line_bytes),
            lazy=lazy,
        )

    @classmethod
    def from_tsv(
        cls,
        path: str | os.PathLike,
        source_column: int = 0,
        target_column: int = 1,
        *,
        max_line_bytes: int = MAX_LINE_BYTES,
        lazy: bool = False,
    ) -> Self:
        """Reads pairs from two tab-separated columns; quotes have no meaning.

        Args:
            path: The file.
            source_column: The 0-based column of the source text.
            target_column: The 0-based column of the target text.
            max_line_bytes: Longer lines are an error.
            lazy: Whether to check pairs when they are read, and not all of them now.

        Returns:
            The corpus.

        Raises:
            CorpusError: The file is missing, unreadable or empty, or a line is too
                long, is not UTF-8 or has too few columns.
            ValueError: A column is negative.
        """
        if source_column < 0 or target_column < 0:
            raise ValueError(
                "Invalid value for argument `source_column` or `target_column`. "
                "Expected 0-based columns. Received: "
                f"source_column={source_column}, target_column={target_column}"
            )
        return cls(
            Lines(os.fspath(path), source_column, max_line_bytes),
            Lines(os.fspath(path), target_column, max_line_bytes),
            lazy=lazy,
        )

    def __len__(self) -> int:
        if self.size is None:
            raise TypeError("The size of a lazy corpus is not known.")
        return self.size

    def sources(self, most: int | None = None) -> Iterator[str]:
        """Iterates over the source texts, reading the file anew.

        Args:
            most: The most texts to take, at a cost that does not grow with the corpus.
                Of more they are a sample spread evenly over the file, or the first of a
                gzip file. None takes all.
        """
        return iter(self._source) if most is None else self._source.sample(most)

    def targets(self, most: int | None = None) -> Iterator[str]:
        """Iterates over the target texts, as `sources` does over the others."""
        return iter(self._target) if most is None else self._target.sample(most)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Iterates over the pairs (source, target), reading the files anew.

        Raises:
            CorpusError: What a lazy corpus finds out only now.
        """
        return self._read((0, 0))

    def endless_pairs(self, start: int = 0) -> Iterator[tuple[str, str]]:
        """Iterates over the pairs round and round.

        The place where to start is found by counting line feeds from the start of the
        last call on, or from the start of the files if that was farther on: about 1 GB
        a second, or 0.2 GB where gzip has to be unpacked.

        Args:
            start: How many pairs to skip. It may be more than the corpus has.

        Yields:
            The pairs (source, target), without an end.

        Raises:
            CorpusError: What a lazy corpus finds out only now.
        """
        offsets = self._find(start)
        while True:
            yield from self._read(offsets)
            offsets = (0, 0)

    def _read(self, offsets: tuple[int, int]) -> Iterator[tuple[str, str]]:
        """Iterates over the pairs from a byte of the source and one of the target."""
        sources, targets = self._source.read(offsets[0]), self._target.read(offsets[1])
        none = True
        for source, target in itertools.zip_longest(sources, targets):
            if source is None or target is None:
                self._fail()
            none = False
            yield source, target
        if none and offsets == (0, 0):
            self._fail()

    def _find(self, pair: int) -> tuple[int, int]:
        """The bytes of the two files at which a pair starts, going round."""
        if self.size is not None:
            pair %= self.size
        known, offsets = self._known if self._known[0] <= pair else (0, (0, 0))
        sources, source_offset = self._source.skip(pair - known, offsets[0])
        targets, target_offset = self._target.skip(pair - known, offsets[1])
        if sources != targets:
            self._fail()
        if known + sources < pair:
            self.size = known + sources
            return self._find(pair)
        self._known = pair, (source_offset, target_offset)
        return self._known[1]

    def _check(self) -> tuple[int, int]:
        """Reads everything once; returns the numbers of pairs and of empty pairs."""
        size = empty = 0
        for source, target in self.pairs():
            size += 1
            empty += not (source and target)
        return size, empty

    def _fail(self) -> NoReturn:
        """Raises the error about files that do not have as many lines, or none."""
        sides = (self._source, self._target)
        counts = [lines.count() for lines in sides]
        for lines, count in zip(sides, counts, strict=True):
            if not count:
                raise CorpusError(
                    f"Empty file: {lines.path}. Expected at least one line"
                )
        raise CorpusError(
            "Source and target differ in their number of lines. Received: "
            f"{self._source.path}: {counts[0]} lines, "
            f"{self._target.path}: {counts[1]} lines"
        )
