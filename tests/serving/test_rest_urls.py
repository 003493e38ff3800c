"""The REST API: URLs and documents that it refuses, one case a rule."""

import httpx
import pytest

PREDICT = "/v1/models/numbers:predict"

# id, method, path, body, HTTP status, exact error
ERRORS = [
    ("outside_v1", "GET", "/", b"", 404, "Not found"),
    ("v1_root", "GET", "/v1/", b"", 400, "Malformed request: GET /v1/"),
    (
        "no_model",
        "GET",
        "/v1/models",
        b"",
        400,
        "Missing model name in request.",
    ),
    (
        "unknown_verb",
        "POST",
        "/v1/models/numbers:explain",
        b"{}",
        400,
        "Malformed request: POST /v1/models/numbers:explain",
    ),
    (
        "predict_by_get",
        "GET",
        PREDICT,
        b"",
        400,
        f"Malformed request: GET {PREDICT}",
    ),
    (
        "status_by_post",
        "POST",
        "/v1/models/numbers",
        b"{}",
        400,
        "Malformed request: POST /v1/models/numbers",
    ),
    (
        "put",
        "PUT",
        PREDICT,
        b"{}",
        400,
        f"Malformed request: PUT {PREDICT}",
    ),
    (
        "version_not_numeric",
        "GET",
        "/v1/models/numbers/versions/latest",
        b"",
        400,
        "Malformed request: GET /v1/models/numbers/versions/latest",
    ),
    (
        "version_too_large",
        "GET",
        "/v1/models/numbers/versions/9223372036854775808",
        b"",
        400,
        "Failed to convert version: 9223372036854775808 to numeric.",
    ),
    (
        "unknown_model_status",
        "GET",
        "/v1/models/other",
        b"",
        404,
        "Could not find any versions of model other",
    ),
    (
        "unknown_version_status",
        "GET",
        "/v1/models/numbers/versions/8",
        b"",
        404,
        "Could not find version 8 of model numbers",
    ),
    (
        "unknown_model_metadata",
        "GET",
        "/v1/models/other/metadata",
        b"",
        404,
        "Servable not found for request: Latest(other)",
    ),
    (
        "unknown_version_predict",
        "POST",
        "/v1/models/numbers/versions/8:predict",
        b'{"instances": [1.0]}',
        404,
        "Servable not found for request: Specific(numbers, 8)",
    ),
    (
        "label",
        "POST",
        "/v1/models/numbers/labels/stable:predict",
        b'{"instances": [1.0]}',
        400,
        "Unrecognized servable version label: stable",
    ),
    (
        "decoded_name",
        "POST",
        "/v1/models/a%2Fb%3Ac:predict",
        b'{"instances": [1.0]}',
        404,
        "Servable not found for request: Latest(a/b:c)",
    ),
    (
        "classify",
        "POST",
        "/v1/models/numbers:classify",
        b"{}",
        501,
        "Classify is not implemented by the embedded server.",
    ),
    (
        "regress",
        "POST",
        "/v1/models/numbers/versions/7:regress",
        b"{}",
        501,
        "Regress is not implemented by the embedded server.",
    ),
    (
        "empty_body",
        "POST",
        PREDICT,
        b"",
        400,
        "JSON Parse error: The document is empty",
    ),
    (
        "body_before_model",
        "POST",
        "/v1/models/other:predict",
        b"",
        400,
        "JSON Parse error: The document is empty",
    ),
    (
        "no_json",
        "POST",
        PREDICT,
        b'{"instances": [1.0',
        400,
        "JSON Parse error: Expecting ',' delimiter at offset: 18",
    ),
    (
        "body_not_utf8",
        "POST",
        PREDICT,
        b'{"inputs": "\xff"}',
        400,
        "JSON Parse error: Invalid encoding in string. at offset: 12",
    ),
    (
        "half_a_surrogate_pair",
        "POST",
        PREDICT,
        b'{"signature_name": "\\ud800", "instances": [1.0]}',
        400,
        "JSON Parse error: The surrogate pair in string is invalid.",
    ),
    (
        "nested_too_deeply",
        "POST",
        PREDICT,
        b'{"instances": ' + b"[" * 100_000,
        400,
        "JSON Parse error: nested too deeply",
    ),
    (
        "no_object",
        "POST",
        PREDICT,
        b"3",
        400,
        "JSON Value: 3 Is not object",
    ),
    (
        "signature_name_no_string",
        "POST",
        PREDICT,
        b'{"signature_name": 5}',
        400,
        'JSON Value: {\n    "signature_name": 5\n} not formatted correctly. '
        "'signature_name' key must be a string value.",
    ),
    (
        "unknown_signature",
        "POST",
        PREDICT,
        b'{"signature_name": "absent", "instances": [1.0]}',
        400,
        'Serving signature name: "absent" not found in signature def',
    ),
    (
        "signature_without_inputs",
        "POST",
        PREDICT,
        b'{"signature_name": "__saved_model_init_op", "instances": [1.0]}',
        400,
        "Failed to get input map for signature: __saved_model_init_op",
    ),
    (
        "neither_key",
        "POST",
        PREDICT,
        b'{"instance": [1.0]}',
        400,
        "Missing 'inputs' or 'instances' key",
    ),
    (
        "both_keys",
        "POST",
        PREDICT,
        b'{"instances": 1, "inputs": 1}',
        400,
        'JSON Value: {\n    "instances": 1,\n    "inputs": 1\n} '
        "Not formatted correctly expecting only one of 'inputs' or 'instances' keys "
        "to exist ",
    ),
    (
        "instances_no_list",
        "POST",
        PREDICT,
        b'{"instances": 1}',
        400,
        "JSON Value: {\n    \"instances\": 1\n} Excepting 'instances' to be an "
        "list/array",
    ),
    (
        "no_instances",
        "POST",
        PREDICT,
        b'{"instances": []}',
        400,
        "JSON Value: {\n    \"instances\": []\n} No values in 'instances' array",
    ),
    (
        "failing_operation",
        "POST",
        PREDICT,
        b'{"signature_name": "count", "inputs": [1, 2]}',
        400,
        None,
    ),
]


@pytest.fixture(scope="module")
def call(numbers):
    with httpx.Client(base_url=f"http://127.0.0.1:{numbers.rest_port}") as client:
        yield lambda method, path, body=b"": client.request(
            method, path, content=body, timeout=30
        )


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [pytest.param(*case[1:], id=case[0]) for case in ERRORS],
)
def test_refused(call, method, path, body, status, message):
    response = call(method, path, body)
    assert response.headers["content-type"] == "application/json"
    error = response.json()
    assert list(error) == ["error"]
    assert response.status_code == status
    assert message is None or error["error"] == message
