"""SavedModels without Keras in them, and servers on free ports of 127.0.0.1."""

import shutil
from pathlib import Path

import grpc
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import model_service_pb2_grpc, prediction_service_pb2_grpc

from serving.model_server import ModelServer

_MAX_WORDS = 4
_TEXT = [tf.TensorSpec([None], tf.string, name="text")]
_FLOATS = tf.TensorSpec([None], tf.float32, name="x")


class FakeTranslator(tf.Module):
    """Reverses the words of a text; each attends to the word it came from.

    The second hypothesis leaves the words in order; an empty text has none, which is
    a score of -inf. Only four words are read.
    """

    @tf.function(input_signature=_TEXT)
    def best(self, text):
        source = self._source(text)
        tokens, attention = self._hypothesis(source, backwards=True)
        return {
            "text": tf.strings.reduce_join(tokens, axis=-1, separator=" "),
            "tokens": tokens.to_tensor(""),
            "attention": attention,
            "lengths": tf.cast(tokens.row_lengths(), tf.int32),
            "score": -tf.cast(tokens.row_lengths(), tf.float32),
            **self._source_outputs(text),
        }

    @tf.function(input_signature=_TEXT)
    def nbest(self, text):
        source = self._source(text)
        first, first_attention = self._hypothesis(source, backwards=True)
        second, second_attention = self._hypothesis(source, backwards=False)
        lengths = tf.cast(first.row_lengths(), tf.int32)
        score, inf = tf.cast(lengths, tf.float32), float("inf")
        join = tf.strings.reduce_join
        return {
            "text": tf.stack(
                [join(first, axis=-1, separator=" "), join(second, -1, separator=" ")],
                axis=1,
            ),
            "tokens": tf.stack([first.to_tensor(""), second.to_tensor("")], axis=1),
            "attention": tf.stack([first_attention, second_attention], axis=1),
            "lengths": tf.stack([lengths, lengths], axis=1),
            "score": tf.stack([-score, tf.where(score > 0, -2 * score, -inf)], axis=1),
            **self._source_outputs(text),
        }

    def _source(self, text):
        return tf.strings.split(text)[:, :_MAX_WORDS]

    def _source_outputs(self, text):
        words = self._source(text)
        end = tf.fill([tf.shape(text)[0], 1], "</s>")
        source = tf.concat([words, end], axis=1)
        return {
            "source_tokens": source.to_tensor(""),
            "source_lengths": tf.cast(source.row_lengths(), tf.int32),
            "source_truncated": tf.strings.split(text).row_lengths() > _MAX_WORDS,
        }

    def _hypothesis(self, source, backwards):
        """Returns the tokens and the attention `[B, T, S]`, S = T + 1 for "</s>"."""
        words = source.row_lengths()
        width = tf.reduce_max(words)
        t = tf.range(width)[None, :, None]
        s = tf.range(width + 1)[None, None, :]
        last = words[:, None, None] - 1
        aligned = tf.equal(s, last - t if backwards else t) & (t <= last)
        tokens = tf.reverse(source, axis=[1]) if backwards else source
        return tokens, tf.cast(aligned, tf.float32)


class Numbers(tf.Module):
    """Signatures that each show one thing about serving."""

    def __init__(self, factor):
        self.factor = tf.Variable(factor)

    @tf.function(input_signature=[_FLOATS])
    def scaled(self, x):
        return {"y": x * self.factor}

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.float32, name="a"),
            tf.TensorSpec([None], tf.int32, name="b"),
        ]
    )
    def two(self, a, b):
        return {"total": a + tf.cast(b, tf.float32), "double": 2 * b}

    @tf.function(input_signature=[_FLOATS])
    def at_most_one_row(self, x):
        return {"y": tf.ensure_shape(x, [1])}

    @tf.function(input_signature=[tf.TensorSpec([], tf.int64, name="n")])
    def count(self, n):
        zero = tf.constant(0, tf.int64)
        return {"i": tf.while_loop(lambda i: i < n, lambda i: [i + 1], [zero])[0]}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def strings(self, text):
        return {"same": text, "same_bytes": text}

    @tf.function(input_signature=[_FLOATS])
    def dtypes(self, x):
        numbers = ["float64", "int8", "int16", "int32", "int64", "uint8", "uint32"]
        outputs = {name: tf.cast(x, name) for name in [*numbers, "uint64", "float32"]}
        return outputs | {"bool": x > 0, "rank2": x[:, None]}

    @tf.function(input_signature=[_FLOATS])
    def half(self, x):
        return {"y": tf.cast(x, tf.float16), "z": tf.cast(x, tf.bfloat16)}

    @tf.function(input_signature=[_FLOATS])
    def uneven(self, x):
        return {"all": x, "first": x[:1]}

    @tf.function(input_signature=[_FLOATS])
    def scalar(self, x):
        return {"sum": tf.reduce_sum(x)}


def save_numbers(path: Path, factor: float = 2.0) -> Path:
    """Saves `Numbers`, with a default for input `b` of signature `with_default`."""
    model = Numbers(factor)
    signatures = {
        "serving_default": model.scaled,
        "two": model.two,
        "with_default": model.two,
        "at_most_one_row": model.at_most_one_row,
        "count": model.count,
        "strings": model.strings,
        "dtypes": model.dtypes,
        "half": model.half,
        "uneven": model.uneven,
        "scalar": model.scalar,
    }
    tf.saved_model.save(model, str(path), signatures=signatures)
    file = path / "saved_model.pb"
    saved = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    signature = saved.meta_graphs[0].signature_def["with_default"]
    signature.defaults["b"].CopyFrom(tf.make_tensor_proto([10], tf.int32))
    file.write_bytes(saved.SerializeToString())
    return path


@pytest.fixture(scope="session")
def numbers_dir(tmp_path_factory):
    """An unversioned directory with `Numbers` of factor 2."""
    return save_numbers(tmp_path_factory.mktemp("numbers"))


@pytest.fixture(scope="session")
def triple_dir(tmp_path_factory):
    """An unversioned directory with `Numbers` of factor 3."""
    return save_numbers(tmp_path_factory.mktemp("triple"), 3.0)


@pytest.fixture(scope="session")
def translator_dir(tmp_path_factory):
    """An unversioned directory with `FakeTranslator`."""
    path = tmp_path_factory.mktemp("translator")
    model = FakeTranslator()
    signatures = {"serving_default": model.best, "nbest": model.nbest}
    tf.saved_model.save(model, str(path), signatures=signatures)
    return path


@pytest.fixture(scope="session")
def numbers(numbers_dir, tmp_path_factory):
    """A server of `Numbers` version 7, gRPC and REST, under the name "numbers"."""
    base = tmp_path_factory.mktemp("base")
    shutil.copytree(numbers_dir, base / "7")
    server = ModelServer.start("numbers", base, port=0, rest_port=0, poll_seconds=0)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def translator(translator_dir, tmp_path_factory):
    """A server of `FakeTranslator` version 1 under the name "translator"."""
    base = tmp_path_factory.mktemp("base")
    shutil.copytree(translator_dir, base / "1")
    server = ModelServer.start("translator", base, port=0, rest_port=0, poll_seconds=0)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def connect():
    """Makes the stubs of both services for a port; closes them at the end."""
    channels = []

    def stubs(port):
        size = ("grpc.max_receive_message_length", -1)
        channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=[size])
        channels.append(channel)
        return (
            prediction_service_pb2_grpc.PredictionServiceStub(channel),
            model_service_pb2_grpc.ModelServiceStub(channel),
        )

    yield stubs
    for channel in channels:
        channel.close()
