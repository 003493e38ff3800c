"""Reading texts from a file or standard input, and writing them back."""

import contextlib
import gzip
import io
import os
import pathlib
import re
import sys
from collections.abc import Callable, Iterator
from typing import TextIO

from keras_attn.data.lines import Lines
from keras_attn.files import write_atomically
from trainers import flags as common


class _StandardInput(Lines):
    """Standard input, read and checked as a file is."""

    def _open(self):
        return contextlib.nullcontext(sys.stdin.buffer)


def read_texts(path: str) -> list[str]:
    """The lines of a UTF-8 file, of a gzip file (.gz) or, for "-", of standard input.

    Raises:
        ValueError: they cannot be read; the message names the file and the line.
    """
    return list(_StandardInput("standard input") if path == "-" else Lines(path))


def check_output(flag: str, path: str) -> None:
    """Check, before there is work to lose, that `write_texts` can write to a place.

    Raises:
        ValueError: it cannot.
    """
    if path == "-":
        return
    parent = os.path.dirname(os.path.realpath(path))
    if os.path.isdir(path):
        raise ValueError(f"--{flag}: Expected a file. Received: {path}, a directory")
    if not os.path.isdir(parent):
        raise ValueError(
            f"--{flag}: Expected a file in an existing directory. Received: {path}; "
            f"there is no directory {parent}"
        )
    common.check_directory(flag, parent)


def write_texts(path: str, write: Callable[[TextIO], object]) -> None:
    """Write UTF-8 text to a file, to a gzip file (.gz) or, for "-", to standard output.

    A file gets its name when it is complete: a failure leaves an older one as it was.

    Args:
        path: where to write.
        write: called once with the open file.
    """

    def write_file(place: str | os.PathLike) -> None:
        with _open(place) as file:
            write(file)

    if path == "-":
        write(sys.stdout)
    elif os.path.exists(path) and not os.path.isfile(path):
        write_file(path)  # a pipe or a device, not a file to be replaced
    else:
        write_atomically(pathlib.Path(os.path.realpath(path)), write_file)


@contextlib.contextmanager
def _open(path: str | os.PathLike) -> Iterator[TextIO]:
    if not os.fspath(path).endswith(".gz"):
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            yield file
        return
    # With neither name nor time, the same texts make the same file.
    with (
        open(path, "wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,
        io.TextIOWrapper(packed, encoding="utf-8", newline="\n") as file,
    ):
        yield file


def one_line(text: str) -> str:
    """The text with a space in place of line breaks, so that lines stay aligned."""
    return re.sub(r"[\r\n]+", " ", text)
