import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

from serving.errors import ServingError
from serving.tensors import from_proto, to_proto

ARRAYS = [
    ("float_val", np.float32([[1.5, -2], [np.inf, 4]])),
    ("double_val", np.float64([0.1])),
    ("int_val", np.int8([-128, 127])),
    ("int_val", np.int16([-5])),
    ("int_val", np.int32([2**31 - 1, -(2**31)])),
    ("int_val", np.uint8([255])),
    ("int_val", np.uint16([65535])),
    ("int64_val", np.int64([2**62])),
    ("uint32_val", np.uint32([2**32 - 1])),
    ("uint64_val", np.uint64([2**64 - 1])),
    ("bool_val", np.array([True, False])),
    ("half_val", np.float16([1.5, -0.25])),
    ("half_val", np.array([1.5, 3], ml_dtypes.bfloat16)),
    ("scomplex_val", np.complex64([1 + 2j, -3j])),
    ("dcomplex_val", np.complex128([1 + 2j])),
    ("string_val", np.array([[b"a", b"", b"\xff\x00"]], dtype=object)),
    ("float_val", np.float32(7)),
    ("float_val", np.zeros([0, 3], np.float32)),
]


@pytest.mark.parametrize(
    ("field", "array"), ARRAYS, ids=[f"{a.dtype}-{a.shape}" for _, a in ARRAYS]
)
def test_round_trip_through_the_typed_field(field, array):
    proto = to_proto(array)
    filled = {descriptor.name for descriptor, _ in proto.ListFields()}
    assert filled - {"dtype", "tensor_shape"} == ({field} if array.size else set())
    # TensorFlow's own reader and the server's agree on it.
    for value in (tf.make_ndarray(proto), from_proto(proto)):
        assert value.dtype == array.dtype
        assert value.shape == array.shape
        np.testing.assert_array_equal(value, array)


def test_scalar_string():
    value = from_proto(tf.make_tensor_proto("é"))
    assert (value.shape, value.dtype, value[()]) == ((), object, "é".encode())


def test_missing_values_are_zero():
    proto = tensor_pb2.TensorProto(dtype=tf.int32.as_datatype_enum)
    proto.tensor_shape.dim.add(size=2)
    np.testing.assert_array_equal(from_proto(proto), [0, 0])


@pytest.mark.parametrize("dtype", [0, 9999], ids=["invalid", "unknown"])
def test_dtype_that_is_none(dtype):
    with pytest.raises(ValueError, match="Not a valid tensor"):
        from_proto(tensor_pb2.TensorProto(dtype=dtype))


def test_dtype_without_a_typed_field():
    with pytest.raises(ServingError, match="Output of dtype float8_e5m2 is not"):
        to_proto(np.zeros(1, ml_dtypes.float8_e5m2))
