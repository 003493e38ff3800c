"""GetModelMetadata and GetModelStatus over gRPC: one case a rule."""

import grpc
import pytest
from google.protobuf import text_format
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2

INVALID = grpc.StatusCode.INVALID_ARGUMENT
NOT_FOUND = grpc.StatusCode.NOT_FOUND


@pytest.fixture(scope="module")
def stubs(numbers, connect):
    return connect(numbers.port)


def check_refused(call, request, status, message):
    with pytest.raises(grpc.RpcError) as refused:
        call(request, timeout=20)
    assert (refused.value.code(), refused.value.details()) == (status, message)


FIELD = 'metadata_field: "signature_def"'
METADATA_ERRORS = [
    ("no_spec_first", "", INVALID, "Missing ModelSpec"),
    (
        "no_field",
        'model_spec { name: "other" }',
        INVALID,
        "GetModelMetadataRequest must specify at least one metadata_field",
    ),
    (
        "unknown_field",
        'model_spec { name: "other" } metadata_field: ["signature_def", "graph"]',
        INVALID,
        "Metadata field graph is not supported",
    ),
    (
        "no_name",
        "model_spec {}" + FIELD,
        INVALID,
        "ModelSpec has no name specified.",
    ),
    (
        "unknown_model",
        'model_spec { name: "other" }' + FIELD,
        NOT_FOUND,
        "Servable not found for request: Latest(other)",
    ),
    (
        "unknown_version",
        'model_spec { name: "numbers" version { value: 9 } }' + FIELD,
        NOT_FOUND,
        "Servable not found for request: Specific(numbers, 9)",
    ),
]


@pytest.mark.parametrize(
    ("request_text", "status", "message"),
    [pytest.param(*case[1:], id=case[0]) for case in METADATA_ERRORS],
)
def test_metadata_refuses(stubs, request_text, status, message):
    request = text_format.Parse(
        request_text, get_model_metadata_pb2.GetModelMetadataRequest()
    )
    check_refused(stubs[0].GetModelMetadata, request, status, message)


def test_metadata_holds_every_signature(stubs):
    request = text_format.Parse(
        'model_spec { name: "numbers" signature_name: "two" }' + FIELD,
        get_model_metadata_pb2.GetModelMetadataRequest(),
    )
    response = stubs[0].GetModelMetadata(request, timeout=20)
    spec = response.model_spec
    assert (spec.name, spec.version.value, spec.signature_name) == ("numbers", 7, "")
    signatures = get_model_metadata_pb2.SignatureDefMap()
    assert response.metadata["signature_def"].Unpack(signatures)
    assert {"serving_default", "two", "__saved_model_init_op"} <= set(
        signatures.signature_def
    )
    default = signatures.signature_def["serving_default"]
    assert default.method_name == "tensorflow/serving/predict"
    assert default.inputs["x"].name == "serving_default_x:0"
    assert [d.size for d in default.inputs["x"].tensor_shape.dim] == [-1]


# GetModelStatus

STATUS_ERRORS = [
    ("no_spec", "", INVALID, "Missing ModelSpec"),
    (
        "unknown_version",
        'model_spec { name: "numbers" version { value: 9 } }',
        NOT_FOUND,
        "Could not find version 9 of model numbers",
    ),
    (
        "unknown_version_of_unknown_model",
        'model_spec { name: "other" version { value: 9 } }',
        NOT_FOUND,
        "Could not find version 9 of model other",
    ),
    (
        "unknown_model",
        'model_spec { name: "other" }',
        NOT_FOUND,
        "Could not find any versions of model other",
    ),
    (
        "empty_name",
        "model_spec {}",
        NOT_FOUND,
        "Could not find any versions of model ",
    ),
]


@pytest.mark.parametrize(
    ("request_text", "status", "message"),
    [pytest.param(*case[1:], id=case[0]) for case in STATUS_ERRORS],
)
def test_status_refuses(stubs, request_text, status, message):
    request = text_format.Parse(
        request_text, get_model_status_pb2.GetModelStatusRequest()
    )
    check_refused(stubs[1].GetModelStatus, request, status, message)


@pytest.mark.parametrize(
    "choice", ["", "version { value: 7 }", 'version_label: "ignored"']
)
def test_status_of_the_loaded_version(stubs, choice):
    request = text_format.Parse(
        f'model_spec {{ name: "numbers" {choice} }}',
        get_model_status_pb2.GetModelStatusRequest(),
    )
    [status] = stubs[1].GetModelStatus(request, timeout=20).model_version_status
    assert status.version == 7
    assert status.state == get_model_status_pb2.ModelVersionStatus.AVAILABLE
    assert (status.status.error_code, status.status.error_message) == (0, "")
