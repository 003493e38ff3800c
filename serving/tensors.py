"""TensorProto to and from numpy, as TensorFlow Serving reads and writes it."""

import grpc
import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

from serving.errors import ServingError
from serving.servable import dtype_name

# The typed field of each dtype, and the numpy dtype whose values it holds.
_FIELDS: dict[tf.DType, tuple[str, type | None]] = {
    tf.float32: ("float_val", None),
    tf.float64: ("double_val", None),
    tf.int8: ("int_val", None),
    tf.int16: ("int_val", None),
    tf.int32: ("int_val", None),
    tf.uint8: ("int_val", None),
    tf.uint16: ("int_val", None),
    tf.int64: ("int64_val", None),
    tf.uint32: ("uint32_val", None),
    tf.uint64: ("uint64_val", None),
    tf.bool: ("bool_val", None),
    tf.string: ("string_val", None),
    tf.float16: ("half_val", np.uint16),
    tf.bfloat16: ("half_val", np.uint16),
    tf.complex64: ("scomplex_val", np.float32),
    tf.complex128: ("dcomplex_val", np.float64),
}


def from_proto(proto: tensor_pb2.TensorProto) -> np.ndarray:
    """Returns the array in `proto`, decoded by the runtime's own parser.

    The parser takes `tensor_content` (of strings too) and typed fields, and fills
    up with the last value given, or zeros, where there are too few.

    Args:
        proto: any TensorProto from a client.

    Returns:
        The array; strings as an object array of bytes.

    Raises:
        ValueError: `proto` is no valid tensor.
    """
    try:
        tensor = tf.io.parse_tensor(proto.SerializeToString(), proto.dtype)
    except (tf.errors.OpError, TypeError) as error:
        raise ValueError(f"Not a valid tensor: {error}") from error
    value = tensor.numpy()
    # A scalar string comes back as plain bytes.
    return np.array(value, dtype=object) if isinstance(value, bytes) else value


def to_proto(array: np.ndarray) -> tensor_pb2.TensorProto:
    """Returns `array` as a TensorProto with typed fields, never `tensor_content`.

    Args:
        array: numbers, booleans, or bytes objects, of any shape.

    Raises:
        ServingError: UNIMPLEMENTED for a dtype that has no typed field here.
    """
    array = np.asarray(array)
    dtype = tf.as_dtype(array.dtype)
    if dtype not in _FIELDS:
        raise ServingError(
            grpc.StatusCode.UNIMPLEMENTED,
            f"Output of dtype {dtype_name(dtype)} is not supported.",
        )
    field, stored_as = _FIELDS[dtype]
    proto = tensor_pb2.TensorProto(dtype=dtype.as_datatype_enum)
    proto.tensor_shape.dim.extend(
        tensor_pb2.TensorProto().tensor_shape.Dim(size=size) for size in array.shape
    )
    values = array.ravel()
    if stored_as is not None:
        values = values.view(stored_as)
    getattr(proto, field).extend(values.tolist())
    return proto
