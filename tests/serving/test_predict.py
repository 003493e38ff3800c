"""Predict over gRPC: one case a rule."""

import grpc
import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_serving.apis import predict_pb2

INVALID = grpc.StatusCode.INVALID_ARGUMENT
NOT_FOUND = grpc.StatusCode.NOT_FOUND
PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION

SPEC = 'model_spec { name: "numbers" }'
TWO = 'model_spec { name: "numbers" signature_name: "two" }'
WITH_DEFAULT = 'model_spec { name: "numbers" signature_name: "with_default" }'
STRINGS = 'model_spec { name: "numbers" signature_name: "strings" }'


def tensor(name, dtype="DT_FLOAT", values="float_val: 1", size=1):
    """Returns an input of rank 1 in protobuf's text format."""
    shape = f"tensor_shape {{ dim {{ size: {size} }} }}"
    return f'inputs {{ key: "{name}" value {{ dtype: {dtype} {shape} {values} }} }}'


X, A = tensor("x"), tensor("a")
B = tensor("b", "DT_INT32", "int_val: 1")

# id, request, status, exact message
PREDICT_ERRORS = [
    ("no_spec", X, INVALID, "Missing ModelSpec"),
    ("empty_spec", "model_spec {}", INVALID, "ModelSpec has no name specified."),
    (
        "no_name_before_label",
        'model_spec { version_label: "stable" }',
        INVALID,
        "ModelSpec has no name specified.",
    ),
    (
        "label_before_model",
        'model_spec { name: "other" version_label: "stable" }',
        INVALID,
        "Unrecognized servable version label: stable",
    ),
    (
        "unknown_model",
        'model_spec { name: "other" }',
        NOT_FOUND,
        "Servable not found for request: Latest(other)",
    ),
    (
        "unknown_model_with_version",
        'model_spec { name: "other" version { value: 7 } }',
        NOT_FOUND,
        "Servable not found for request: Specific(other, 7)",
    ),
    (
        "unknown_version",
        'model_spec { name: "numbers" version { value: 8 } }',
        NOT_FOUND,
        "Servable not found for request: Specific(numbers, 8)",
    ),
    (
        "explicit_version_0",
        'model_spec { name: "numbers" version {} }',
        NOT_FOUND,
        "Servable not found for request: Specific(numbers, 0)",
    ),
    (
        "model_before_signature",
        'model_spec { name: "other" signature_name: "absent" }',
        NOT_FOUND,
        "Servable not found for request: Latest(other)",
    ),
    (
        "unknown_signature",
        'model_spec { name: "numbers" signature_name: "absent" }' + tensor("wrong"),
        PRECONDITION,
        'Serving signature key "absent" not found.',
    ),
    (
        "no_inputs",
        TWO,
        INVALID,
        "input size does not match signature: 0!=2 len({}) != len({a,b}). "
        "Sent extra: {}. Missing but required: {a,b}.",
    ),
    (
        "too_few_inputs_before_parsing",
        TWO + tensor("z", values='tensor_content: "1"'),
        INVALID,
        "input size does not match signature: 1!=2 len({z}) != len({a,b}). "
        "Sent extra: {z}. Missing but required: {a,b}.",
    ),
    (
        "too_many_inputs",
        TWO + B + A + tensor("z") + tensor("c"),
        INVALID,
        "input size does not match signature: 4!=2 len({a,b,c,z}) != len({a,b}). "
        "Sent extra: {c,z}. Missing but required: {}.",
    ),
    (
        "wrong_input_name",
        SPEC + tensor("z"),
        INVALID,
        "Signature input alias: x(feed name: serving_default_x:0) not found in "
        "request and no default value provided. Inputs expected to be in the request "
        "{z}, or default input alias set: ",
    ),
    (
        "missing_input_without_default",
        WITH_DEFAULT + B,
        INVALID,
        "Signature input alias: a(feed name: with_default_a:0) not found in request "
        "and no default value provided. Inputs expected to be in the request {b}, or "
        "default input alias set: b",
    ),
    (
        "extra_name_beside_default",
        WITH_DEFAULT + A + tensor("z"),
        INVALID,
        "Inputs contains invalid name. Used request inputs: a, request input: a,z",
    ),
    (
        "more_inputs_than_signature_with_defaults",
        WITH_DEFAULT + A + B + tensor("z"),
        INVALID,
        "input size does not match signature: 3!=2 len({a,b,z}) != len({a,b}). "
        "Sent extra: {z}. Missing but required: {}.",
    ),
    (
        "broken_tensor_content",
        SPEC + tensor("x", values='tensor_content: "12345"'),
        INVALID,
        "tensor parsing error: x",
    ),
    (
        "no_dtype",
        SPEC + 'inputs { key: "x" value { float_val: 1 } }',
        INVALID,
        "tensor parsing error: x",
    ),
    (
        "negative_dimension",
        SPEC + tensor("x", size=-1),
        INVALID,
        "tensor parsing error: x",
    ),
    (
        "parsing_before_output_filter",
        SPEC + tensor("x", values='tensor_content: "1"') + 'output_filter: "z"',
        INVALID,
        "tensor parsing error: x",
    ),
    (
        "unknown_output",
        TWO + A + B + 'output_filter: ["total", "z"]',
        INVALID,
        "output tensor alias not found in signature: z Outputs expected to be in the "
        "set {double,total}.",
    ),
    (
        "duplicate_output",
        TWO + A + B + 'output_filter: ["total", "total"]',
        INVALID,
        "duplicate output tensor alias: total",
    ),
    (
        "output_filter_before_dtype",
        SPEC + tensor("x", "DT_STRING", 'string_val: "1"') + 'output_filter: "z"',
        INVALID,
        "output tensor alias not found in signature: z Outputs expected to be in the "
        "set {y}.",
    ),
    (
        "string_for_float",
        SPEC + tensor("x", "DT_STRING", 'string_val: "1"'),
        INVALID,
        "Expects arg[0] to be float but string is provided",
    ),
    (
        "double_for_float",
        SPEC + tensor("x", "DT_DOUBLE", "double_val: 1"),
        INVALID,
        "Expects arg[0] to be float but double is provided",
    ),
    (
        "half_for_int32_in_second_argument",
        TWO + A + tensor("b", "DT_HALF", "half_val: 1"),
        INVALID,
        "Expects arg[1] to be int32 but half is provided",
    ),
    (
        "float_for_string",
        STRINGS + tensor("text"),
        INVALID,
        "Expects arg[0] to be string but float is provided",
    ),
]


