"""The gRPC services: PredictionService and ModelService."""

import os
from collections.abc import Callable
from concurrent import futures
from typing import TypeVar

import grpc
from tensorflow_serving.apis import model_service_pb2_grpc, prediction_service_pb2_grpc

from serving import predict
from serving.errors import ServingError, truncated, unimplemented
from serving.registry import Registry

_INT32_MAX = 2**31 - 1
_YEAR = 365 * 24 * 3600
_Answer = TypeVar("_Answer")


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Predict and GetModelMetadata over a registry.

    Args:
        registry: the models served.
    """

    def __init__(self, registry: Registry):
        self._registry = registry

    def Predict(self, request, context):
        def answer():
            timeout_ms = _milliseconds_left(context)
            return predict.to_response(
                predict.predict(self._registry, request, timeout_ms)
            )

        return _answer_or_abort(context, answer)

    def GetModelMetadata(self, request, context):
        return _answer_or_abort(
            context, lambda: predict.model_metadata(self._registry, request)
        )

    def Classify(self, request, context):
        return _abort(context, unimplemented("Classify"))

    def Regress(self, request, context):
        return _abort(context, unimplemented("Regress"))

    def MultiInference(self, request, context):
        return _abort(context, unimplemented("MultiInference"))


class ModelService(model_service_pb2_grpc.ModelServiceServicer):
    """GetModelStatus over a registry.

    Args:
        registry: the models served.
    """

    def __init__(self, registry: Registry):
        self._registry = registry

    def GetModelStatus(self, request, context):
        return _answer_or_abort(
            context, lambda: predict.model_status(self._registry, request)
        )

    def HandleReloadConfigRequest(self, request, context):
        return _abort(context, unimplemented("HandleReloadConfigRequest"))


def start_grpc(
    registry: Registry, address: str, port: int, max_threads: int | None = None
) -> tuple[grpc.Server, int]:
    """Starts a gRPC server.

    Args:
        registry: the models served.
        address: the address to bind, such as "127.0.0.1".
        port: the port to bind; 0 for any free one.
        max_threads: requests answered at a time; 4 a CPU when None.

    Returns:
        The running server and the port it listens on.

    Raises:
        OSError: the port cannot be bound.
    """
    server = grpc.server(
        futures.ThreadPoolExecutor(max_threads or 4 * (os.cpu_count() or 1)),
        options=[
            ("grpc.max_receive_message_length", _INT32_MAX),
            ("grpc.max_send_message_length", _INT32_MAX),
            # A second server on the same port is a mistake, not a way to share it.
            ("grpc.so_reuseport", 0),
        ],
    )
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        PredictionService(registry), server
    )
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(
        ModelService(registry), server
    )
    host = f"[{address}]" if ":" in address else address
    try:
        bound_port = server.add_insecure_port(f"{host}:{port}")
    except RuntimeError as error:
        raise OSError(
            f"Cannot listen on {host}:{port} for gRPC: is the port already in use, or "
            "the address not one of this machine?"
        ) from error
    server.start()
    return server, bound_port


def _answer_or_abort(
    context: grpc.ServicerContext, answer: Callable[[], _Answer]
) -> _Answer:
    try:
        return answer()
    except ServingError as error:
        return _abort(context, error)


def _abort(context: grpc.ServicerContext, error: ServingError):
    context.abort(error.code, truncated(error.message))


def _milliseconds_left(context: grpc.ServicerContext) -> int | None:
    seconds = context.time_remaining()
    # A call without a deadline has one in the far future.
    return None if seconds is None or seconds > _YEAR else int(seconds * 1000)
