"""Parallel text in two files or in two columns of one."""

import itertools
import os
from collections.abc import Iterator
from typing import Self

import tensorflow as tf

from keras_attn.data.lines import MAX_LINE_BYTES, CorpusError, Lines, read_lines

__all__ = ["CorpusError", "ParallelCorpus", "read_lines"]


class ParallelCorpus:
    """Pairs of source and target text, checked once and then streamed.

    Make one with `from_files` or `from_tsv`. That reads everything once, at constant
    memory, and raises `CorpusError` for what cannot be used. Files are UTF-8, plain or,
    when the name ends with `.gz`, gzip.

    Example:

    ```python
    corpus = ParallelCorpus.from_files("train.de", "train.en")
    tokenizer = WordTokenizer.train(corpus.sources(), vocabulary_size=8000)
    ```

    Args:
        source: The source lines.
        target: The target lines.

    Attributes:
        size: Number of pairs.
        empty_pairs: Number of pairs with an empty source or target.
    """

    def __init__(self, source: Lines, target: Lines) -> None:
        self._source = source
        self._target = target
        self.size, self.empty_pairs = self._check()

    @classmethod
    def from_files(
        cls,
        source: str | os.PathLike,
        target: str | os.PathLike,
        *,
        max_line_bytes: int = MAX_LINE_BYTES,
    ) -> Self:
        """Reads pairs from two files of the same number of lines.

        Args:
            source: The file of source lines.
            target: The file of target lines.
            max_line_bytes: Longer lines are an error.

        Returns:
            The corpus.

        Raises:
            CorpusError: A file is missing, unreadable or empty, a line is too long or
                not UTF-8, or the numbers of lines differ.
        """
        return cls(
            Lines(os.fspath(source), None, max_line_bytes),
            Lines(os.fspath(target), None, max_line_bytes),
        )

    @classmethod
    def from_tsv(
        cls,
        path: str | os.PathLike,
        source_column: int = 0,
        target_column: int = 1,
        *,
        max_line_bytes: int = MAX_LINE_BYTES,
    ) -> Self:
        """Reads pairs from two tab-separated columns; quotes have no meaning.

        Args:
            path: The file.
            source_column: The 0-based column of the source text.
            target_column: The 0-based column of the target text.
            max_line_bytes: Longer lines are an error.

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
        )

    def __len__(self) -> int:
        return self.size

    def sources(self) -> Iterator[str]:
        """Iterates over the source texts, reading the file anew."""
        return iter(self._source)

    def targets(self) -> Iterator[str]:
        """Iterates over the target texts, reading the file anew."""
        return iter(self._target)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Iterates over the pairs (source, target), reading the files anew."""
        return zip(self._source, self._target, strict=True)

    def dataset(self) -> tf.data.Dataset:
        """Returns the strings of `pairs` as a dataset that streams in C++.

        Returns:
            A `tf.data.Dataset` of (source, target), two string scalars.
        """
        pairs = tf.data.Dataset.zip((self._source.dataset(), self._target.dataset()))
        return pairs.apply(tf.data.experimental.assert_cardinality(self.size))

    def _check(self) -> tuple[int, int]:
        """Reads everything once; returns the numbers of pairs and of empty pairs."""
        sources = targets = empty = 0
        for source, target in itertools.zip_longest(self._source, self._target):
            sources += source is not None
            targets += target is not None
            empty += source == "" or target == ""
        for lines, count in ((self._source, sources), (self._target, targets)):
            if not count:
                raise CorpusError(
                    f"Empty file: {lines.path}. Expected at least one line"
                )
        if sources != targets:
            raise CorpusError(
                "Source and target differ in their number of lines. Received: "
                f"{self._source.path}: {sources} lines, "
                f"{self._target.path}: {targets} lines"
            )
        return sources, empty
