import json
from unittest import mock

import pytest
import tensorflow as tf

from keras_attn.training import workers
from keras_attn.training.workers import (
    WorkerLostError,
    Workers,
    naming_lost_workers,
    require_same,
)

CLUSTER = {"worker": ["a:1", "b:2"], "chief": ["c:3"]}


def config(job="worker", index=1, cluster=CLUSTER):
    return json.dumps({"cluster": cluster, "task": {"type": job, "index": index}})


@pytest.fixture
def strategy(monkeypatch):
    """Takes this process for worker 1 of a job."""
    monkeypatch.setenv("TF_CONFIG", config())
    return mock.Mock(spec=tf.distribute.MultiWorkerMirroredStrategy)


def test_the_chief_comes_first(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", config())
    found = Workers.from_environment()
    assert found.tasks == (
        ("chief", 0, "c:3"),
        ("worker", 0, "a:1"),
        ("worker", 1, "b:2"),
    )
    assert found.index == 2
    assert not found.is_chief
    assert str(found) == "worker 1 at b:2, one of 3 (chief: chief 0 at c:3)"


def test_without_a_chief_the_first_worker_is(monkeypatch):
    # Kubernetes gives indices as text.
    monkeypatch.setenv("TF_CONFIG", config(index="0", cluster={"worker": ["a:1"]}))
    assert Workers.from_environment().is_chief


@pytest.mark.parametrize("text", ["", "{}", '{"cluster": {}}'])
def test_no_cluster_is_one_process(text, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)
    found = Workers.from_environment()
    assert found == Workers()
    assert found.is_chief
    assert str(found) == "one process"


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "3",
        '{"cluster": 3}',
        '{"cluster": {"worker": ["a:1"]}}',
        config(index=2),
        config(index="x"),
        config(job="ps", index=0, cluster={"worker": ["a:1"], "ps": ["b:2"]}),
    ],
)
def test_a_bad_tf_config_is_shown(text, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match="environment variable TF_CONFIG") as caught:
        Workers.from_environment()
    assert f"Received: {text}" in str(caught.value)


def test_only_a_strategy_of_several_workers_has_them(strategy):
    assert len(Workers.of(strategy).tasks) == 3
    assert Workers.of(tf.distribute.get_strategy()) == Workers()


@pytest.fixture
def others(monkeypatch):
    """Answers for the other workers: a function that makes all rows of this one's."""

    def answer(rows):
        monkeypatch.setattr(workers, "of_all_workers", lambda _, own: rows(own))

    return answer


def test_workers_that_agree(strategy, others):
    others(lambda own: [own] * 3)
    require_same(strategy, seed=1, epochs_done=3)


def test_workers_that_differ_are_named(strategy, others):
    others(lambda own: [own, own, [own[0], own[1] + 1]])
    with pytest.raises(ValueError, match="The workers differ in epochs_done") as caught:
        require_same(strategy, seed=1, epochs_done=3)
    assert str(caught.value).endswith(
        "Expected what the chief, chief 0 at c:3, has. Received: something else on "
        "worker 1 at b:2. It is 3 on worker 1 at b:2"
    )


def test_values_decide_and_not_the_order_of_keys(strategy, others):
    seen = []
    others(lambda own: seen.append(own) or [own])
    for value in ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 2, "b": 1}):
        require_same(strategy, flags=value)
    assert seen[0] == seen[1] != seen[2]


def test_one_process_agrees_with_itself():
    strategy = tf.distribute.get_strategy()
    assert workers.of_all_workers(strategy, [3, 4]) == [[3, 4]]
    require_same(strategy, seed=1)


@pytest.mark.parametrize(
    ("message", "lost"),
    [
        # Its connection was reset.
        (
            "Collective ops is aborted by: recvmsg:Connection reset by peer\n"
            "Additional GRPC error information from remote target "
            "/job:worker/replica:0/task:0 while calling /tensorflow.WorkerService",
            "worker 0 at a:1 was killed, hangs or cannot be reached (recvmsg:",
        ),
        # It gives no sign of life; this worker is named as well.
        (
            "Error reported from /job:worker/task:1: The following tasks are unhealthy"
            "\n/job:chief/replica:0/task:0",
            "chief 0 at c:3 was killed",
        ),
        # The one that counts signs of life is gone.
        ("Deadline Exceeded\n\nRPC: /tensorflow.CoordinationService", "chief 0 at c:3"),
    ],
)
def test_a_lost_worker_is_named(message, lost, strategy):
    with (
        pytest.raises(WorkerLostError) as caught,
        naming_lost_workers(Workers.of(strategy)),
    ):
        raise tf.errors.UnavailableError(None, None, message)
    assert str(caught.value).startswith(lost)
    assert "This is worker 1 at b:2" in str(caught.value)
    # The scripts tell it as one line.
    assert isinstance(caught.value, OSError)


def test_the_chief_does_not_take_itself_for_lost(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", config("chief", 0))
    message = "Task /job:chief/replica:0/task:0 heartbeat timeout."
    with (
        pytest.raises(WorkerLostError, match="^another worker was killed"),
        naming_lost_workers(Workers.from_environment()),
    ):
        raise tf.errors.AbortedError(None, None, message)


def test_other_errors_stay_what_they_are(strategy):
    with (
        pytest.raises(tf.errors.InvalidArgumentError),
        naming_lost_workers(Workers.of(strategy)),
    ):
        raise tf.errors.InvalidArgumentError(None, None, "shapes")
    with (
        pytest.raises(tf.errors.UnavailableError),
        naming_lost_workers(Workers()),
    ):
        raise tf.errors.UnavailableError(None, None, "no workers, so none lost")
