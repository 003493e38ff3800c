import collections
import os

import numpy as np
import pytest
import tensorflow as tf

from keras_attn.export import ExportError, export_translator, unservable_operations
from keras_attn.export.operations import TF_TEXT_OPERATIONS, operations_of
from tests.conftest import LINES

OPTIONS = {"beam_width": 3, "max_length": 12}
TEXTS = [LINES[0], "", "hund " * 50, "😀", "zwei hund"]


class Served:
    """An exported version in a TF1 Session, as the real server loads it."""

    def __init__(self, path):
        self.session = tf.compat.v1.Session(graph=tf.Graph())
        with self.session.graph.as_default():
            meta = tf.compat.v1.saved_model.load(self.session, ["serve"], str(path))
        self.signatures = meta.signature_def

    def __call__(self, signature, texts):
        signature = self.signatures[signature]
        return self.session.run(
            {key: info.name for key, info in signature.outputs.items()},
            {signature.inputs["text"].name: np.array(texts, object)},
        )


@pytest.fixture(
    params=["word_translator", "piece_translator", "plain_translator"], scope="module"
)
def translator(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def exported(translator, tmp_path_factory):
    return translator.export(tmp_path_factory.mktemp("export"), **OPTIONS)


@pytest.fixture(scope="module")
def served(exported):
    return Served(exported)


def test_nothing_but_the_version_is_left(exported):
    assert exported.name == "1"
    assert os.listdir(exported.parent) == ["1"]
    assert exported.stat().st_mode & 0o777 == 0o755


def test_every_operation_is_one_of_stock_tf_serving(exported):
    assert unservable_operations(exported) == []
    operations = operations_of(exported)
    assert "VarHandleOp" in operations
    # An operation of TF-Text is one of the 38 that the server links.
    core = {name for name in operations if hasattr(tf.raw_ops, name)}
    assert operations - core <= TF_TEXT_OPERATIONS
    assert len(TF_TEXT_OPERATIONS) == 38


def test_the_signatures_have_the_documented_names(translator, served):
    assert set(served.signatures) >= {"serving_default", "nbest"}
    outputs = {
        "text",
        "tokens",
        "lengths",
        "score",
        "source_tokens",
        "source_lengths",
        "source_truncated",
    }
    if translator.model.decoder.attention is not None:
        outputs.add("attention")
    for name in ("serving_default", "nbest"):
        signature = served.signatures[name]
        assert set(signature.inputs) == {"text"}
        assert set(signature.outputs) == outputs
        # TF Serving's batching needs an unknown first dimension everywhere.
        for info in (*signature.inputs.values(), *signature.outputs.values()):
            assert info.tensor_shape.dim[0].size == -1


def test_the_best_is_the_translators(translator, served):
    answer = served("serving_default", TEXTS)
    for i, expected in enumerate(translator.translate(TEXTS, **OPTIONS)):
        length, source_length = answer["lengths"][i], answer["source_lengths"][i]
        assert answer["text"][i].decode() == expected.text
        assert [t.decode() for t in answer["tokens"][i, :length]] == expected.tokens
        assert [
            t.decode() for t in answer["source_tokens"][i, :source_length]
        ] == expected.source_tokens
        assert answer["score"][i] == pytest.approx(expected.score, abs=1e-4)
        assert answer["source_truncated"][i] == expected.truncated
        # Beyond the lengths: "" and 0.
        assert not any(answer["tokens"][i, length:])
        assert not any(answer["source_tokens"][i, source_length:])
        if expected.attention is not None:
            matrix = answer["attention"][i]
            np.testing.assert_allclose(
                matrix[:length, :source_length], expected.attention, atol=1e-4
            )
            assert not matrix[length:].any()
            assert not matrix[:, source_length:].any()


def test_the_n_best_are_the_translators(translator, served):
    answer = served("nbest", TEXTS)
    for i, hypotheses in enumerate(translator.translate_n_best(TEXTS, **OPTIONS)):
        for k, expected in enumerate(hypotheses):
            length = answer["lengths"][i, k]
            assert answer["text"][i, k].decode() == expected.text
            assert answer["score"][i, k] == pytest.approx(expected.score, abs=1e-4)
            assert not any(answer["tokens"][i, k, length:])
            if expected.attention is not None:
                source_length = answer["source_lengths"][i]
                np.testing.assert_allclose(
                    answer["attention"][i, k, :length, :source_length],
                    expected.attention,
                    atol=1e-4,
                )
        for k in range(len(hypotheses), OPTIONS["beam_width"]):
            assert answer["score"][i, k] == -np.inf
            assert answer["lengths"][i, k] == 0


def test_no_text_and_64_texts(served):
    for signature in ("serving_default", "nbest"):
        for count in (0, 64):
            answer = served(signature, ["zwei hund"] * count)
            assert all(value.shape[0] == count for value in answer.values())


def stored_numbers(path):
    """How many numbers of each dtype the variables of a version are."""
    reader = tf.train.load_checkpoint(str(path / "variables" / "variables"))
    dtypes, counts = reader.get_variable_to_dtype_map(), collections.Counter()
    for name, shape in reader.get_variable_to_shape_map().items():
        if name.endswith("VARIABLE_VALUE"):
            counts[dtypes[name]] += int(np.prod(shape))
    return counts


def test_every_weight_is_written_once(translator, exported):
    assert stored_numbers(exported) == {tf.float32: translator.model.count_params()}


def test_weights_of_two_bytes_give_the_same_answers(word_translator, tmp_path):
    options = {"beam_width": 1, "max_length": 6}  # short to compile
    path = word_translator.export(tmp_path, **options, export_dtype="bfloat16")
    assert stored_numbers(path) == {
        tf.bfloat16: word_translator.model.count_params(),
    }
    assert unservable_operations(path) == []
    answer = Served(path)("serving_default", TEXTS)
    expected = word_translator.translate(TEXTS, **options)
    assert [text.decode() for text in answer["text"]] == [t.text for t in expected]
    for i, translation in enumerate(expected):
        length = answer["lengths"][i]
        tokens = [token.decode() for token in answer["tokens"][i, :length]]
        assert tokens == translation.tokens
        assert answer["score"][i] == pytest.approx(translation.score, abs=0.02)
        np.testing.assert_allclose(
            answer["attention"][i, :length, : answer["source_lengths"][i]],
            translation.attention,
            atol=0.005,
        )


def test_a_bad_export_dtype_is_named(plain_translator, tmp_path):
    with pytest.raises(ValueError, match="`export_dtype`.*export_dtype='int8'"):
        export_translator(plain_translator, tmp_path / "new", export_dtype="int8")
    assert not (tmp_path / "new").exists()


def test_versions_count_up_and_none_is_overwritten(plain_translator, tmp_path):
    options = {"beam_width": 1, "max_length": 4}
    assert export_translator(plain_translator, tmp_path, **options, version=7).name == (
        "7"
    )
    (tmp_path / "notes").mkdir()
    assert export_translator(plain_translator, tmp_path, **options).name == "8"
    before = os.stat(tmp_path / "8" / "saved_model.pb").st_mtime_ns
    with pytest.raises(FileExistsError, match="Version 8 exists already in"):
        export_translator(plain_translator, tmp_path, **options, version=8)
    assert os.stat(tmp_path / "8" / "saved_model.pb").st_mtime_ns == before
    assert sorted(os.listdir(tmp_path)) == ["7", "8", "notes"]


@pytest.mark.parametrize("version", [0, -1, "latest"], ids=["zero", "negative", "word"])
def test_a_bad_version_is_named(plain_translator, tmp_path, version):
    with pytest.raises(ValueError, match=f"`version`.*version={version!r}"):
        export_translator(plain_translator, tmp_path, version=version)
    assert os.listdir(tmp_path) == []


def test_a_file_in_place_of_the_directory(plain_translator, tmp_path):
    (tmp_path / "export").write_text("in the way")
    with pytest.raises(OSError, match="export"):
        export_translator(plain_translator, tmp_path / "export")
    assert (tmp_path / "export").read_text() == "in the way"


@pytest.mark.parametrize("check", ["operations", "answers"])
def test_a_refused_export_leaves_nothing(
    plain_translator, tmp_path, monkeypatch, check
):
    from keras_attn.export import saved_model

    if check == "operations":
        monkeypatch.setattr(saved_model, "unservable_operations", lambda _: ["PyFunc"])
        message = "cannot run: PyFunc"
    else:
        compare = saved_model.check_same

        def off_by_a_little(signature, expected, answer):
            answer["score"] = answer["score"] + 0.1
            compare(signature, expected, answer)

        monkeypatch.setattr(saved_model, "check_same", off_by_a_little)
        message = "'score' of signature 'serving_default'.*differs"
    with pytest.raises(ExportError, match=message):
        export_translator(plain_translator, tmp_path, beam_width=1, max_length=4)
    assert os.listdir(tmp_path) == []


def test_a_python_function_in_the_graph_is_found(tmp_path):
    module = tf.Module()
    module.f = tf.function(
        lambda x: tf.numpy_function(lambda v: v, [x], tf.float32),
        input_signature=[tf.TensorSpec([None])],
    )
    tf.saved_model.save(module, str(tmp_path / "m"))
    assert unservable_operations(tmp_path / "m") == ["PyFunc"]
