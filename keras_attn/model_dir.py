"""The files of a MODEL_DIR: `config.json` and `model.keras`."""

import json
import pathlib

import keras

from keras_attn import files

FORMAT_VERSION = 1


def write_config(directory: pathlib.Path, max_source_length: int) -> None:
    """Write `config.json`."""
    config = {"format_version": FORMAT_VERSION, "max_source_length": max_source_length}
    files.write_text_atomically(
        directory / "config.json", json.dumps(config, indent=1) + "\n"
    )


def read_config(directory: pathlib.Path) -> dict:
    """Read and check `config.json`.

    Raises:
        FileNotFoundError: there is none.
        ValueError: it is corrupt or of another format version.
    """
    path = directory / "config.json"
    if not path.exists():
        raise FileNotFoundError(
            f"Not a model directory: {directory} holds no config.json. Expected the "
            "--model_dir of a training run, or what Translator.save wrote."
        )
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        version, _ = config["format_version"], config["max_source_length"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"Corrupt file {path}: {error!r}") from error
    if version != FORMAT_VERSION:
        raise ValueError(
            f"Unsupported model directory {directory}. Expected format version "
            f"{FORMAT_VERSION}. Received: {version!r}, written by another version of "
            "keras_attn."
        )
    return config


def read_model(directory: pathlib.Path) -> keras.Model:
    """Read `model.keras`, uncompiled.

    Raises:
        FileNotFoundError: there is none.
        ValueError: it cannot be read.
    """
    path = directory / "model.keras"
    if not path.exists():
        raise FileNotFoundError(
            f"Model file not found: {path}. {directory} holds a run that has saved "
            "no model yet; let its training finish an epoch."
        )
    try:
        return keras.saving.load_model(path, compile=False)
    # Keras raises whatever the reader of the broken part raises.
    except Exception as error:
        raise ValueError(f"Corrupt or foreign model file {path}: {error}") from error
