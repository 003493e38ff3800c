"""A server as a whole: versions swapped under load, ports, start and stop."""

import shutil
import socket
import threading
import time

import grpc
import httpx
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import get_model_status_pb2, predict_pb2
from tensorflow_serving.apis.model_pb2 import ModelSpec

from serving.errors import ServingError
from serving.model_server import ModelServer


def predict_request(signature="serving_default", **inputs):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "numbers"
    request.model_spec.signature_name = signature
    for name, value in inputs.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
    return request


def put(model, base, version):
    """Puts a version in place as an exporter does: complete, by a rename."""
    shutil.copytree(model, base / f".tmp-{version}")
    (base / f".tmp-{version}").rename(base / version)


def states(model_service):
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "numbers"
    name = get_model_status_pb2.ModelVersionStatus.State.Name
    answer = model_service.GetModelStatus(request, timeout=10)
    return [(s.version, name(s.state)) for s in answer.model_version_status]


def wait_for(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "condition did not come true in time"
        time.sleep(0.02)


@pytest.fixture
def polled(numbers_dir, tmp_path):
    put(numbers_dir, tmp_path, "1")
    server = ModelServer.start("numbers", tmp_path, port=0, poll_seconds=0.05)
    yield server
    server.stop()


def test_versions_are_swapped_without_a_failed_request(
    polled, triple_dir, tmp_path, connect
):
    prediction, model = connect(polled.port)
    answers, stop = [], threading.Event()

    def ask():
        while not stop.is_set():
            answer = prediction.Predict(predict_request(x=[1.0]), timeout=10)
            version = answer.model_spec.version.value
            answers.append((version, answer.outputs["y"].float_val[0]))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        put(triple_dir, tmp_path, "2")
        wait_for(lambda: states(model) == [(2, "AVAILABLE"), (1, "END")])
        done = len(answers)
        wait_for(lambda: len(answers) > done + 20)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert set(answers) == {(1, 2.0), (2, 3.0)}
    assert set(answers[done + 4 :]) == {(2, 3.0)}


def test_request_in_progress_finishes_on_the_old_version(
    polled, triple_dir, tmp_path, connect
):
    prediction, model = connect(polled.port)
    n = 100_000
    slow = prediction.Predict.future(predict_request("count", n=np.int64(n)))
    in_use = polled.registry._models["numbers"]._loaded[1]
    wait_for(lambda: in_use.users == 1)
    with polled.registry.use(ModelSpec(name="numbers")):
        put(triple_dir, tmp_path, "2")
        wait_for(lambda: states(model) == [(2, "AVAILABLE"), (1, "UNLOADING")])
        meanwhile = prediction.Predict(predict_request(x=[1.0]), timeout=10)
        assert meanwhile.model_spec.version.value == 2
    answer = slow.result(timeout=60)
    assert answer.model_spec.version.value == 1
    assert list(answer.outputs["i"].int64_val) == [n]
    wait_for(lambda: states(model) == [(2, "AVAILABLE"), (1, "END")])


def test_half_written_version_leaves_the_old_one(
    polled, numbers_dir, tmp_path, connect
):
    prediction, model = connect(polled.port)
    (tmp_path / "2").mkdir()
    wait_for(lambda: states(model) == [(2, "END"), (1, "AVAILABLE")])
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "numbers"
    status = model.GetModelStatus(request).model_version_status[0].status
    assert status.error_code == grpc.StatusCode.NOT_FOUND.value[0]
    assert status.error_message == (
        "Could not find SavedModel .pb or .pbtxt at supplied export directory path: "
        f"{tmp_path / '2'}"
    )
    answer = prediction.Predict(predict_request(x=[1.0]), timeout=10)
    assert answer.model_spec.version.value == 1


def test_stop_cancels_what_does_not_end(numbers_dir, tmp_path, connect, monkeypatch):
    monkeypatch.setattr("serving.model_server._GRACE_SECONDS", 0.2)
    put(numbers_dir, tmp_path, "1")
    server = ModelServer.start("numbers", tmp_path, port=0, rest_port=0)
    prediction, _ = connect(server.port)
    prediction.Predict(predict_request(x=[1.0]), timeout=10)
    endless = prediction.Predict.future(predict_request("count", n=10**13))
    model = server.registry._models["numbers"]
    wait_for(lambda: model._loaded[1].users == 1)
    in_use = model._loaded[1]
    server.stop()
    assert endless.exception().code() in {
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.UNAVAILABLE,
    }
    wait_for(lambda: in_use.users == 0)
    for port in (server.port, server.rest_port):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=5)


def test_taken_rest_port_leaves_nothing_running(numbers_dir, tmp_path, numbers):
    put(numbers_dir, tmp_path, "1")
    before = threading.active_count()
    with pytest.raises(OSError, match="for REST"):
        ModelServer.start(
            "numbers", tmp_path, port=0, rest_port=numbers.rest_port, poll_seconds=9
        )
    wait_for(lambda: threading.active_count() <= before)


def test_model_that_cannot_be_loaded_opens_no_port(tmp_path):
    (tmp_path / "1").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    with pytest.raises(
        ServingError, match=r"Version 1 of model numbers .* not be load"
    ):
        ModelServer.start("numbers", tmp_path, port=port)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def test_ipv6(numbers_dir, tmp_path, connect):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    put(numbers_dir, tmp_path, "1")
    server = ModelServer.start(
        "numbers", tmp_path, port=0, rest_port=0, bind_address="::1", poll_seconds=0
    )
    try:
        for port in (server.port, server.rest_port):
            socket.create_connection(("::1", port), timeout=5).close()
    finally:
        server.stop()


def test_large_batch_through_rest_and_grpc_agree(numbers, connect):
    x = np.float32(np.random.default_rng(0).normal(size=1000))
    prediction, _ = connect(numbers.port)
    answer = prediction.Predict(predict_request(x=x), timeout=20)
    url = f"http://127.0.0.1:{numbers.rest_port}/v1/models/numbers:predict"
    rows = httpx.post(url, json={"instances": x.tolist()}, timeout=20).json()
    np.testing.assert_array_equal(
        tf.make_ndarray(answer.outputs["y"]), np.float32(rows["predictions"])
    )
