"""The REST API: status, metadata and predict, over HTTP and JSON."""

import json
import re
import socket
import threading
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import grpc
import uvicorn
from google.protobuf import json_format
from google.protobuf.message import Message
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    predict_pb2,
)

from serving import json_answer, json_request, predict
from serving.errors import ServingError, invalid_argument, unimplemented
from serving.registry import Registry

_MODEL = r"/v1/models(?:/(?P<name>[^/:]+))"
_VERSION = r"(?:/versions/(?P<version>[0-9]+)|/labels/(?P<label>[^/:]+))?"
_POST = re.compile(f"{_MODEL}{_VERSION}:(?P<method>classify|regress|predict)", re.I)
_GET = re.compile(f"{_MODEL}?{_VERSION}(?P<metadata>/metadata)?", re.I)
_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
_INT64_MAX = 2**63 - 1
_HTTP_STATUS = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.FAILED_PRECONDITION: 400,
    grpc.StatusCode.OUT_OF_RANGE: 400,
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.ALREADY_EXISTS: 409,
    grpc.StatusCode.ABORTED: 409,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.CANCELLED: 499,
    grpc.StatusCode.UNKNOWN: 500,
    grpc.StatusCode.INTERNAL: 500,
    grpc.StatusCode.DATA_LOSS: 500,
    grpc.StatusCode.UNIMPLEMENTED: 501,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
}


def make_app(registry: Registry, timeout_ms: int) -> Starlette:
    """Makes the web application.

    Args:
        registry: the models served.
        timeout_ms: milliseconds after which a predict run is given up.
    """

    async def answer(request: Request) -> Response:
        path = request.scope["raw_path"].decode("latin-1")
        if not path.lower().startswith("/v1/"):
            return _response(404, _error_body("Not found"))
        body = await request.body()
        try:
            text = await run_in_threadpool(
                _answer, registry, request.method, path, body, timeout_ms
            )
        except ServingError as error:
            return _response(_HTTP_STATUS[error.code], _error_body(error.message))
        except RecursionError:
            return _response(400, _error_body("JSON Parse error: nested too deeply"))
        return _response(200, text)

    return Starlette(routes=[Route("/{path:path}", answer, methods=_METHODS)])


@dataclass
class RestServer:
    """A running REST server.

    Args:
        port: the port it listens on.
    """

    port: int
    _server: uvicorn.Server
    _thread: threading.Thread

    def stop(self) -> None:
        """Answers what has arrived, then closes the port."""
        self._server.should_exit = True
        self._thread.join()


def start_rest(
    registry: Registry, address: str, port: int, timeout_ms: int
) -> RestServer:
    """Starts a REST server in a thread of its own.

    Args:
        registry: the models served.
        address: the address to bind, such as "127.0.0.1".
        port: the port to bind; 0 for any free one.
        timeout_ms: milliseconds after which a predict run is given up.

    Raises:
        OSError: the port cannot be bound.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        listener = socket.create_server((address, port), family=family)
    except OSError as error:
        raise OSError(
            f"Cannot listen on {address}:{port} for REST: {error.strerror}"
        ) from error
    config = uvicorn.Config(
        make_app(registry, timeout_ms),
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=10,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=[[listener]], name="rest")
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    return RestServer(listener.getsockname()[1], server, thread)


def _answer(
    registry: Registry, method: str, path: str, body: bytes, timeout_ms: int
) -> str:
    if method == "POST" and (match := _POST.fullmatch(path)):
        call = match["method"].lower()
        if call != "predict":
            raise unimplemented(call.capitalize())
        return _predict(registry, _model_spec(match), body, timeout_ms)
    if method == "GET" and (match := _GET.fullmatch(path)):
        if match["name"] is None:
            raise invalid_argument("Missing model name in request.")
        spec = _model_spec(match)
        return (
            _metadata(registry, spec) if match["metadata"] else _status(registry, spec)
        )
    raise invalid_argument(f"Malformed request: {method} {path}")


def _model_spec(match: re.Match[str]) -> model_pb2.ModelSpec:
    spec = model_pb2.ModelSpec(name=unquote(match["name"]))
    if match["version"] is not None:
        digits = match["version"].lstrip("0") or "0"
        if len(digits) > 19 or int(digits) > _INT64_MAX:
            raise invalid_argument(
                f"Failed to convert version: {match['version']} to numeric."
            )
        spec.version.value = int(digits)
    if match["label"] is not None:
        spec.version_label = unquote(match["label"])
    return spec


def _predict(
    registry: Registry, spec: model_pb2.ModelSpec, body: bytes, timeout_ms: int
) -> str:
    document = json_request.parse_body(body)
    spec.signature_name = json_request.signature_name(document)
    dtypes = _input_dtypes(registry, spec)
    row_format = json_request.is_row_format(document)
    read = json_request.from_rows if row_format else json_request.from_columns
    request = predict_pb2.PredictRequest(model_spec=spec, inputs=read(document, dtypes))
    outputs = predict.predict(registry, request, timeout_ms).outputs
    return json_answer.to_json(outputs, row_format)


def _input_dtypes(registry: Registry, spec: model_pb2.ModelSpec) -> dict[str, int]:
    name = spec.signature_name or predict.DEFAULT_SIGNATURE
    with registry.use(spec) as (_, servable):
        if name not in servable.signatures:
            raise invalid_argument(
                f'Serving signature name: "{name}" not found in signature def'
            )
        inputs = servable.signatures[name].inputs
        dtypes = {alias: info.dtype for alias, info in sorted(inputs.items())}
    if not dtypes:
        raise invalid_argument(f"Failed to get input map for signature: {name}")
    return dtypes


def _status(registry: Registry, spec: model_pb2.ModelSpec) -> str:
    request = get_model_status_pb2.GetModelStatusRequest(model_spec=spec)
    return json.dumps(_as_dict(predict.model_status(registry, request)))


def _metadata(registry: Registry, spec: model_pb2.ModelSpec) -> str:
    request = get_model_metadata_pb2.GetModelMetadataRequest(
        model_spec=spec, metadata_field=["signature_def"]
    )
    response = predict.model_metadata(registry, request)
    signatures = get_model_metadata_pb2.SignatureDefMap()
    response.metadata["signature_def"].Unpack(signatures)
    return json.dumps(
        {
            "model_spec": _as_dict(response.model_spec),
            "metadata": {"signature_def": _as_dict(signatures)},
        }
    )


def _as_dict(message: Message) -> dict[str, Any]:
    return json_format.MessageToDict(
        message,
        preserving_proto_field_name=True,
        always_print_fields_with_no_presence=True,
    )


def _error_body(message: str) -> str:
    return json.dumps({"error": message})


def _response(status: int, body: str) -> Response:
    return Response(body, status_code=status, media_type="application/json")
