"""Serves one model as `tensorflow_model_server` does, within Python.

    python -m serving.server --model_name=demo --model_base_path=export --port=8500

Flags have the names and defaults of the real server. It answers Predict,
GetModelMetadata and GetModelStatus; every other call gets UNIMPLEMENTED. A port
opens only when the model is loaded. Stop it with SIGTERM or Ctrl-C.
"""

import os
import signal
import sys
import threading

from absl import app, flags, logging

from serving.versions import find_versions

FLAGS = flags.FLAGS


def define_flags() -> None:
    """Defines the flags; called when this module is the program."""
    flags.DEFINE_string("model_name", "default", "Name that requests give.")
    flags.DEFINE_string(
        "model_base_path",
        None,
        "Directory that holds one directory a version, named by its number. The "
        "highest version is served.",
        required=True,
    )
    flags.DEFINE_integer(
        "port", 8500, "Port of the gRPC API; 0 for any free one.", 0, 65535
    )
    flags.DEFINE_integer(
        "rest_api_port", 0, "Port of the REST API; 0 for no REST API.", 0, 65535
    )
    flags.DEFINE_integer(
        "grpc_max_threads",
        4 * (os.cpu_count() or 1),
        "gRPC requests answered at a time.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "rest_api_timeout_in_ms",
        30_000,
        "Milliseconds after which a REST request is given up.",
        lower_bound=1,
    )
    flags.DEFINE_float(
        "file_system_poll_wait_seconds",
        1,
        "Seconds between two looks for a new version; 0 for a single look at start.",
        lower_bound=0,
    )
    flags.DEFINE_string(
        "bind_address",
        "127.0.0.1",
        "Address to listen on; 0.0.0.0 lets other machines in. The real server "
        "has no such flag and always listens on 0.0.0.0.",
    )


def main(argv: list[str]) -> int:
    """Serves until a signal to stop arrives.

    Returns:
        The exit status: 0 after a signal, 1 if the server could not start.
    """
    if len(argv) > 1:
        raise app.UsageError(f"Unexpected arguments: {' '.join(argv[1:])}")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    problem = base_path_problem(FLAGS.model_base_path)
    if problem:
        return _failed(problem)
    return _serve(stop)


def base_path_problem(base_path: str) -> str | None:
    """Returns why no model can be loaded from `base_path`, None if one may be."""
    try:
        versions = find_versions(base_path)
    except OSError as error:
        return (
            f"Invalid value for --model_base_path. Expected a directory with one "
            f"numeric directory a version. Received: {base_path} ({error.strerror})"
        )
    if not versions:
        return (
            f"No versions found under --model_base_path {base_path}. Expected "
            "directories with a number as their name, such as "
            f"{os.path.join(base_path, '1')}. Export a model there first."
        )
    return None


def _serve(stop: threading.Event) -> int:
    # Here and not above: TensorFlow takes seconds to import, which --help and a
    # mistaken flag need not wait for.
    import tensorflow as tf

    from serving.errors import ServingError
    from serving.model_server import ModelServer

    # The loader that TF Serving uses is "deprecated" in Python, on every call.
    tf.get_logger().setLevel("ERROR")
    address = FLAGS.bind_address
    try:
        server = ModelServer.start(
            FLAGS.model_name,
            FLAGS.model_base_path,
            port=FLAGS.port,
            rest_port=FLAGS.rest_api_port or None,
            bind_address=address,
            grpc_max_threads=FLAGS.grpc_max_threads,
            rest_timeout_ms=FLAGS.rest_api_timeout_in_ms,
            poll_seconds=FLAGS.file_system_poll_wait_seconds,
        )
    except (OSError, ServingError) as error:
        return _failed(str(error))
    print(f"Running gRPC ModelServer at {address}:{server.port} ...")
    if server.rest_port is not None:
        print(f"Exporting HTTP/REST API at {address}:{server.rest_port} ...")
    sys.stdout.flush()
    stop.wait()
    print("Stopping.", flush=True)
    server.stop()
    return 0


def _failed(message: str) -> int:
    print(f"Failed to start server. Error: {message}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    define_flags()
    # Which version is loaded and unloaded is of interest without asking.
    FLAGS.set_default("verbosity", logging.INFO)
    app.run(main)
