"""Predict requests as JSON: TensorFlow Serving's REST format.

A request holds `instances` (row format: one value or object a batch element) or
`inputs` (column format: whole tensors); the answer has the same format.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

from tensorflow.core.framework import tensor_pb2

from serving import json_values
from serving.errors import ServingError, invalid_argument


def parse_body(body: bytes) -> dict[str, Any]:
    """Returns the JSON object in `body`.

    Raises:
        ServingError: INVALID_ARGUMENT, `body` is empty, no JSON, or no object.
    """
    if not body:
        raise invalid_argument("JSON Parse error: The document is empty")
    try:
        document = json.loads(body)
    except json.JSONDecodeError as error:
        raise invalid_argument(
            f"JSON Parse error: {error.msg} at offset: {error.pos}"
        ) from error
    except UnicodeDecodeError as error:
        raise invalid_argument(
            f"JSON Parse error: Invalid encoding in string. at offset: {error.start}"
        ) from error
    except ValueError as error:
        raise invalid_argument(f"JSON Parse error: {error}") from error
    if b"\\u" in body:
        _check_surrogates(document)
    if not isinstance(document, dict):
        raise _format_error(document, "Is not object")
    return document


def signature_name(document: dict[str, Any]) -> str:
    """Returns the signature that a request names, "" when it names none."""
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        raise _format_error(
            document,
            "not formatted correctly. 'signature_name' key must be a string value.",
        )
    return name


def is_row_format(document: dict[str, Any]) -> bool:
    """Returns True for `instances`, False for `inputs`.

    Raises:
        ServingError: INVALID_ARGUMENT, there are both or none.
    """
    if "instances" in document and "inputs" in document:
        raise _format_error(
            document,
            "Not formatted correctly expecting only one of 'inputs' or 'instances' "
            "keys to exist ",
        )
    if "instances" not in document and "inputs" not in document:
        raise invalid_argument("Missing 'inputs' or 'instances' key")
    return "instances" in document


def from_rows(
    document: dict[str, Any], dtypes: Mapping[str, int]
) -> dict[str, tensor_pb2.TensorProto]:
    """Returns the input tensors of a request in row format.

    Args:
        document: the request.
        dtypes: the dtype of each input of the signature.

    Raises:
        ServingError: INVALID_ARGUMENT, with the element that is wrong.
    """
    rows = document["instances"]
    if not isinstance(rows, list):
        raise _format_error(document, "Excepting 'instances' to be an list/array")
    if not rows:
        raise _format_error(document, "No values in 'instances' array")
    if len(dtypes) > 1 and not isinstance(rows[0], dict):
        raise invalid_argument(
            "instances is a plain list, but expecting list of objects as multiple "
            "input tensors required as per tensorinfo_map"
        )
    named = _is_object(rows[0])
    columns: dict[str, list[tensor_pb2.TensorProto]] = {name: [] for name in dtypes}
    for index, row in enumerate(rows):
        if _is_object(row) != named:
            raise invalid_argument(
                f"Expecting object but got list at item {index} of input list"
                if named
                else f"Expecting value/list but got object at item {index} of input "
                "list"
            )
        for name, value in row.items() if named else [(next(iter(dtypes)), row)]:
            where = f"element: {index} key: {name}" if named else f"element: {index}"
            try:
                _append_row(columns, name, value, dtypes)
            except ServingError as error:
                raise invalid_argument(
                    f"Failed to process {where} of 'instances' list. Error: "
                    f"{error.code.name}: {error.message}"
                ) from error
        if named and set(row) != set(dtypes):
            raise invalid_argument(
                f"Failed to process element: {index} of 'instances' list. JSON "
                f"object: {json_values.as_text(row)} keys must be equal to: "
                f"{','.join(sorted(dtypes))}"
            )
    return {name: _stacked(tensors) for name, tensors in columns.items()}


def from_columns(
    document: dict[str, Any], dtypes: Mapping[str, int]
) -> dict[str, tensor_pb2.TensorProto]:
    """Returns the input tensors of a request in column format.

    Args:
        document: the request.
        dtypes: the dtype of each input of the signature; other names are ignored.

    Raises:
        ServingError: INVALID_ARGUMENT, with what is missing or wrong.
    """
    inputs = document["inputs"]
    if not _is_object(inputs):
        if len(dtypes) > 1:
            raise invalid_argument(
                "inputs is a plain value/list, but expecting an object as multiple "
                "input tensors required as per tensorinfo_map"
            )
        inputs = {next(iter(dtypes)): inputs}
    tensors = {}
    for name, dtype in dtypes.items():
        if name not in inputs:
            raise invalid_argument(f"Missing named input: {name} in 'inputs' object.")
        tensors[name] = json_values.to_tensor(inputs[name], dtype)
    return tensors


def _check_surrogates(document: Any) -> None:
    # json accepts an escaped half of a surrogate pair, which is no Unicode text.
    try:
        json_values.as_text(document).encode("utf-8")
    except UnicodeEncodeError as error:
        raise invalid_argument(
            "JSON Parse error: The surrogate pair in string is invalid."
        ) from error


def _append_row(columns: dict, name: str, value: Any, dtypes: Mapping) -> None:
    """Adds one batch element; all of them must have the first one's shape."""
    if name not in dtypes:
        raise invalid_argument(f"JSON object: does not have named input: {name}")
    tensor = json_values.to_tensor(value, dtypes[name])
    if columns[name]:
        expected, got = _shape(columns[name][0]), _shape(tensor)
        if math.prod(expected) != math.prod(got):
            raise invalid_argument(
                f"Expecting tensor size: {math.prod(expected)} but got: "
                f"{math.prod(got)}"
            )
        if expected != got:
            raise invalid_argument(
                f"Expecting shape {_shape_text(expected)} but got: {_shape_text(got)}"
            )
    columns[name].append(tensor)


def _stacked(tensors: list[tensor_pb2.TensorProto]) -> tensor_pb2.TensorProto:
    """Returns the batch of tensors of one shape: their values one after the other."""
    batch = tensor_pb2.TensorProto()
    for tensor in tensors:
        batch.MergeFrom(tensor)
    batch.ClearField("tensor_shape")
    batch.tensor_shape.dim.add(size=len(tensors))
    batch.tensor_shape.dim.extend(tensors[0].tensor_shape.dim)
    return batch


def _is_object(value: Any) -> bool:
    return isinstance(value, dict) and not json_values.is_base64(value)


def _shape(tensor: tensor_pb2.TensorProto) -> list[int]:
    return [dim.size for dim in tensor.tensor_shape.dim]


def _shape_text(shape: list[int]) -> str:
    return f"[{','.join(map(str, shape))}]"


def _format_error(value: Any, problem: str) -> ServingError:
    return invalid_argument(f"JSON Value: {json_values.as_text(value)} {problem}")
