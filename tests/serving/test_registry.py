"""Loading and unloading of versions, with servables that only note it."""

import shutil
import threading

import grpc
import pytest
from tensorflow_serving.apis.get_model_status_pb2 import ModelVersionStatus
from tensorflow_serving.apis.model_pb2 import ModelSpec

from serving.errors import ServingError
from serving.registry import Model, Registry

AVAILABLE, END = ModelVersionStatus.AVAILABLE, ModelVersionStatus.END
LOADING, UNLOADING = ModelVersionStatus.LOADING, ModelVersionStatus.UNLOADING


class FakeServable:
    """Loads unless there is a file named `broken` in the version directory."""

    def __init__(self, path):
        if (path / "broken").exists():
            raise ValueError("half a model")
        self.name = path.name
        self.closed = False

    def close(self):
        self.closed = True


@pytest.fixture
def base(tmp_path):
    path = tmp_path / "base"
    path.mkdir()
    return path


@pytest.fixture
def model(base):
    return Model("demo", base, load=FakeServable)


def add(base, name, broken=False):
    (base / name).mkdir()
    if broken:
        (base / name / "broken").touch()


def states(model):
    return [(status.version, status.state) for status in model.statuses()]


def test_only_the_latest_version_is_loaded(base, model):
    add(base, "1")
    add(base, "10")
    add(base, "9")
    model.update()
    assert states(model) == [(10, AVAILABLE)]
    with model.use() as (version, servable):
        assert (version, servable.name) == (10, "10")


def test_new_version_replaces_the_old_one(base, model):
    add(base, "1")
    model.update()
    with model.use() as (_, old):
        pass
    add(base, "2")
    model.update()
    assert states(model) == [(2, AVAILABLE), (1, END)]
    assert old.closed
    with model.use(2) as (version, servable):
        assert (version, servable.closed) == (2, False)
    with pytest.raises(ServingError, match=r"request: Specific\(demo, 1\)") as error:
        model.use(1).__enter__()
    assert error.value.code == grpc.StatusCode.NOT_FOUND


def test_old_version_serves_while_the_new_one_loads(base):
    seen = []

    def load(path):
        if path.name == "2":
            with model.use() as (version, _):
                seen.append((version, states(model)))
        return FakeServable(path)

    model = Model("demo", base, load)
    add(base, "1")
    model.update()
    add(base, "2")
    model.update()
    assert seen == [(1, [(2, LOADING), (1, AVAILABLE)])]


def test_old_version_is_closed_after_its_last_request(base, model):
    add(base, "1")
    model.update()
    in_use = model.use()
    _, old = in_use.__enter__()
    add(base, "2")
    updating = threading.Thread(target=model.update)
    updating.start()
    updating.join(0.2)
    assert updating.is_alive()
    assert not old.closed
    assert states(model) == [(2, AVAILABLE), (1, UNLOADING)]
    with model.use() as (version, _):  # new requests go to the new version meanwhile
        assert version == 2
    in_use.__exit__(None, None, None)
    updating.join(10)
    assert old.closed
    assert states(model) == [(2, AVAILABLE), (1, END)]


def test_failing_version_leaves_the_old_one_serving(base, model):
    add(base, "1")
    model.update()
    add(base, "2", broken=True)
    model.update()
    assert states(model) == [(2, END), (1, AVAILABLE)]
    failed = model.statuses()[0].status
    assert failed.error_code == grpc.StatusCode.UNKNOWN.value[0]
    assert failed.error_message == "ValueError: half a model"
    with model.use() as (version, _):
        assert version == 1


def test_failed_version_is_tried_again_only_when_it_comes_back(base, model):
    add(base, "1")
    model.update()
    add(base, "2", broken=True)
    model.update()
    (base / "2" / "broken").unlink()
    model.update()
    assert states(model) == [(2, END), (1, AVAILABLE)]
    (base / "2").rename(base / "away")
    model.update()
    (base / "away").rename(base / "2")
    model.update()
    assert states(model) == [(2, AVAILABLE), (1, END)]
    assert model.statuses()[0].status.error_message == ""


def test_removing_the_latest_version_goes_back_to_the_one_before(base, model):
    add(base, "1")
    add(base, "2")
    model.update()
    shutil.rmtree(base / "2")
    model.update()
    assert states(model) == [(2, END), (1, AVAILABLE)]


def test_empty_base_path_unloads_and_a_missing_one_does_not(base, model):
    add(base, "1")
    model.update()
    base.rename(base.with_name("away"))
    with pytest.raises(FileNotFoundError):
        model.update()
    assert states(model) == [(1, AVAILABLE)]
    base.mkdir()
    model.update()
    assert states(model) == [(1, END)]
    with pytest.raises(ServingError, match=r"request: Latest\(demo\)"):
        model.use().__enter__()
    add(base, "1")
    model.update()
    assert states(model) == [(1, AVAILABLE)]


def test_registry_polls(base, model):
    add(base, "1")
    registry = Registry([model])
    registry.start(poll_seconds=0.02)
    try:
        add(base, "2")
        wait = threading.Event()
        for _ in range(500):
            if states(model) == [(2, AVAILABLE), (1, END)]:
                break
            wait.wait(0.02)
        assert states(model) == [(2, AVAILABLE), (1, END)]
        with registry.use(ModelSpec(name="demo")) as (version, servable):
            assert version == 2
    finally:
        registry.stop()
    assert servable.closed
    assert states(model) == [(2, END), (1, END)]


def test_polling_survives_a_base_path_that_goes_and_comes(base, model):
    add(base, "1")
    registry = Registry([model])
    registry.start(poll_seconds=0.02)
    try:
        away = base.with_name("away")
        base.rename(away)
        wait = threading.Event()
        wait.wait(0.2)
        assert states(model) == [(1, AVAILABLE)]
        add(away, "2")
        away.rename(base)
        for _ in range(500):
            if states(model)[0] == (2, AVAILABLE):
                break
            wait.wait(0.02)
        assert states(model)[0] == (2, AVAILABLE)
    finally:
        registry.stop()


def test_start_without_a_version(base, model):
    with pytest.raises(ServingError) as error:
        Registry([model]).start(poll_seconds=0)
    assert error.value.message == (
        f"No versions of model demo found under base path {base}. Expected "
        "directories with a number as their name."
    )


def test_start_with_a_broken_latest_version(base, model):
    add(base, "1")
    add(base, "2", broken=True)
    with pytest.raises(ServingError) as error:
        Registry([model]).start(poll_seconds=0)
    assert error.value.message == (
        f"Version 2 of model demo under {base} could not be loaded: "
        "ValueError: half a model"
    )
