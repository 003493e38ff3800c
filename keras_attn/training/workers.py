"""The workers of one training job, as the environment variable TF_CONFIG lists them."""

import contextlib
import dataclasses
import json
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

# What TensorFlow raises when a worker is killed, hangs, or is started anew.
_LOST = (
    tf.errors.UnavailableError,
    tf.errors.DeadlineExceededError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
)


class WorkerLostError(ConnectionError):
    """Another worker of the job was killed, hangs or cannot be reached."""


@dataclasses.dataclass(frozen=True)
class Workers:
    """The workers of a job, and which of them this process is.

    Attributes:
        tasks: job, index in the job and "host:port" of every worker, the chief first;
            empty where this process is the whole job.
        index: the position of this process among them.
    """

    tasks: tuple[tuple[str, int, str], ...] = ()
    index: int = 0

    @classmethod
    def from_environment(cls) -> "Workers":
        """Read TF_CONFIG.

        Raises:
            ValueError: it is set and cannot be used.
        """
        text = os.environ.get("TF_CONFIG") or "{}"
        try:
            config = json.loads(text)
            cluster = config.get("cluster") or {}
            if set(cluster) - {"chief", "worker"}:
                raise ValueError(f"jobs are {', '.join(sorted(cluster))}")
            tasks = tuple(
                (job, i, str(address))
                for job in sorted(cluster)
                for i, address in enumerate(cluster[job])
            )
            if not tasks:
                return cls()
            own = (config["task"]["type"], int(config["task"]["index"]))
            return cls(tasks, [task[:2] for task in tasks].index(own))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(
                "Invalid value of the environment variable TF_CONFIG. Expected JSON "
                "with the workers under `cluster` (jobs chief and worker, no others) "
                "and one of them as `task`, as in "
                '{"cluster": {"worker": ["host0:2222", "host1:2222"]}, '
                '"task": {"type": "worker", "index": 0}}. '
                f"Received: {text} ({error!r})"
            ) from error

    @classmethod
    def of(cls, strategy: tf.distribute.Strategy) -> "Workers":
        """The workers that train under a strategy."""
        if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
            return cls.from_environment()
        return cls()

    @property
    def is_chief(self) -> bool:
        """Whether this worker is the one that writes the files of the run."""
        return self.index == 0

    def name(self, index: int) -> str:
        """The worker at a position, such as "worker 1 at host1:2222"."""
        job, number, address = self.tasks[index]
        return f"{job} {number} at {address}"

    def __str__(self) -> str:
        if not self.tasks:
            return "one process"
        chief = "this is the chief" if self.is_chief else f"chief: {self.name(0)}"
        return f"{self.name(self.index)}, one of {len(self.tasks)} ({chief})"


def of_all_workers(
    strategy: tf.distribute.Strategy, values: Sequence[int]
) -> list[list[int]]:
    """What every worker passes, the chief's first. Every worker has to call it.

    Raises:
        WorkerLostError: a worker is gone.
    """
    workers = Workers.of(strategy)
    if len(workers.tasks) < 2:
        return [list(values)]
    # [workers, values], 0 but for the row of this one
    own = tf.one_hot(workers.index, len(workers.tasks), dtype=tf.int64)[:, None]
    rows = own * tf.constant(values, tf.int64)
    with naming_lost_workers(workers):
        return strategy.reduce("SUM", rows, axis=None).numpy().tolist()


def require_same(strategy: tf.distribute.Strategy, **values: Any) -> None:
    """Check that all workers hold the same values. Every worker has to call it.

    Args:
        strategy: the strategy.
        values: JSON values by their names.

    Raises:
        ValueError: a worker has another value than the chief. All workers raise it.
        WorkerLostError: a worker is gone.
    """
    digests = [
        zlib.crc32(json.dumps(value, sort_keys=True).encode())
        for value in values.values()
    ]
    of_all = of_all_workers(strategy, digests)
    for (name, value), of_each in zip(
        values.items(), zip(*of_all, strict=True), strict=True
    ):
        others = [i for i, digest in enumerate(of_each) if digest != of_each[0]]
        if others:
            workers = Workers.of(strategy)
            raise ValueError(
                f"The workers differ in {name}. Expected what the chief, "
                f"{workers.name(0)}, has. Received: something else on "
                f"{', '.join(map(workers.name, others))}. It is {value!r} on "
                f"{workers.name(workers.index)}"
            )


@contextlib.contextmanager
def naming_lost_workers(workers: Workers) -> Iterator[None]:
    """Turn what TensorFlow raises when a worker is gone into a `WorkerLostError`."""
    try:
        yield
    except _LOST as error:
        if len(workers.tasks) < 2:
            raise
        reason = re.search(r"Collective ops is aborted by: (.*)", str(error))
        raise WorkerLostError(
            f"{_lost(workers, str(error))} was killed, hangs or cannot be reached "
            f"({reason[1] if reason else str(error).strip()}). This is {workers}. "
            "The epoch under way is lost; start all workers again to go on from the "
            "last checkpoint."
        ) from error


def _lost(workers: Workers, message: str) -> str:
    """Which workers a message of TensorFlow calls lost."""
    named = re.findall(r"/job:(\w+)(?:/replica:\d+)?/task:(\d+)", message)
    tasks = [task[:2] for task in workers.tasks]
    lost = {tasks.index((job, int(number))) for job, number in named}
    lost.discard(workers.index)
    if lost:
        return " or ".join(map(workers.name, sorted(lost)))
    # The first counts the signs of life of all, and nobody is named when it is gone.
    return "another worker" if workers.is_chief else workers.name(0)
