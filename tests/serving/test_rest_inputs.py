"""The REST API: inputs that it refuses, one case a rule."""

import json

import httpx
import pytest

PREDICT = "/v1/models/numbers:predict"
TWO = {"signature_name": "two"}
STRINGS = {"signature_name": "strings"}
COUNT = {"signature_name": "count"}

# id, document, exact error, all with status 400
INPUT_ERRORS = [
    (
        "rows_of_values_for_two_inputs",
        TWO | {"instances": [1.0]},
        "instances is a plain list, but expecting list of objects as multiple input "
        "tensors required as per tensorinfo_map",
    ),
    (
        "object_then_value",
        TWO | {"instances": [{"a": 1.0, "b": 1}, 2.0]},
        "Expecting object but got list at item 1 of input list",
    ),
    (
        "value_then_object",
        {"instances": [1.0, {"x": 1.0}]},
        "Expecting value/list but got object at item 1 of input list",
    ),
    (
        "row_lacks_a_name",
        TWO | {"instances": [{"a": 1.0}]},
        "Failed to process element: 0 of 'instances' list. JSON object: "
        '{\n    "a": 1.0\n} keys must be equal to: a,b',
    ),
    (
        "row_has_a_name_too_many",
        TWO | {"instances": [{"a": 1.0, "b": 1, "c": 2}]},
        "Failed to process element: 0 key: c of 'instances' list. Error: "
        "INVALID_ARGUMENT: JSON object: does not have named input: c",
    ),
    (
        "ragged_rows",
        {"instances": [[1.0, 2.0], [3.0]]},
        "Failed to process element: 1 of 'instances' list. Error: INVALID_ARGUMENT: "
        "Expecting tensor size: 2 but got: 1",
    ),
    (
        "rows_of_other_shape",
        {"instances": [[[1.0, 2.0]], [[3.0], [4.0]]]},
        "Failed to process element: 1 of 'instances' list. Error: INVALID_ARGUMENT: "
        "Expecting shape [1,2] but got: [2,1]",
    ),
    (
        "ragged_within_a_row",
        {"instances": [[[1.0, 2.0], [3.0]]]},
        "Failed to process element: 0 of 'instances' list. Error: INVALID_ARGUMENT: "
        "Encountered list at unexpected size: 1 at level: 1 expected size: 2",
    ),
    (
        "value_beside_list",
        {"inputs": [[1.0], 2.0]},
        "JSON Value: 2.0 found at incorrect level: 2 in the JSON DOM. Expected at "
        "level: 2",
    ),
    (
        "list_beside_value",
        {"inputs": [1.0, [2.0]]},
        "Encountered list at unexpected level: 1 expected < 1",
    ),
    (
        "deeper_than_any_tensor",
        {"inputs": json.loads("[" * 300 + "1.0" + "]" * 300)},
        "Encountered list nested deeper than 254",
    ),
    (
        "columns_value_for_two_inputs",
        TWO | {"inputs": [1.0]},
        "inputs is a plain value/list, but expecting an object as multiple input "
        "tensors required as per tensorinfo_map",
    ),
    (
        "columns_lack_a_name",
        TWO | {"inputs": {"a": [1.0]}},
        "Missing named input: b in 'inputs' object.",
    ),
    (
        "text_for_float",
        {"inputs": ["1"]},
        'JSON Value: "1" Type: String is not of expected type: float',
    ),
    (
        "bool_for_float",
        {"inputs": [True]},
        "JSON Value: true Type: True is not of expected type: float",
    ),
    (
        "null_for_float",
        {"inputs": [None]},
        "JSON Value: null Type: Null is not of expected type: float",
    ),
    (
        "float_for_int32",
        TWO | {"inputs": {"a": [1.0], "b": [1.0]}},
        "JSON Value: 1.0 Type: Number is not of expected type: int32",
    ),
    (
        "int32_overflow",
        TWO | {"inputs": {"a": [1.0], "b": [2**31]}},
        "JSON Value: 2147483648 Type: Number is not of expected type: int32",
    ),
    (
        "int64_overflow",
        COUNT | {"inputs": 2**63},
        "JSON Value: 9223372036854775808 Type: Number is not of expected type: int64",
    ),
    (
        "integer_beyond_float",
        {"inputs": [2**24]},
        "Cannot convert JSON value: 16777216 to float without loss of precision.",
    ),
    (
        "decimal_beyond_float",
        {"inputs": [1e39]},
        "Cannot convert JSON value: 1e+39 to float without loss of precision.",
    ),
    (
        "number_for_text",
        STRINGS | {"inputs": [1]},
        "JSON Value: 1 Type: Number is not of expected type: string",
    ),
    (
        "b64_with_another_key",
        STRINGS | {"inputs": [{"b64": "YQ==", "c": 1}]},
        'JSON Value: {\n    "b64": "YQ==",\n    "c": 1\n} not formatted correctly for '
        "base64 data",
    ),
    (
        "b64_that_is_none",
        STRINGS | {"inputs": [{"b64": "*"}]},
        "Unable to base64 decode",
    ),
    (
        "scalar_output_in_rows",
        {"signature_name": "scalar", "instances": [1.0, 2.0]},
        "Tensor name: sum has no shape information ",
    ),
    (
        "outputs_of_different_batch_size",
        {"signature_name": "uneven", "instances": [1.0, 2.0]},
        "Tensor name: first has inconsistent batch size: 1 expecting: 2",
    ),
    (
        "half_output",
        {"signature_name": "half", "inputs": [1.0]},
        "Failed to write JSON value for tensor type: half",
    ),
]


@pytest.mark.parametrize(
    ("document", "message"),
    [pytest.param(*case[1:], id=case[0]) for case in INPUT_ERRORS],
)
def test_input_refused(numbers, document, message):
    url = f"http://127.0.0.1:{numbers.rest_port}{PREDICT}"
    response = httpx.post(url, content=json.dumps(document), timeout=30)
    assert (response.status_code, response.json()) == (400, {"error": message})