@pytest.fixture(scope="module")
def stubs(numbers, connect):
    return connect(numbers.port)


@pytest.fixture(scope="module")
def predict(stubs):
    def call(request):
        if isinstance(request, str):
            request = text_format.Parse(request, predict_pb2.PredictRequest())
        return stubs[0].Predict(request, timeout=20)

    return call


def check_refused(call, request, status, message):
    with pytest.raises(grpc.RpcError) as refused:
        call(request, timeout=20)
    assert (refused.value.code(), refused.value.details()) == (status, message)


@pytest.mark.parametrize(
    ("request_text", "status", "message"),
    [pytest.param(*case[1:], id=case[0]) for case in PREDICT_ERRORS],
)
def test_predict_refuses(stubs, request_text, status, message):
    request = text_format.Parse(request_text, predict_pb2.PredictRequest())
    check_refused(stubs[0].Predict, request, status, message)


def test_answer_names_version_and_default_signature(predict):
    response = predict(SPEC + tensor("x", values="float_val: [1, 2]", size=2))
    assert list(response.outputs["y"].float_val) == [2.0, 4.0]
    spec = response.model_spec
    assert (spec.name, spec.version.value) == ("numbers", 7)
    assert spec.signature_name == "serving_default"
    assert spec.WhichOneof("version_choice") == "version"


def test_version_may_be_given(predict):
    response = predict('model_spec { name: "numbers" version { value: 7 } }' + X)
    assert list(response.outputs["y"].float_val) == [2.0]


def test_all_outputs_by_default_and_only_those_asked_for(predict):
    assert set(predict(TWO + A + B).outputs) == {"total", "double"}
    assert set(predict(TWO + A + B + 'output_filter: "double"').outputs) == {"double"}


def test_default_value_is_used_and_can_be_replaced(predict):
    assert list(predict(WITH_DEFAULT + A).outputs["total"].float_val) == [11.0]
    assert list(predict(WITH_DEFAULT + A + B).outputs["total"].float_val) == [2.0]


def test_shape_in_the_signature_is_only_advice(predict):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "numbers"
    request.inputs["x"].CopyFrom(tf.make_tensor_proto([[1.0, 2.0], [3.0, 4.0]]))
    answer = tf.make_ndarray(predict(request).outputs["y"])
    np.testing.assert_array_equal(answer, [[2.0, 4.0], [6.0, 8.0]])


def test_operation_that_fails_answers_with_its_own_message(stubs):
    request = text_format.Parse(
        'model_spec { name: "numbers" signature_name: "at_most_one_row" }'
        + tensor("x", size=3),
        predict_pb2.PredictRequest(),
    )
    with pytest.raises(grpc.RpcError) as refused:
        stubs[0].Predict(request, timeout=20)
    assert refused.value.code() == INVALID
    message = refused.value.details()
    assert "[3] is not compatible with expected shape [1]." in message
    assert "Traceback" not in message
    assert "Graph execution error" not in message
    assert ".py" not in message


def test_typed_values_shorter_than_the_shape_repeat_the_last(predict):
    response = predict(SPEC + tensor("x", values="float_val: [1, 5]", size=4))
    assert list(response.outputs["y"].float_val) == [2.0, 10.0, 10.0, 10.0]


def test_tensor_content_is_read_and_never_written(predict):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "numbers"
    request.inputs["x"].CopyFrom(tf.make_tensor_proto(np.float32([1, 2, 3])))
    assert request.inputs["x"].tensor_content
    output = predict(request).outputs["y"]
    assert list(output.float_val) == [2.0, 4.0, 6.0]
    assert not output.tensor_content


def test_init_operation_is_no_signature_to_run(stubs):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "numbers"
    request.model_spec.signature_name = "__saved_model_init_op"
    message = "FetchOutputs node NoOp: not found"
    check_refused(stubs[0].Predict, request, INVALID, message)
