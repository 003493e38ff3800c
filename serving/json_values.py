"""JSON values as tensors, and as the text of an error message."""

import base64
import binascii
import json
import math
from typing import Any

import grpc
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

from serving.errors import ServingError, invalid_argument
from serving.servable import dtype_name

# TensorFlow has no tensors of a higher rank.
_MAX_RANK = 254
_INT_RANGES = {
    tf.int8: ("int_val", -(2**31), 2**31),
    tf.int16: ("int_val", -(2**31), 2**31),
    tf.int32: ("int_val", -(2**31), 2**31),
    tf.uint8: ("int_val", -(2**31), 2**31),
    tf.int64: ("int64_val", -(2**63), 2**63),
    tf.uint32: ("uint32_val", 0, 2**32),
    tf.uint64: ("uint64_val", 0, 2**64),
}
_FLOATS = {tf.float32: "float_val", tf.float64: "double_val"}
_JSON_TYPES = {
    type(None): "Null",
    dict: "Object",
    list: "Array",
    str: "String",
    int: "Number",
    float: "Number",
}


def to_tensor(value: Any, dtype: int) -> tensor_pb2.TensorProto:
    """Returns a JSON value, scalar or nested lists, as a tensor."""
    tensor = tensor_pb2.TensorProto(dtype=dtype)
    inner = value
    while isinstance(inner, list):
        tensor.tensor_shape.dim.add(size=len(inner))
        if not inner:
            break
        inner = inner[0]
    if len(tensor.tensor_shape.dim) > _MAX_RANK:
        raise invalid_argument(f"Encountered list nested deeper than {_MAX_RANK}")
    _fill(tensor, value, 0, tf.as_dtype(dtype))
    return tensor


def _fill(
    tensor: tensor_pb2.TensorProto, value: Any, level: int, dtype: tf.DType
) -> None:
    shape = tensor.tensor_shape.dim
    if not isinstance(value, list):
        if level != len(shape):
            raise invalid_argument(
                f"JSON Value: {as_text(value)} found at incorrect level: {level + 1} "
                f"in the JSON DOM. Expected at level: {len(shape)}"
            )
        _add_value(tensor, value, dtype)
        return
    if level >= len(shape):
        raise invalid_argument(
            f"Encountered list at unexpected level: {level} expected < {len(shape)}"
        )
    if len(value) != shape[level].size:
        raise invalid_argument(
            f"Encountered list at unexpected size: {len(value)} at level: {level} "
            f"expected size: {shape[level].size}"
        )
    for item in value:
        _fill(tensor, item, level + 1, dtype)


def _add_value(tensor: tensor_pb2.TensorProto, value: Any, dtype: tf.DType) -> None:
    # `type` and not isinstance: JSON's true is no number, though Python's is.
    if dtype == tf.string:
        tensor.string_val.append(_string(value, dtype))
    elif dtype == tf.bool:
        if type(value) is not bool:
            raise _type_error(value, dtype)
        tensor.bool_val.append(value)
    elif dtype in _INT_RANGES:
        field, low, end = _INT_RANGES[dtype]
        if type(value) is not int or not low <= value < end:
            raise _type_error(value, dtype)
        getattr(tensor, field).append(value)
    elif dtype in _FLOATS:
        if type(value) not in (int, float):
            raise _type_error(value, dtype)
        if not _is_lossless(value, dtype):
            raise invalid_argument(
                f"Cannot convert JSON value: {as_text(value)} to {dtype_name(dtype)} "
                "without loss of precision."
            )
        getattr(tensor, _FLOATS[dtype]).append(value)
    else:
        raise ServingError(
            grpc.StatusCode.UNIMPLEMENTED,
            f"Conversion of JSON Value: {as_text(value)} to type: {dtype_name(dtype)}",
        )


def _string(value: Any, dtype: tf.DType) -> bytes:
    if isinstance(value, dict):
        if not is_base64(value):
            raise invalid_argument(
                f"JSON Value: {as_text(value)} not formatted correctly for base64 data"
            )
        try:
            return base64.b64decode(value["b64"], validate=True)
        except (binascii.Error, ValueError) as error:
            raise invalid_argument("Unable to base64 decode") from error
    if not isinstance(value, str):
        raise _type_error(value, dtype)
    return value.encode("utf-8")


def _is_lossless(value: int | float, dtype: tf.DType) -> bool:
    if isinstance(value, int):
        return abs(value) < 2 ** (24 if dtype == tf.float32 else 53)
    return not math.isfinite(value) or abs(value) <= float(dtype.max)


def is_base64(value: dict) -> bool:
    return len(value) == 1 and isinstance(value.get("b64"), str)


def as_text(value: Any) -> str:
    return json.dumps(value, indent=4, ensure_ascii=False)


def _type_error(value: Any, dtype: tf.DType) -> ServingError:
    kind = str(value) if isinstance(value, bool) else _JSON_TYPES[type(value)]
    return invalid_argument(
        f"JSON Value: {as_text(value)} Type: {kind} is not of expected type: "
        f"{dtype_name(dtype)}"
    )
