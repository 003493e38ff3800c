"""Training on several replicas. The runs are real processes of the training script:
one that trains alone, one with two logical devices, and two workers of which one is
killed and that are then started again."""

import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.models import AttentionSeq2Seq
from keras_attn.training import FusedAdam, MaskedCrossEntropy, distribution
from keras_attn.training.distribution import ReplicatedAdam, own_rows

ROOT = pathlib.Path(__file__).parents[2]
WORKER = pathlib.Path(__file__).with_name("distribution_worker.py")
# Seconds from the end of one worker to the end of the other. It takes about 1.
BOUND = 40


@pytest.fixture(scope="module")
def flags(tmp_path_factory):
    """The flags of all runs: the task is to spell words backwards, without dropout."""
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefgh", k=rng.randint(2, 6))) for _ in range(105)]
    directory = tmp_path_factory.mktemp("corpus")
    for name, part in (("train", words[:95]), ("valid", words[95:])):
        lines = "".join(f"{word}\t{word[::-1]}\n" for word in part)
        (directory / f"{name}.tsv").write_text(lines, encoding="utf-8")
    return [
        f"--train_tsv={directory}/train.tsv",
        f"--valid_tsv={directory}/valid.tsv",
        "--source_tokenizer=character",
        "--target_tokenizer=character",
        "--source_vocabulary_size=0",
        "--target_vocabulary_size=0",
        "--max_target_length=12",
        "--embedding_dim=8",
        "--encoder_units=8",
        "--decoder_units=8",
        "--nobidirectional",
        "--attention=luong_general",
        "--attend=after",
        "--epochs=9",
        # 9 batches of 10 pairs and one of 5.
        "--batch_size=10",
        "--learning_rate=0.02",
        "--warmup_steps=5",
        # Less than most gradients have.
        "--clip_norm=0.2",
        "--dropout=0",
        "--bleu_tokenize=char",
    ]


