"""Predict answers as JSON: TensorFlow Serving's REST format."""

import base64
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from serving.errors import invalid_argument
from serving.servable import dtype_name

_WRITABLE = {
    tf.int8,
    tf.int16,
    tf.int32,
    tf.int64,
    tf.uint8,
    tf.uint32,
    tf.uint64,
    tf.float32,
    tf.float64,
    tf.bool,
    tf.string,
}


def to_json(outputs: Mapping[str, np.ndarray], row_format: bool) -> str:
    """Returns the JSON answer to a predict request.

    Args:
        outputs: the arrays by output name; strings as arrays of bytes.
        row_format: whether the request was in row format.

    Raises:
        ServingError: INVALID_ARGUMENT, an output cannot be written as JSON: its
            dtype, text that is not UTF-8, or, in rows, a batch size of its own.
    """
    if not outputs:
        raise invalid_argument("Cannot convert empty tensor map to JSON")
    if row_format:
        _check_batch_sizes(outputs)
    columns = {name: _json_value(name, array) for name, array in outputs.items()}
    if not row_format:
        only = next(iter(columns.values()))
        return _dump({"outputs": columns if len(columns) > 1 else only})
    rows = list(zip(*columns.values(), strict=True))
    if len(columns) > 1:
        return _dump(
            {"predictions": [dict(zip(columns, r, strict=True)) for r in rows]}
        )
    return _dump({"predictions": [row[0] for row in rows]})


def _check_batch_sizes(outputs: Mapping[str, np.ndarray]) -> None:
    expected = None
    for name, array in outputs.items():
        if array.ndim == 0:
            raise invalid_argument(f"Tensor name: {name} has no shape information ")
        if expected is not None and len(array) != expected:
            raise invalid_argument(
                f"Tensor name: {name} has inconsistent batch size: {len(array)} "
                f"expecting: {expected}"
            )
        expected = len(array)


def _json_value(name: str, array: np.ndarray) -> Any:
    """Returns an output as nested lists of what `json` can write."""
    dtype = tf.as_dtype(array.dtype)
    if dtype not in _WRITABLE:
        raise invalid_argument(
            f"Failed to write JSON value for tensor type: {dtype_name(dtype)}"
        )
    if dtype == tf.string:
        write = _write_bytes if name.endswith("_bytes") else _write_text
        array = np.vectorize(lambda value: write(name, value), otypes=[object])(array)
    elif dtype == tf.float32:
        # By way of its shortest decimal form: 0.2, not 0.20000000298023224.
        array = array.astype(np.str_).astype(np.float64)
    return array.tolist()


def _write_bytes(name: str, value: bytes) -> dict[str, str]:
    return {"b64": base64.b64encode(value).decode("ascii")}


def _write_text(name: str, value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise invalid_argument(
            f"Failed to write JSON value for tensor type: string. Output {name} is "
            "not valid UTF-8; raw bytes need an output whose name ends in _bytes."
        ) from error


def _dump(document: dict) -> str:
    return json.dumps(document, ensure_ascii=False)
