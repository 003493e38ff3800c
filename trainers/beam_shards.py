"""Input files as shards, and the files that shards become: `trainers.translate_beam`.

All files may be on any file system that Beam knows.
"""

import concurrent.futures
import contextlib
import dataclasses
import gzip
import hashlib
import json
import uuid
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from keras_attn.data import CorpusError

_FORMAT_VERSION = 1
_UNFINISHED = ".unfinished"
_CHUNK = 1 << 20
# Files looked at together, which may be far away.
_THREADS = 16


@dataclasses.dataclass(frozen=True)
class Shard:
    """A range of lines of one file.

    Attributes:
        index: its place among all shards, from 0.
        count: how many shards there are.
        path: the file.
        start: where the first line starts, in bytes of the unpacked file.
        lines: how many lines.
        first_line: the number of the first line in the file, from 1.
        first_id: the number of the first line in the whole input, from 0.
    """

    index: int
    count: int
    path: str
    start: int
    lines: int
    first_line: int
    first_id: int

    @property
    def name(self) -> str:
        # Names sort as the shards do, however many there are.
        digits = max(5, len(str(self.count)))
        return f"{self.index:0{digits}}-of-{self.count:0{digits}}"


@dataclasses.dataclass(frozen=True)
class Output:
    """The directory of a run.

    Attributes:
        directory: its path.
        format: "text" or "json".
        attention: whether JSON has the attention.
        gzip: whether the parts are gzip files.
    """

    directory: str
    format: str
    attention: bool
    gzip: bool

    def part(self, shard: Shard) -> str:
        """The file of the translations of a shard, which is done when it is there."""
        ending = {"text": ".txt", "json": ".jsonl"}[self.format]
        return self._path(f"part-{shard.name}{ending}{'.gz' if self.gzip else ''}")

    def dead_letters(self, shard: Shard) -> str:
        """The file of the lines of a shard that failed, if any did."""
        return self._path(f"dead-{shard.name}.jsonl")

    def write(self, path: str, text: str) -> None:
        """Write a file, which gets its name when it is complete.

        Args:
            path: the file, gzip when its name ends with .gz.
            text: the text, UTF-8.
        """
        # A runner may have a second worker do what it takes for lost.
        name = f"{uuid.uuid4().hex}-{FileSystems.split(path)[1]}"
        partial = FileSystems.join(self._path(_UNFINISHED), name)
        with FileSystems.create(partial) as file:
            file.write(text.encode("utf-8"))
        FileSystems.rename([partial], [path])

    def claim(self, **run: Any) -> None:
        """Make the directory that of a run, or find that it is already.

        Args:
            run: with the attributes, all that fixes the content of the files, as JSON
                values.

        Raises:
            ValueError: the directory is that of another run, or of something else.
        """
        path = self._path("run.json")
        run = {
            "format_version": _FORMAT_VERSION,
            "output_format": self.format,
            "attention": self.attention,
            "gzip": self.gzip,
            **run,
        }
        if not FileSystems.exists(path):
            [parts] = FileSystems.match([self._path("part-*")], limits=[1])
            if parts.metadata_list:
                raise ValueError(_other_run(self.directory, "parts but no run.json"))
            self.write(path, json.dumps(run, indent=2) + "\n")
            return
        try:
            with FileSystems.open(path) as file:
                there = dict(json.loads(file.read()))
        except (ValueError, TypeError) as error:
            what = f"a corrupt run.json ({error})"
            raise ValueError(_other_run(self.directory, what)) from error
        differing = [name for name, value in run.items() if there.get(name) != value]
        if differing:
            what = f"a run.json of another {', '.join(differing)}"
            raise ValueError(_other_run(self.directory, what))

    def missing(self, shards: list[Shard]) -> list[Shard]:
        """The shards that have no part yet, or one that lacks lines."""
        lines = _lines_of_files(map(self.part, shards))
        return [s for s, n in zip(shards, lines, strict=True) if n != s.lines]

    def count_dead_letters(self, shards: list[Shard]) -> int:
        """The number of lines that failed."""
        return sum(n or 0 for n in _lines_of_files(map(self.dead_letters, shards)))

    def tidy(self) -> None:
        """Delete what interrupted workers left unfinished."""
        path = self._path(_UNFINISHED)
        if FileSystems.exists(path):
            FileSystems.delete([path])

    def _path(self, name):
        return FileSystems.join(self.directory, name)


def _other_run(directory, what):
    return (
        "--output: Expected a new directory, or that of the same run. Received: "
        f"{directory}, which has {what}"
    )


def _lines_of_files(paths):
    """The numbers of line ends, None for a file that is missing or cut."""

    def count(path):
        try:
            if FileSystems.exists(path):
                return sum(chunk.count(b"\n") for chunk in _chunks(path))
        except CorpusError:
            pass
        return None

    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(count, paths))


@contextlib.contextmanager
def open_input(path: str) -> Iterator[BinaryIO]:
    """Open a file to read bytes, which are unpacked when its name ends with .gz."""
    with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as raw:
        if path.endswith(".gz"):
            with gzip.GzipFile(fileobj=raw) as unpacked:
                yield unpacked
        else:
            yield raw


def input_files(pattern: str) -> list[str]:
    """The files that match a pattern, sorted.

    Raises:
        CorpusError: there is none.
    """
    if FileSystems.exists(pattern):
        return [pattern]  # a name may have brackets
    [matched] = FileSystems.match([pattern])
    paths = sorted(metadata.path for metadata in matched.metadata_list)
    if not paths:
        raise CorpusError(f"File not found: {pattern}")
    return paths


def shards_of(paths: list[str], shard_lines: int) -> tuple[list[Shard], list[dict]]:
    """Divide files into shards, reading each file once.

    A file has one shard at least, be it of no line, and no shard is of two files.

    Args:
        paths: the files.
        shard_lines: the most lines of a shard.

    Returns:
        The shards in the order of the lines, and for each file `name`, `lines` and
        `sha256`, which tell it from others.

    Raises:
        CorpusError: a file cannot be read.
    """
    ranges, files, first_id = [], [], 0
    for path in paths:
        starts, lines, digest = _scan(path, shard_lines)
        for number, start in enumerate(starts):
            first = number * shard_lines
            size = min(shard_lines, lines - first)
            ranges.append((path, start, size, first + 1, first_id + first))
        first_id += lines
        name = FileSystems.split(path)[1]
        files.append({"name": name, "lines": lines, "sha256": digest})
    shards = [Shard(index, len(ranges), *rest) for index, rest in enumerate(ranges)]
    return shards, files


def _scan(path, shard_lines):
    """Where shards start, in bytes, the number of lines, and a digest of the file."""
    starts, lines, position, ended = [0], 0, 0, True
    digest = hashlib.sha256()
    for chunk in _chunks(path):
        digest.update(chunk)
        ends = np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n")) + 1
        # The ends of the lines with which a shard is full.
        full = ends[-(lines + 1) % shard_lines :: shard_lines]
        starts += (position + full).tolist()
        lines += len(ends)
        position += len(chunk)
        ended = chunk.endswith(b"\n")
    lines += not ended
    # Behind the last line starts no shard.
    return starts[: max(1, -(-lines // shard_lines))], lines, digest.hexdigest()


def _chunks(path):
    try:
        with open_input(path) as file:
            while chunk := file.read(_CHUNK):
                yield chunk
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise CorpusError(
            f"Not a whole gzip file: {path} ({error}). Expected gzip because the name "
            "ends with .gz"
        ) from error
    except OSError as error:
        raise CorpusError(f"Cannot read {path}: {error.strerror or error}") from error
