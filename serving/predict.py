"""Predict and GetModelMetadata: the checks of TensorFlow Serving, in its order."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import grpc
import numpy as np
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    predict_pb2,
)

from serving import tensors
from serving.errors import ServingError, invalid_argument
from serving.registry import Registry
from serving.servable import Servable

DEFAULT_SIGNATURE = "serving_default"
_METADATA_FIELD = "signature_def"


@dataclass(frozen=True)
class Prediction:
    """What a Predict call computed.

    Args:
        model_spec: name, version and signature that answered.
        outputs: the arrays by output name; strings as arrays of bytes.
    """

    model_spec: model_pb2.ModelSpec
    outputs: dict[str, np.ndarray]


def predict(
    registry: Registry,
    request: predict_pb2.PredictRequest,
    timeout_ms: int | None = None,
) -> Prediction:
    """Answers a Predict request.

    Args:
        registry: the models served.
        request: the request, as sent by a client.
        timeout_ms: milliseconds after which the run is given up; None for never.

    Returns:
        The arrays asked for, all outputs of the signature by default.

    Raises:
        ServingError: with the status and message that TensorFlow Serving gives.
    """
    _check_has_spec(request)
    with registry.use(request.model_spec) as (version, servable):
        name = request.model_spec.signature_name or DEFAULT_SIGNATURE
        signature = _find_signature(servable, name)
        feeds = _feeds(signature, request.inputs)
        outputs = _chosen_outputs(signature, request.output_filter)
        values = servable.run(feeds, list(outputs.values()), timeout_ms)
    spec = model_pb2.ModelSpec(name=request.model_spec.name, signature_name=name)
    spec.version.value = version
    return Prediction(spec, dict(zip(outputs, values, strict=True)))


def to_response(prediction: Prediction) -> predict_pb2.PredictResponse:
    """Returns `prediction` as the response message of the gRPC call."""
    response = predict_pb2.PredictResponse(model_spec=prediction.model_spec)
    for alias, array in prediction.outputs.items():
        response.outputs[alias].CopyFrom(tensors.to_proto(array))
    return response


def model_metadata(
    registry: Registry, request: get_model_metadata_pb2.GetModelMetadataRequest
) -> get_model_metadata_pb2.GetModelMetadataResponse:
    """Answers a GetModelMetadata request with every signature of the model.

    Raises:
        ServingError: with the status and message that TensorFlow Serving gives.
    """
    _check_has_spec(request)
    if not request.metadata_field:
        raise invalid_argument(
            "GetModelMetadataRequest must specify at least one metadata_field"
        )
    for field in request.metadata_field:
        if field != _METADATA_FIELD:
            raise invalid_argument(f"Metadata field {field} is not supported")
    response = get_model_metadata_pb2.GetModelMetadataResponse()
    signatures = get_model_metadata_pb2.SignatureDefMap()
    with registry.use(request.model_spec) as (version, servable):
        for name, signature in servable.signatures.items():
            signatures.signature_def[name].CopyFrom(signature)
    response.model_spec.name = request.model_spec.name
    response.model_spec.version.value = version
    response.metadata[_METADATA_FIELD].Pack(signatures)
    return response


def model_status(
    registry: Registry, request: get_model_status_pb2.GetModelStatusRequest
) -> get_model_status_pb2.GetModelStatusResponse:
    """Answers a GetModelStatus request.

    Raises:
        ServingError: with the status and message that TensorFlow Serving gives.
    """
    _check_has_spec(request)
    return get_model_status_pb2.GetModelStatusResponse(
        model_version_status=registry.statuses(request.model_spec)
    )


def _check_has_spec(request) -> None:
    if not request.HasField("model_spec"):
        raise invalid_argument("Missing ModelSpec")


def _find_signature(servable: Servable, name: str) -> meta_graph_pb2.SignatureDef:
    if name not in servable.signatures:
        raise ServingError(
            grpc.StatusCode.FAILED_PRECONDITION,
            f'Serving signature key "{name}" not found.',
        )
    return servable.signatures[name]


def _feeds(
    signature: meta_graph_pb2.SignatureDef, inputs: Mapping
) -> dict[str, np.ndarray]:
    """Returns the array of each input tensor, defaults filled in."""
    _check_number_of_inputs(signature, inputs)
    feeds = {}
    for alias, info in sorted(signature.inputs.items()):
        if alias not in inputs and alias not in signature.defaults:
            raise invalid_argument(
                f"Signature input alias: {alias}(feed name: {info.name}) not found in "
                "request and no default value provided. Inputs expected to be in the "
                f"request {{{_joined(inputs)}}}, or default input alias set: "
                f"{_joined(signature.defaults)}"
            )
        proto = inputs[alias] if alias in inputs else signature.defaults[alias]
        try:
            feeds[info.name] = tensors.from_proto(proto)
        except ValueError as error:
            raise invalid_argument(f"tensor parsing error: {alias}") from error
    used = set(inputs) & set(signature.inputs)
    if len(used) != len(inputs):
        raise invalid_argument(
            "Inputs contains invalid name. Used request inputs: "
            f"{_joined(used)}, request input: {_joined(inputs)}"
        )
    return feeds


def _check_number_of_inputs(
    signature: meta_graph_pb2.SignatureDef, inputs: Mapping
) -> None:
    sent, expected = set(inputs), set(signature.inputs)
    may_be_fewer = len(signature.defaults) > 0
    if len(sent) > len(expected) or (len(sent) < len(expected) and not may_be_fewer):
        raise invalid_argument(
            f"input size does not match signature: {len(sent)}!={len(expected)} "
            f"len({{{_joined(sent)}}}) != len({{{_joined(expected)}}}). "
            f"Sent extra: {{{_joined(sent - expected)}}}. "
            f"Missing but required: {{{_joined(expected - sent)}}}."
        )


def _chosen_outputs(
    signature: meta_graph_pb2.SignatureDef, output_filter: Iterable[str]
) -> dict[str, str]:
    """Returns the tensor name of each output to compute."""
    chosen: dict[str, str] = {}
    for alias in output_filter:
        if alias not in signature.outputs:
            raise invalid_argument(
                f"output tensor alias not found in signature: {alias} Outputs "
                f"expected to be in the set {{{_joined(signature.outputs)}}}."
            )
        if alias in chosen:
            raise invalid_argument(f"duplicate output tensor alias: {alias}")
        chosen[alias] = signature.outputs[alias].name
    return chosen or {a: o.name for a, o in sorted(signature.outputs.items())}


def _joined(names: Iterable[str]) -> str:
    return ",".join(sorted(names))