def start(directory, flags, options=None, cluster=None, index=0):
    """Starts the training script; its MODEL_DIR is `directory`/model."""
    directory.mkdir(exist_ok=True)
    options = {"weights": f"{directory}/weights.npz", **(options or {})}
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONPATH": str(ROOT)}
    if cluster:
        task = {"type": "worker", "index": index}
        environment["TF_CONFIG"] = json.dumps(
            {"cluster": {"worker": cluster}, "task": task}
        )
    return subprocess.Popen(
        [
            *(sys.executable, WORKER, json.dumps(options)),
            *(*flags, f"--model_dir={directory}/model"),
        ],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def end(process, seconds=300):
    """Waits for a process, and kills one that hangs."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def free_addresses():
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        return [f"127.0.0.1:{s.getsockname()[1]}" for s in (one, other)]


def contents(directory):
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module")
def runs(flags, tmp_path_factory):
    """All processes, ended, by their names, and what `start` made of each.

    `alone` and `mirrored` are whole runs. `killed` and `left` are the two workers of a
    run in whose second epoch one is killed; `other` and `chief` those that go on.
    """
    directory = tmp_path_factory.mktemp("runs")
    found = types.SimpleNamespace(directory=directory, cluster=free_addresses())
    stop = {"stop": 2}
    alone = start(directory / "alone", flags, stop)
    mirrored = start(
        directory / "mirrored", [*flags, "--strategy=mirrored"], {**stop, "cpus": 2}
    )
    left = start(directory / "chief", flags, stop, found.cluster)
    killed = start(directory / "other", flags, {"kill": [1, 3]}, found.cluster, index=1)
    found.killed = end(killed)
    killed_at = time.monotonic()
    found.left = end(left, BOUND)
    found.seconds = time.monotonic() - killed_at

    # Workers share their MODEL_DIR; with a copy it can be seen who writes.
    found.written_by_other = (directory / "other" / "model").exists()
    shutil.copytree(directory / "chief" / "model", directory / "other" / "model")
    found.copy = contents(directory / "other" / "model")
    cluster = free_addresses()
    chief = start(directory / "chief", flags, stop, cluster)
    # It has no reason of its own to stop.
    other = start(directory / "other", flags, None, cluster, index=1)
    found.chief, found.other = end(chief), end(other)
    found.alone, found.mirrored = end(alone), end(mirrored)
    return found


def weights(runs, name):
    """The weights with which a process ended."""
    process = getattr(runs, name)
    assert process.returncode == 0, process.stderr
    with np.load(runs.directory / name / "weights.npz") as arrays:
        return [arrays[key] for key in arrays]


def latest(runs, name):
    path = runs.directory / name / "model" / "checkpoints" / "latest.json"
    return json.loads(path.read_text(encoding="utf-8"))


def test_two_devices_are_one(runs):
    assert "Strategy mirrored: 2 replicas on this machine" in runs.mirrored.stdout
    assert "Strategy none: one device" in runs.alone.stdout
    for one, other in zip(
        weights(runs, "mirrored"), weights(runs, "alone"), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=2e-5)


def test_two_workers_are_one_process(runs):
    """Through a kill and a restart, and so a restarted run is an unbroken one."""
    chief, other = weights(runs, "chief"), weights(runs, "other")
    alone = weights(runs, "alone")
    assert len(alone) > 10
    for one, two, expected in zip(chief, other, alone, strict=True):
        np.testing.assert_array_equal(one, two)
        np.testing.assert_allclose(one, expected, atol=2e-5)


def test_metrics_are_those_of_all_replicas(runs):
    def last_epoch(name):
        [*_, line] = [
            line for line in getattr(runs, name).stdout.splitlines() if "val_" in line
        ]
        parts = [part.split(": ") for part in line.split(" - ") if ": " in part]
        return {key: float(value) for key, value in parts}

    expected = last_epoch("alone")
    assert expected.keys() >= {"perplexity", "token_accuracy", "val_loss", "val_bleu"}
    for name in ("mirrored", "chief"):
        received = last_epoch(name)
        assert received.keys() == expected.keys()
        # An uneven last batch has another weight in the mean of the loss, see `fit`.
        assert received.pop("loss") == pytest.approx(expected["loss"], rel=0.02)
        for key, value in received.items():
            assert value == pytest.approx(expected[key], abs=2e-3), key


def test_a_killed_worker_ends_the_others(runs):
    assert runs.killed.returncode == -signal.SIGKILL, runs.killed.stderr
    assert runs.left.returncode == 1, runs.left.stderr
    assert runs.seconds < BOUND
    _, error = runs.left.stderr.rsplit("error: ", 1)
    chief, other = runs.cluster
    assert error.startswith(f"worker 1 at {other} was killed, hangs or cannot be")
    assert f"This is worker 0 at {chief}, one of 2 (this is the chief)" in error
    assert "start all workers again to go on from the last checkpoint" in error
    assert "Traceback" not in error


def test_the_started_again_go_on_after_the_last_epoch(runs):
    assert "Resuming after 1 epochs" in runs.chief.stdout
    assert latest(runs, "chief")["epochs"] == 3


def test_only_the_chief_writes(runs):
    assert not runs.written_by_other
    assert contents(runs.directory / "other" / "model") == runs.copy
    written = contents(runs.directory / "chief" / "model")
    assert {"model.keras", "checkpoints/epoch-0003.weights.h5"} <= written.keys()
    assert any(name.startswith("logs/train") for name in written)
    assert "val_bleu" not in runs.other.stdout


def test_all_end_where_one_stops(runs):
    """Of nine epochs the chief stops after the third, as its patience would."""
    assert runs.other.returncode == 0, runs.other.stderr
    assert latest(runs, "chief")["stopped"] is True
    assert (
        latest(runs, "chief")["bleu"]["best_epoch"]
        == (latest(runs, "alone")["bleu"]["best_epoch"])
    )


@pytest.mark.parametrize("replicas", [1, 2, 3, 8])
@pytest.mark.parametrize("size", [1, 5, 6])
def test_replicas_share_every_batch_without_overlap(replicas, size, monkeypatch):
    labels = np.zeros((size, 4), "int32")
    for row in range(size):
        labels[row, : 1 + row % 4] = 10 + row
    inputs = {"source_ids": tf.constant(labels + 100)}
    seen, mean = [], 0.0
    for replica in range(replicas):
        context = types.SimpleNamespace(
            num_replicas_in_sync=replicas, replica_id_in_sync_group=replica
        )
        monkeypatch.setattr(tf.distribute, "get_replica_context", lambda c=context: c)
        own, own_labels, share = (
            tf.nest.map_structure(np.asarray, part)
            for part in own_rows(inputs, tf.constant(labels))
        )
        assert len(own_labels) == len(share) == -(-size // replicas)
        real = own_labels != 0
        for i in np.flatnonzero(real.any(axis=1)):
            seen.append(own_labels[i, 0] - 10)
            # The inputs are those of the labels, and never without a token.
            np.testing.assert_array_equal(own["source_ids"][i], labels[seen[-1]] + 100)
        assert (own["source_ids"] != 0).all()
        mean += share[0] * own_labels.sum() / max(real.sum(), 1)
    assert sorted(seen) == list(range(size))
    # The mean over the tokens of the batch, and not that of the replicas' means.
    assert mean == pytest.approx(labels.sum() / (labels != 0).sum())


def compiled(optimizer):
    """A model on a strategy of one device."""
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    with strategy.scope():
        model = AttentionSeq2Seq(12, 12, 4, 4, 4, attention=None)
        model.compile(optimizer, MaskedCrossEntropy())
    return model


@pytest.mark.parametrize(
    "optimizer",
    [
        FusedAdam(global_clipnorm=1.0),
        keras.optimizers.SGD(clipvalue=0.5),
        keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD()),
    ],
    ids=lambda optimizer: type(optimizer).__name__,
)
def test_an_optimizer_that_clips_per_replica_is_refused(optimizer):
    ids = tf.ones([2, 3], tf.int32)
    dataset = tf.data.Dataset.from_tensors(
        ({"source_ids": ids, "target_ids": ids}, ids)
    )
    with pytest.raises(ValueError, match="Expected a ReplicatedAdam"):
        distribution.fit(compiled(optimizer), dataset, epochs=1)


def test_what_adam_cannot_do_on_replicas_is_refused():
    with pytest.raises(ValueError, match=r"argument `weight_decay`.*Received: .*=0.1"):
        ReplicatedAdam(weight_decay=0.1)


def test_the_strategy_of_this_machine(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    strategy = distribution.make_strategy("none")
    assert strategy.num_replicas_in_sync == 1
    assert distribution.describe(strategy) == "Strategy none: one device"
    strategy = distribution.make_strategy("mirrored")
    assert distribution.describe(strategy).startswith("Strategy mirrored: ")
    with pytest.raises(ValueError, match="TF_CONFIG for 'multi_worker'"):
        distribution.make_strategy("multi_worker")
    with pytest.raises(ValueError, match="argument `strategy`"):
        distribution.make_strategy("horovod")
