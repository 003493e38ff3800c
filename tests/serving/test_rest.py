"""The REST API: what it answers."""

import base64
import json

import httpx
import pytest

from serving.rest import start_rest

PREDICT = "/v1/models/numbers:predict"
TWO = {"signature_name": "two"}
STRINGS = {"signature_name": "strings"}
COUNT = {"signature_name": "count"}


@pytest.fixture(scope="module")
def call(numbers):
    with httpx.Client(base_url=f"http://127.0.0.1:{numbers.rest_port}") as client:
        yield lambda method, path, body=b"": client.request(
            method, path, content=body, timeout=30
        )


@pytest.fixture(scope="module")
def predict(call):
    def post(document, path=PREDICT):
        response = call("POST", path, json.dumps(document).encode())
        assert response.status_code == 200, response.text
        return response.json()

    return post


def test_status(call):
    version = {
        "version": "7",
        "state": "AVAILABLE",
        "status": {"error_code": "OK", "error_message": ""},
    }
    for path in ["/v1/models/numbers", "/V1/Models/numbers/VERSIONS/07"]:
        response = call("GET", path)
        assert response.status_code == 200
        assert response.json() == {"model_version_status": [version]}


def test_metadata(call):
    answer = call("GET", "/v1/models/numbers/versions/7/metadata").json()
    assert answer["model_spec"] == {
        "name": "numbers",
        "signature_name": "",
        "version": "7",
    }
    assert list(answer["metadata"]) == ["signature_def"]
    assert list(answer["metadata"]["signature_def"]) == ["signature_def"]
    signatures = answer["metadata"]["signature_def"]["signature_def"]
    assert "__saved_model_init_op" in signatures
    x = signatures["serving_default"]["inputs"]["x"]
    assert (x["dtype"], x["name"]) == ("DT_FLOAT", "serving_default_x:0")
    shape = {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False}
    assert x["tensor_shape"] == shape


def test_rows_of_one_input_and_one_output(predict):
    assert predict({"instances": [1, 2.5]}) == {"predictions": [2.0, 5.0]}
    assert predict({"instances": [{"x": 1.0}]}) == {"predictions": [2.0]}
    nested = {"instances": [[[1.0], [2.0]], [[3.0], [4.0]]]}
    assert predict(nested)["predictions"] == [[[2.0], [4.0]], [[6.0], [8.0]]]


def test_rows_of_objects(predict):
    rows = [{"a": 0.5, "b": 1}, {"b": 2, "a": 1.5}]
    assert predict(TWO | {"instances": rows}) == {
        "predictions": [{"double": 2, "total": 1.5}, {"double": 4, "total": 3.5}]
    }


def test_columns(predict):
    assert predict({"inputs": [1.0, 2.0]}) == {"outputs": [2.0, 4.0]}
    assert predict({"inputs": {"x": [1.0], "unknown": "ignored"}}) == {"outputs": [2.0]}
    columns = TWO | {"inputs": {"a": [0.5], "b": [3]}}
    assert predict(columns) == {"outputs": {"double": [6], "total": [3.5]}}
    assert predict(COUNT | {"inputs": 5}) == {"outputs": 5}
    assert predict({"signature_name": "uneven", "inputs": [1.0, 2.0]}) == {
        "outputs": {"all": [1.0, 2.0], "first": [1.0]}
    }
    assert predict({"signature_name": "scalar", "inputs": [1.0, 2.0]}) == {
        "outputs": 3.0
    }
    assert predict({"inputs": []}) == {"outputs": []}


def test_version_in_the_path(predict):
    path = "/v1/models/numbers/versions/7:PREDICT"
    assert predict({"inputs": [1.0]}, path) == {"outputs": [2.0]}


def test_every_dtype_is_written_as_its_json_type(predict):
    answer = predict({"signature_name": "dtypes", "instances": [3.0]})["predictions"][0]
    assert answer.pop("bool") is True
    assert answer.pop("rank2") == [3.0]
    for name, value in answer.items():
        assert value == 3
        assert isinstance(value, float if name.startswith("float") else int), name


def test_floats_keep_their_form(call):
    body = b'{"inputs": [0.1, 1, 1e10, NaN, Infinity, -Infinity]}'
    text = call("POST", PREDICT, body).text
    expected = '{"outputs": [0.2, 2.0, 20000000000.0, NaN, Infinity, -Infinity]}'
    assert text == expected


def test_strings_and_bytes(predict):
    text = base64.b64encode("é".encode()).decode()
    answer = predict(STRINGS | {"instances": ["a€😀", {"b64": text}]})["predictions"]
    assert [row["same"] for row in answer] == ["a€😀", "é"]
    assert [row["same_bytes"] for row in answer] == [
        {"b64": base64.b64encode("a€😀".encode()).decode()},
        {"b64": text},
    ]


def test_output_that_is_not_utf8(call):
    body = json.dumps(STRINGS | {"inputs": [{"b64": "//8="}]}).encode()
    response = call("POST", PREDICT, body)
    assert response.status_code == 400
    assert response.json()["error"] == (
        "Failed to write JSON value for tensor type: string. Output same is not valid "
        "UTF-8; raw bytes need an output whose name ends in _bytes."
    )


def test_translation_with_its_attention(translator):
    response = httpx.post(
        f"http://127.0.0.1:{translator.rest_port}/v1/models/translator:predict",
        json={"instances": ["a b", ""]},
        timeout=30,
    )
    first, second = response.json()["predictions"]
    assert first == {
        "text": "b a",
        "tokens": ["b", "a"],
        "lengths": 2,
        "score": -2.0,
        "source_tokens": ["a", "b", "</s>"],
        "source_lengths": 3,
        "source_truncated": False,
        "attention": [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]],
    }
    assert (second["text"], second["lengths"]) == ("", 0)
    assert second["attention"] == [[0.0] * 3] * 2


def test_timeout(numbers):
    server = start_rest(numbers.registry, "127.0.0.1", 0, timeout_ms=100)
    try:
        response = httpx.post(
            f"http://127.0.0.1:{server.port}{PREDICT}",
            json=COUNT | {"inputs": 10**13},
            timeout=30,
        )
    finally:
        server.stop()
    assert response.status_code == 504
    assert response.json() == {"error": "Timed out waiting for notification"}


def test_port_in_use(numbers):
    with pytest.raises(OSError, match=f"Cannot listen on 127.0.0.1:{numbers.port} for"):
        start_rest(numbers.registry, "127.0.0.1", numbers.port, timeout_ms=100)
