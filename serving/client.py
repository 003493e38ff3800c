"""Asks a model server for translations; prints them and draws their attention.

    python -m serving.client --server=127.0.0.1:8500 --text="ein Hund"

Works with this package's embedded server and with `tensorflow_model_server`. As a
library, `TranslationClient` needs grpcio and tensorflow-serving-api, not keras_attn.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

_INT32_MAX = 2**31 - 1
_OUTPUTS = [
    "text",
    "tokens",
    "lengths",
    "score",
    "source_tokens",
    "source_lengths",
    "source_truncated",
]


class ClientError(ValueError):
    """An answer that is no translation, or that cannot be shown."""


@dataclass(frozen=True)
class Translation:
    """One translation of one text.

    Args:
        text: the translation.
        tokens: its T tokens, without start and end markers.
        source_tokens: the S tokens that the model read.
        score: length-normalised log-probability.
        attention: float32 `[T, S]`, how much each token of the translation attended
            to each source token; None if not asked for, or if the model has none.
        source_truncated: True if the text was longer than the model reads, and the
            rest of it was ignored.
    """

    text: str
    tokens: list[str]
    source_tokens: list[str]
    score: float
    attention: np.ndarray | None
    source_truncated: bool


class TranslationClient:
    """A connection to one model on a server. Safe to use from many threads.

    Args:
        target: host and port of the server's gRPC API, such as "127.0.0.1:8500".
        model_name: the model to ask.
        timeout: seconds to wait for an answer.

    Example:

        with TranslationClient("127.0.0.1:8500", "demo") as client:
            print(client.translate(["ein Hund"])[0].text)
    """

    def __init__(self, target: str, model_name: str = "default", timeout: float = 30):
        # An answer with attention matrices outgrows gRPC's default of 4 MiB.
        self._channel = grpc.insecure_channel(
            target,
            options=[
                ("grpc.max_receive_message_length", _INT32_MAX),
                ("grpc.max_send_message_length", _INT32_MAX),
            ],
        )
        self._stub = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)
        self._model_name = model_name
        self._timeout = timeout

    def translate(
        self, texts: Sequence[str], attention: bool = True
    ) -> list[Translation]:
        """Returns the best translation of each text.

        Args:
            texts: the texts, translated as one batch.
            attention: whether to ask for the attention matrices.

        Raises:
            grpc.RpcError: the server cannot be reached or refused the request.
            ClientError: the model is no translator.
        """
        if not texts:
            return []
        outputs = self._predict("serving_default", texts, attention)
        return [_translation(outputs, i, (i,)) for i in range(len(texts))]

    def nbest(
        self, texts: Sequence[str], attention: bool = True
    ) -> list[list[Translation]]:
        """Returns up to K translations of each text, the best first.

        A search that found fewer than K fills up with hypotheses of score -inf,
        which are left out here, though never the first.

        Args:
            texts: the texts, translated as one batch.
            attention: whether to ask for the attention matrices.

        Raises:
            grpc.RpcError: the server cannot be reached or refused the request.
            ClientError: the model is no translator.
        """
        if not texts:
            return []
        outputs = self._predict("nbest", texts, attention)
        found = outputs["score"] != -np.inf
        found[:, 0] = True
        return [
            [_translation(outputs, i, (i, int(k))) for k in np.flatnonzero(found[i])]
            for i in range(len(texts))
        ]

    def close(self) -> None:
        """Closes the connection."""
        self._channel.close()

    def __enter__(self) -> "TranslationClient":
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    def _predict(
        self, signature: str, texts: Sequence[str], attention: bool
    ) -> dict[str, np.ndarray]:
        request = predict_pb2.PredictRequest()
        request.model_spec.name = self._model_name
        request.model_spec.signature_name = signature
        values = [text.encode("utf-8") for text in texts]
        request.inputs["text"].CopyFrom(
            tf.make_tensor_proto(values, tf.string, [len(values)])
        )
        # With attention: all outputs, since a model may have no such output.
        request.output_filter.extend([] if attention else _OUTPUTS)
        response = self._stub.Predict(request, timeout=self._timeout)
        missing = [name for name in _OUTPUTS if name not in response.outputs]
        if missing:
            raise ClientError(
                f"Model {self._model_name} is no translator exported by keras_attn. "
                f"Expected the outputs {', '.join(_OUTPUTS)}. "
                f"Received: {', '.join(sorted(response.outputs))}"
            )
        return {name: tf.make_ndarray(t) for name, t in response.outputs.items()}


def _translation(
    outputs: dict[str, np.ndarray], row: int, at: tuple[int, ...]
) -> Translation:
    """Cuts one translation out of a batch: text `row`, hypothesis `at`."""
    length = int(outputs["lengths"][at])
    source_length = int(outputs["source_lengths"][row])
    attention = None
    if "attention" in outputs:
        attention = outputs["attention"][at][:length, :source_length]
    return Translation(
        text=_decoded(outputs["text"][at]),
        tokens=[_decoded(t) for t in outputs["tokens"][at][:length]],
        source_tokens=[
            _decoded(t) for t in outputs["source_tokens"][row][:source_length]
        ],
        score=float(outputs["score"][at]),
        attention=attention,
        source_truncated=bool(outputs["source_truncated"][row]),
    )


def _decoded(token: bytes) -> str:
    # A token can be a part of a character, as with byte fallback.
    return token.decode("utf-8", errors="replace")


if __name__ == "__main__":
    from absl import app, flags

    from serving import client_main

    client_main.define_flags()
    flags.adopt_module_key_flags(client_main)
    app.run(client_main.main)
