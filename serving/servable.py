"""One loaded version of a model."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import grpc
import numpy as np
import tensorflow as tf

# Registers the TF-Text operations, which the stock server links.
import tensorflow_text  # noqa: F401
from google.protobuf.message import DecodeError
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from serving.errors import ServingError, invalid_argument, not_found, status_code

_TAG = "serve"


class Servable:
    """A SavedModel loaded through a TensorFlow 1 session, as TF Serving loads it.

    `tf.saved_model.load` would accept models that the real server cannot run.

    Args:
        path: the version directory, with `saved_model.pb` in it.

    Raises:
        ServingError: there is no readable `saved_model.pb` in `path`.
        Exception: whatever TensorFlow raises for a model it cannot restore.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self._graph = tf.Graph()
        self._session = tf.compat.v1.Session(graph=self._graph)
        try:
            self._inputs = _open_inputs(self._graph, Path(path))
            meta_graph = tf.compat.v1.saved_model.load(
                self._session, [_TAG], os.fspath(path), input_map=self._inputs
            )
        except BaseException:
            self._session.close()
            raise
        self._graph.finalize()
        self.signatures: Mapping[str, meta_graph_pb2.SignatureDef] = (
            meta_graph.signature_def
        )

    def run(
        self,
        feeds: Mapping[str, np.ndarray],
        fetches: Sequence[str],
        timeout_ms: int | None = None,
    ) -> list[np.ndarray]:
        """Computes tensors of the graph. Safe to call from many threads.

        Args:
            feeds: a value for each input tensor, by tensor name.
            fetches: the names of the tensors to compute.
            timeout_ms: milliseconds after which the run is given up.

        Returns:
            The value of each tensor in `fetches`; strings as arrays of bytes.

        Raises:
            ServingError: with the status and the message of the operation that
                failed, DEADLINE_EXCEEDED after `timeout_ms`, or INVALID_ARGUMENT
                for a value of the wrong dtype.
        """
        self._check_dtypes(feeds)
        options = None
        if timeout_ms is not None:
            options = tf.compat.v1.RunOptions(timeout_in_ms=max(1, timeout_ms))
        try:
            return self._session.run(
                [self._fetchable(name) for name in fetches],
                {self._inputs[name]: value for name, value in feeds.items()},
                options=options,
            )
        except tf.errors.OpError as error:
            # The session wraps the runtime's own error in one that adds Python
            # stack traces of this process; the client gets the runtime's.
            cause = error.__context__
            plain = cause if isinstance(cause, tf.errors.OpError) else error
            raise ServingError(status_code(plain.error_code), plain.message) from error

    def close(self) -> None:
        """Cancels what still runs and gives the memory back."""
        self._session.close()

    def _check_dtypes(self, feeds: Mapping[str, np.ndarray]) -> None:
        for index, name in enumerate(sorted(feeds)):
            if name not in self._inputs:
                raise invalid_argument(f"FeedInputs: unable to find feed output {name}")
            expected = self._inputs[name].dtype
            received = tf.as_dtype(feeds[name].dtype)
            if received != expected:
                raise invalid_argument(
                    f"Expects arg[{index}] to be {dtype_name(expected)} but "
                    f"{dtype_name(received)} is provided"
                )

    def _fetchable(self, name: str) -> tf.Tensor:
        try:
            return self._graph.get_tensor_by_name(name)
        except (KeyError, ValueError) as error:
            raise invalid_argument(f"FetchOutputs node {name}: not found") from error


def dtype_name(dtype: tf.DType | int) -> str:
    """Returns a dtype's name as the C++ runtime writes it: "float", not "float32"."""
    number = tf.as_dtype(dtype).as_datatype_enum
    return types_pb2.DataType.Name(number).removeprefix("DT_").lower()


def _open_inputs(graph: tf.Graph, path: Path) -> dict[str, tf.Tensor]:
    """Returns placeholders of unknown shape to put in the place of the inputs.

    To TF Serving the shapes in a signature are advice: any shape is fed and the
    operations judge. `Session.run` would refuse one that differs from the
    placeholder's, so the model is imported on placeholders without one.
    """
    file = path / "saved_model.pb"
    try:
        model = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    except FileNotFoundError:
        raise not_found(
            "Could not find SavedModel .pb or .pbtxt at supplied export directory "
            f"path: {path}"
        ) from None
    except DecodeError:
        raise ServingError(
            grpc.StatusCode.DATA_LOSS, f"Can't parse {file} as binary proto"
        ) from None
    infos = [
        info
        for meta_graph in model.meta_graphs
        if _TAG in meta_graph.meta_info_def.tags
        for signature in meta_graph.signature_def.values()
        for info in signature.inputs.values()
        if info.WhichOneof("encoding") == "name"
    ]
    # The scope keeps the placeholders' names apart from those of the model.
    with graph.as_default(), tf.name_scope("served_inputs"):
        return {info.name: tf.compat.v1.placeholder(info.dtype) for info in infos}
