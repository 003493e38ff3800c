"""Exported tokenizers, loaded the way TensorFlow Serving loads them."""

import keras
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

TEXTS = ["ein Hund  springt", "", "  ", "漢字 😀 <s>", b"\xff Ball", "Ball " * 400]


def export(tokenizer, directory):
    """Writes a SavedModel with one signature, text to everything."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def serve(text):
        ids = tokenizer.tokenize(text)
        dense = ids.to_tensor()
        hypotheses = tf.stack([dense, dense], axis=1)
        return {
            "ids": dense,
            "pieces": tokenizer.split(text).to_tensor(),
            "tokens": tokenizer.id_to_token(hypotheses),
            "text": tokenizer.detokenize(dense),
            "texts": tokenizer.detokenize(hypotheses),
        }

    archive = keras.export.ExportArchive()
    archive.track(tokenizer)
    archive.add_endpoint("serve", serve)
    archive.write_out(str(directory), verbose=False)
    return serve


@pytest.fixture(scope="module")
def exported(tokenizer, tmp_path_factory):
    directory = tmp_path_factory.mktemp("export") / "model"
    return tokenizer, export(tokenizer, directory), directory


def run_in_session(directory, texts):
    """Runs the signature in a fresh graph, in the loader of TensorFlow 1."""
    with (
        tf.Graph().as_default(),
        tf.compat.v1.Session() as session,
    ):
        model = tf.compat.v1.saved_model.load(session, ["serve"], str(directory))
        signature = model.signature_def["serving_default"]
        return session.run(
            {name: info.name for name, info in signature.outputs.items()},
            {signature.inputs["text"].name: texts},
        )


def test_a_session_gives_what_eager_gives(exported):
    tokenizer, serve, directory = exported
    served = run_in_session(directory, TEXTS)
    eager = serve(tf.constant(TEXTS))
    assert served.keys() == {"ids", "pieces", "tokens", "text", "texts"}
    for name, value in eager.items():
        assert served[name].tolist() == value.numpy().tolist(), name
    ids = tokenizer.tokenize(TEXTS)
    assert served["ids"].tolist() == ids.to_tensor().numpy().tolist()
    assert served["text"].tolist() == tokenizer.detokenize(ids).numpy().tolist()
    assert served["text"][0].startswith(b"ein Hund ")
    assert served["text"][1] == b""


def test_a_session_answers_an_empty_batch_and_empty_text(exported):
    directory = exported[2]
    assert run_in_session(directory, [])["ids"].shape == (0, 0)
    nothing = run_in_session(directory, [""])
    assert nothing["ids"].shape == (1, 0)
    assert nothing["text"].tolist() == [b""]


def operations(directory):
    """Returns the names of the operations of a SavedModel, those of functions too."""
    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString((directory / "saved_model.pb").read_bytes())
    graph = saved.meta_graphs[0].graph_def
    functions = graph.library.function
    names = {node.op for node in graph.node}
    names |= {node.op for function in functions for node in function.node_def}
    return names - {function.signature.name for function in functions}


def test_graphs_hold_only_operations_that_the_stock_server_has(exported):
    tokenizer, _, directory = exported
    names = operations(directory)
    assert not names & {"PyFunc", "EagerPyFunc", "PyFuncStateless"}
    text_operations = {
        "SentencepieceOp",
        "SentencepieceTokenizeOp",
        "SentencepieceDetokenizeOp",
    }
    if tokenizer.KIND == "sentencepiece":
        assert text_operations < names
        names -= text_operations
    # Loading TensorFlow Text adds nothing to the raw operations of the core.
    assert [name for name in names if not hasattr(tf.raw_ops, name)] == []


def test_an_untracked_tokenizer_cannot_be_exported(tokenizers, tmp_path):
    """Without this error the exported model would fail in the server."""
    tokenizer = tokenizers["words"]
    archive = keras.export.ExportArchive()
    archive.track(tf.Module())
    serve = tf.function(
        tokenizer.tokenize, input_signature=[tf.TensorSpec([None], tf.string)]
    )
    archive.add_endpoint(
        "serve",
        lambda text: serve(text).to_tensor(),
        [tf.TensorSpec([None], tf.string)],
    )
    with pytest.raises(AssertionError, match="untracked"):
        archive.write_out(str(tmp_path / "model"), verbose=False)
