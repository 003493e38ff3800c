"""`python -m serving.server` as a process."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys

import grpc
import httpx
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2

from serving.server import base_path_problem

COMMAND = [sys.executable, "-m", "serving.server"]


def run(*arguments):
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=60
    )


def test_serves_until_a_signal(numbers_dir, tmp_path, connect):
    shutil.copytree(numbers_dir, tmp_path / "3")
    process = subprocess.Popen(
        [
            *COMMAND,
            "--model_name=numbers",
            f"--model_base_path={tmp_path}",
            "--port=0",
            f"--rest_api_port={free_port()}",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        grpc_line, rest_line = process.stdout.readline(), process.stdout.readline()
        running = re.fullmatch(
            r"Running gRPC ModelServer at 127\.0\.0\.1:(\d+) \.\.\.\n", grpc_line
        )
        exporting = re.fullmatch(
            r"Exporting HTTP/REST API at 127\.0\.0\.1:(\d+) \.\.\.\n", rest_line
        )
        request = predict_pb2.PredictRequest()
        request.model_spec.name = "numbers"
        request.inputs["x"].CopyFrom(tf.make_tensor_proto([4.0]))
        # The port is open as soon as it is announced.
        answer = connect(running[1])[0].Predict(request, timeout=10)
        assert list(answer.outputs["y"].float_val) == [8.0]
        url = f"http://127.0.0.1:{exporting[1]}/v1/models/numbers"
        [version] = httpx.get(url, timeout=10).json()["model_version_status"]
        assert (version["version"], version["state"]) == ("3", "AVAILABLE")
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert out == "Stopping.\n"
    assert f"Loaded model numbers version 3 from {tmp_path / '3'}\n" in err
    assert "Traceback" not in err
    with pytest.raises(grpc.RpcError):
        connect(running[1])[0].Predict(request, timeout=5)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def test_base_path_problems(tmp_path):
    absent = tmp_path / "absent"
    assert base_path_problem(str(absent)) == (
        "Invalid value for --model_base_path. Expected a directory with one numeric "
        f"directory a version. Received: {absent} (No such file or directory)"
    )
    file = tmp_path / "file"
    file.touch()
    assert base_path_problem(str(file)).endswith(f"{file} (Not a directory)")
    assert base_path_problem(str(tmp_path)) == (
        f"No versions found under --model_base_path {tmp_path}. Expected directories "
        f"with a number as their name, such as {tmp_path / '1'}. Export a model there "
        "first."
    )
    (tmp_path / "1").mkdir()
    assert base_path_problem(str(tmp_path)) is None


def test_missing_base_path_ends_the_program(tmp_path):
    finished = run(f"--model_base_path={tmp_path / 'absent'}")
    assert (finished.returncode, finished.stdout) == (1, "")
    assert finished.stderr.startswith(
        "Failed to start server. Error: Invalid value for --model_base_path."
    )
    assert finished.stderr.count("\n") == 1


def test_half_written_export_ends_the_program(numbers_dir, tmp_path):
    shutil.copytree(numbers_dir, tmp_path / "1")
    os.remove(tmp_path / "1" / "saved_model.pb")
    finished = run(f"--model_base_path={tmp_path}", "--port=0")
    assert (finished.returncode, finished.stdout) == (1, "")
    assert finished.stderr.splitlines()[-1] == (
        f"Failed to start server. Error: Version 1 of model default under {tmp_path} "
        "could not be loaded: Could not find SavedModel .pb or .pbtxt at supplied "
        f"export directory path: {tmp_path / '1'}"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--enable_batching"], "Unknown command line flag 'enable_batching'"),
        ([], "Flag --model_base_path must have a value other than None"),
        (["--model_base_path=/tmp", "--port=70000"], "port"),
        (["--model_base_path=/tmp", "extra"], "Unexpected arguments: extra"),
    ],
    ids=["unknown", "required", "port", "positional"],
)
def test_flag_mistakes(arguments, message):
    finished = run(*arguments)
    assert finished.returncode == 1
    assert message in finished.stderr


def test_help_describes_every_flag():
    finished = run("--help")
    for name in [
        "--port",
        "--rest_api_port",
        "--model_name",
        "--model_base_path",
        "--grpc_max_threads",
        "--rest_api_timeout_in_ms",
        "--file_system_poll_wait_seconds",
        "--bind_address",
    ]:
        assert f"  {name}: " in finished.stdout
