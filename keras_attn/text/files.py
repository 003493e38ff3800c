"""The files of a saved tokenizer: `tokenizer.json` and one file of the kind."""

import json
import os
import pathlib
from typing import Any

from keras_attn.files import write_atomically

FORMAT_VERSION = 1


def config_path(directory: str | os.PathLike) -> pathlib.Path:
    """Returns the path of `tokenizer.json` in `directory`."""
    return pathlib.Path(directory) / "tokenizer.json"


def write(path: pathlib.Path, content: bytes) -> None:
    """Writes a file so that a reader sees all of it or none of it.

    Args:
        path: The file to write. Its directory must exist.
        content: The bytes of the file.
    """
    write_atomically(path, lambda partial: partial.write_bytes(content))


def read(path: pathlib.Path) -> bytes:
    """Reads a file of a saved tokenizer.

    Args:
        path: The file to read.

    Returns:
        The bytes of the file.

    Raises:
        FileNotFoundError: The file is missing; the message names it.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise FileNotFoundError(f"Tokenizer file not found: {path}") from error


def to_json(value: Any) -> bytes:
    """Encodes `value` as readable JSON; the same value gives the same bytes."""
    text = json.dumps(value, ensure_ascii=False, indent=0, sort_keys=True)
    return (text + "\n").encode("utf-8")


def read_json(path: pathlib.Path) -> Any:
    """Reads a JSON file of a saved tokenizer.

    Args:
        path: The file to read.

    Returns:
        The decoded value.

    Raises:
        FileNotFoundError: The file is missing; the message names it.
        ValueError: The file is not UTF-8 JSON; the message names it.
    """
    try:
        return json.loads(read(path).decode("utf-8"))
    except ValueError as error:
        raise ValueError(f"Corrupt tokenizer file {path}: {error}") from error


def write_config(
    directory: str | os.PathLike, kind: str, options: dict[str, Any]
) -> None:
    """Writes `tokenizer.json`.

    Args:
        directory: The directory to write into.
        kind: The name of the tokenizer kind.
        options: The constructor options of the kind, as JSON values.
    """
    config = {"kind": kind, "format_version": FORMAT_VERSION, "options": options}
    write(config_path(directory), to_json(config))


def read_config(directory: str | os.PathLike) -> dict[str, Any]:
    """Reads and checks `tokenizer.json`.

    Args:
        directory: A directory that a tokenizer was saved to.

    Returns:
        The dictionary with `"kind"`, `"format_version"` and `"options"`.

    Raises:
        FileNotFoundError: The file is missing; the message names it.
        ValueError: The file is corrupt or of another format version.
    """
    path = config_path(directory)
    config = read_json(path)
    keys = {"kind", "format_version", "options"}
    if not isinstance(config, dict) or not keys <= config.keys():
        raise ValueError(
            f"Corrupt tokenizer file {path}. Expected an object with the keys "
            f"{sorted(keys)}. Received: {config!r}"
        )
    if config["format_version"] != FORMAT_VERSION:
        raise ValueError(
            f"Unsupported format version in {path}. Expected: {FORMAT_VERSION}. "
            f"Received: format_version={config['format_version']!r}"
        )
    if not isinstance(config["options"], dict):
        raise ValueError(
            f"Corrupt tokenizer file {path}. Expected `options` to be an object. "
            f"Received: options={config['options']!r}"
        )
    return config
