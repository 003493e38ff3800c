"""Loading through a session and running on it."""

import shutil
import threading
import time

import grpc
import numpy as np
import pytest
import tensorflow as tf

from serving.errors import ServingError
from serving.servable import Servable, dtype_name


@pytest.fixture(scope="module")
def servable(numbers_dir):
    servable = Servable(numbers_dir)
    yield servable
    servable.close()


def fetch(servable, signature, output):
    return [servable.signatures[signature].outputs[output].name]


def test_loads_variables_and_signatures(servable):
    assert "__saved_model_init_op" in servable.signatures
    [y] = servable.run(
        {"serving_default_x:0": np.float32([1.5])},
        fetch(servable, "serving_default", "y"),
    )
    np.testing.assert_array_equal(y, np.float32([3.0]))


def test_run_gives_up_after_the_timeout(servable):
    started = time.monotonic()
    with pytest.raises(ServingError) as error:
        servable.run(
            {"count_n:0": np.array(10**13)}, fetch(servable, "count", "i"), 100
        )
    assert error.value.code == grpc.StatusCode.DEADLINE_EXCEEDED
    assert error.value.message == "Timed out waiting for notification"
    assert time.monotonic() - started < 10


def test_close_cancels_a_run(numbers_dir):
    servable = Servable(numbers_dir)
    closing = threading.Timer(0.3, servable.close)
    closing.start()
    with pytest.raises(ServingError) as error:
        servable.run({"count_n:0": np.array(10**13)}, fetch(servable, "count", "i"))
    assert error.value.code == grpc.StatusCode.CANCELLED
    closing.join()


def test_dtypes_are_checked_in_the_order_of_tensor_names(servable):
    feeds = {"two_b:0": np.float32([1]), "two_a:0": np.int64([1])}
    with pytest.raises(ServingError) as error:
        servable.run(feeds, fetch(servable, "two", "total"))
    assert error.value.message == "Expects arg[0] to be float but int64 is provided"
    feeds["two_a:0"] = np.float32([1])
    with pytest.raises(ServingError) as error:
        servable.run(feeds, fetch(servable, "two", "total"))
    assert error.value.message == "Expects arg[1] to be int32 but float is provided"


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (tf.float32, "float"),
        (tf.float64, "double"),
        (tf.float16, "half"),
        (tf.bfloat16, "bfloat16"),
        (tf.int32, "int32"),
        (tf.string, "string"),
        (tf.bool, "bool"),
    ],
)
def test_dtype_names_are_those_of_the_runtime(dtype, name):
    assert dtype_name(dtype) == name
    assert dtype_name(dtype.as_datatype_enum) == name


def test_directory_without_a_saved_model(tmp_path):
    with pytest.raises(ServingError) as error:
        Servable(tmp_path)
    assert error.value.code == grpc.StatusCode.NOT_FOUND
    assert error.value.message == (
        "Could not find SavedModel .pb or .pbtxt at supplied export directory path: "
        f"{tmp_path}"
    )


def test_cut_off_saved_model(numbers_dir, tmp_path):
    shutil.copytree(numbers_dir, tmp_path / "1")
    file = tmp_path / "1" / "saved_model.pb"
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(ServingError) as error:
        Servable(tmp_path / "1")
    assert error.value.code == grpc.StatusCode.DATA_LOSS
    assert error.value.message == f"Can't parse {file} as binary proto"


def test_saved_model_that_arrived_before_its_variables(numbers_dir, tmp_path):
    shutil.copytree(numbers_dir, tmp_path / "1")
    shutil.rmtree(tmp_path / "1" / "variables")
    with pytest.raises((OSError, ValueError, tf.errors.OpError), match="variables"):
        Servable(tmp_path / "1")


def test_saved_model_without_the_serving_tag(tmp_path):
    (tmp_path / "saved_model.pb").touch()
    with pytest.raises(RuntimeError, match="serve"):
        Servable(tmp_path)


def test_tf_text_operations_are_known(tmp_path):
    import tensorflow_text as text

    class Lowers(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
        def serve(self, text_):
            return {"folded": text.case_fold_utf8(text_)}

    tf.saved_model.save(model := Lowers(), str(tmp_path), {"folds": model.serve})
    servable = Servable(tmp_path)
    feeds = {"folds_text:0": np.array(["Straße".encode()], dtype=object)}
    [folded] = servable.run(feeds, fetch(servable, "folds", "folded"))
    assert folded.tolist() == [b"strasse"]
    servable.close()
