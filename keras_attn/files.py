"""Writing files so that a reader sees all of one or nothing of it."""

import os
import pathlib
import tempfile
from collections.abc import Callable


def write_atomically(
    path: str | os.PathLike, write: Callable[[pathlib.Path], object]
) -> None:
    """Write a file beside its place, then move it there.

    A failure at any moment leaves an older file at `path` as it was.

    Args:
        path: the file to write; its directory must exist.
        write: called with a path of the same ending, in the same directory.
    """
    # A link stays a link: what it leads to is replaced.
    path = pathlib.Path(os.path.realpath(path))
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".tmp-", suffix=path.name)
    os.close(handle)
    partial = pathlib.Path(name)
    try:
        write(partial)
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        # mkstemp makes a file private; a saved run is as readable as its directory.
        partial.chmod(0o644)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def write_text_atomically(path: str | os.PathLike, text: str) -> None:
    """`write_atomically` of a text as UTF-8."""
    write_atomically(path, lambda partial: partial.write_text(text, encoding="utf-8"))
