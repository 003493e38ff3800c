"""What the gRPC services do beside Predict's checks."""

import time
from concurrent import futures

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import (
    classification_pb2,
    inference_pb2,
    model_management_pb2,
    predict_pb2,
    regression_pb2,
)

from serving.errors import truncated
from serving.grpc_service import start_grpc
from serving.registry import Registry


@pytest.fixture(scope="module")
def stubs(numbers, connect):
    return connect(numbers.port)


def request(signature, **inputs):
    message = predict_pb2.PredictRequest()
    message.model_spec.name = "numbers"
    message.model_spec.signature_name = signature
    for name, value in inputs.items():
        message.inputs[name].CopyFrom(tf.make_tensor_proto(value))
    return message


@pytest.mark.parametrize(
    ("service", "method", "message"),
    [
        (0, "Classify", classification_pb2.ClassificationRequest()),
        (0, "Regress", regression_pb2.RegressionRequest()),
        (0, "MultiInference", inference_pb2.MultiInferenceRequest()),
        (1, "HandleReloadConfigRequest", model_management_pb2.ReloadConfigRequest()),
    ],
)
def test_calls_that_the_embedded_server_does_not_answer(
    stubs, service, method, message
):
    with pytest.raises(grpc.RpcError) as refused:
        getattr(stubs[service], method)(message, timeout=20)
    assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED
    expected = f"{method} is not implemented by the embedded server."
    assert refused.value.details() == expected


def test_message_of_more_than_4_mib_both_ways(stubs):
    x = np.arange(2_000_000, dtype=np.float32)
    message = request("serving_default", x=x)
    assert message.ByteSize() > 4 * 2**20
    response = stubs[0].Predict(message, timeout=30)
    assert response.ByteSize() > 4 * 2**20
    np.testing.assert_array_equal(tf.make_ndarray(response.outputs["y"]), 2 * x)


def test_many_threads_get_their_own_answers(stubs):
    def ask(i):
        x = np.full(1 + i % 5, i, np.float32)
        answer = stubs[0].Predict(request("serving_default", x=x), timeout=30)
        return tf.make_ndarray(answer.outputs["y"]).tolist()

    with futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(ask, range(200)))
    assert answers == [[2.0 * i] * (1 + i % 5) for i in range(200)]


def test_deadline_ends_the_run_on_the_server(numbers, stubs):
    with pytest.raises(grpc.RpcError) as refused:
        stubs[0].Predict(request("count", n=10**13), timeout=0.3)
    assert refused.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    # The version is in use until the run ends; the loop would take days.
    in_use = numbers.registry._models["numbers"]._loaded[7]
    deadline = time.monotonic() + 10
    while in_use.users and time.monotonic() < deadline:
        time.sleep(0.02)
    assert in_use.users == 0


def test_call_without_a_deadline_is_answered(stubs):
    answer = stubs[0].Predict(request("serving_default", x=[1.0]))
    assert list(answer.outputs["y"].float_val) == [2.0]


def test_long_message_is_cut_at_1024_bytes(stubs):
    with pytest.raises(grpc.RpcError) as refused:
        stubs[0].Predict(request("n" * 2000, x=[1.0]), timeout=20)
    start = 'Serving signature key "'
    expected = start + "n" * (1024 - len(start)) + "...TRUNCATED"
    assert refused.value.details() == expected


def test_cut_never_splits_a_character():
    assert truncated("ä" * 512) == "ä" * 512
    assert truncated("a" + "ä" * 512) == "a" + "ä" * 511 + "...TRUNCATED"


def test_half_precision_outputs(stubs):
    response = stubs[0].Predict(request("half", x=[1.5, -2.0]), timeout=20)
    assert tf.make_ndarray(response.outputs["y"]).tolist() == [1.5, -2.0]
    assert tf.make_ndarray(response.outputs["z"]).tolist() == [1.5, -2.0]


def test_bytes_come_back_as_they_were(stubs):
    text = [b"\xff\x00\xfe", b"", "π".encode()]
    response = stubs[0].Predict(request("strings", text=text), timeout=20)
    assert list(response.outputs["same"].string_val) == text


def test_port_in_use(numbers):
    with pytest.raises(OSError, match=f"Cannot listen on 127.0.0.1:{numbers.port}"):
        start_grpc(Registry([]), "127.0.0.1", numbers.port)


def test_ovmsclient_as_an_independent_client(translator):
    ovmsclient = pytest.importorskip("ovmsclient", reason="ovmsclient not installed")
    client = ovmsclient.make_grpc_client(f"127.0.0.1:{translator.port}")
    answer = client.predict(
        {"text": ["ein kleiner Hund"]}, "translator", model_version=1, timeout=20
    )
    assert answer["text"].tolist() == [b"Hund kleiner ein"]
    assert answer["attention"].shape == (1, 3, 4)
    status = client.get_model_status("translator", model_version=1)
    assert status[1]["state"] == "AVAILABLE"
    metadata = client.get_model_metadata("translator", model_version=1)
    assert metadata["inputs"]["text"]["dtype"] == "DT_STRING"
    with pytest.raises(ovmsclient.tfs_compat.base.errors.ModelNotFoundError):
        client.get_model_status("absent", model_version=1)
