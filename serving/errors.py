"""Errors with a gRPC status: what a request that cannot be answered raises."""

import grpc

_CODES = {code.value[0]: code for code in grpc.StatusCode}
_MESSAGE_LIMIT = 1024


class ServingError(Exception):
    """A request that ends with a status other than OK.

    Args:
        code: the gRPC status.
        message: the text sent to the client.
    """

    def __init__(self, code: grpc.StatusCode, message: str):
        super().__init__(message)
        self.code = code
        self.message = message


def invalid_argument(message: str) -> ServingError:
    """Returns the error for a request that is wrong whatever the server's state."""
    return ServingError(grpc.StatusCode.INVALID_ARGUMENT, message)


def not_found(message: str) -> ServingError:
    """Returns the error for a model or version that the server does not hold."""
    return ServingError(grpc.StatusCode.NOT_FOUND, message)


def unimplemented(method: str) -> ServingError:
    """Returns the error for a call that only `tensorflow_model_server` answers."""
    return ServingError(
        grpc.StatusCode.UNIMPLEMENTED,
        f"{method} is not implemented by the embedded server.",
    )


def status_code(number: int) -> grpc.StatusCode:
    """Returns the gRPC status of a TensorFlow error code; the numbers are the same."""
    return _CODES.get(number, grpc.StatusCode.UNKNOWN)


def truncated(message: str) -> str:
    """Returns `message` cut to the 1024 bytes that TensorFlow Serving sends."""
    encoded = message.encode("utf-8", errors="replace")
    if len(encoded) <= _MESSAGE_LIMIT:
        return message
    return encoded[:_MESSAGE_LIMIT].decode("utf-8", errors="ignore") + "...TRUNCATED"
