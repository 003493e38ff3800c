"""Runs two sides in turn, each in a process of its own, and reports their ratios.

A side is a class; `Process` makes one in a child process that stays alive, and calls
its methods over a pipe. `compare` times both sides A, B, A, B, ..., so that whatever
else the machine does meets both, and a ratio is the median over the pairs.

A script that uses this imports neither TensorFlow nor PyTorch itself: its children
would load both.
"""

import contextlib
import dataclasses
import importlib
import json
import multiprocessing
import os
import pathlib
import statistics
import traceback
from collections.abc import Callable, Mapping, Sequence

from absl import app, flags

from benchmarks import machine

FLAGS = flags.FLAGS

DTYPE_POLICIES = ("float32", "mixed_bfloat16")


class Process(contextlib.AbstractContextManager):
    """An object in a child process.

    Args:
        target: "package.module:Class", imported in the child only.
        *args: arguments of the class.
        threads: threads of the mathematics of the framework.
        environment: variables set in the child before it imports anything.
        **kwargs: further arguments of the class.

    Example:

    >>> with Process("benchmarks.peers.pytorch_side:PyTorchSide", ...) as peer:
    ...     seconds, loss = peer.call("train", steps=20)
    """

    def __init__(
        self,
        target: str,
        *args,
        threads: int = 2,
        environment: Mapping[str, str] | None = None,
        **kwargs,
    ):
        self.target = target
        variables = {
            "TF_CPP_MIN_LOG_LEVEL": "2",
            "OMP_NUM_THREADS": str(threads),
            "TF_NUM_INTRAOP_THREADS": str(threads),
            "TF_NUM_INTEROP_THREADS": str(threads),
            **(environment or {}),
        }
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, variables, target, args, kwargs), daemon=True
        )
        self._process.start()
        theirs.close()
        self._receive()

    def call(self, method: str, *args, **kwargs):
        """What the object's method returns.

        Raises:
            RuntimeError: it raised, with the child's traceback, or the child ended.
        """
        self._pipe.send((method, args, kwargs))
        return self._receive()

    def _receive(self):
        try:
            failure, value = self._pipe.recv()
        except (EOFError, ConnectionResetError):
            self._process.join()
            raise RuntimeError(
                f"{self.target} ended with exit code {self._process.exitcode}"
            ) from None
        if failure is not None:
            raise RuntimeError(f"{self.target} failed:\n{failure}")
        return value

    def __exit__(self, error, *_):
        # Closing the pipe ends the child's loop, when it has done what it is at.
        self._pipe.close()
        if error is not None:
            self._process.terminate()
        self._process.join()


def _serve(pipe, variables, target, args, kwargs):
    """The child: makes the object and answers calls until the pipe is closed."""
    os.environ.update(variables)
    instance = None

    def make():
        nonlocal instance
        module, name = target.split(":")
        instance = getattr(importlib.import_module(module), name)(*args, **kwargs)

    def call(method, method_args, method_kwargs):
        return getattr(instance, method)(*method_args, **method_kwargs)

    pipe.send(_attempt(make))
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        while True:
            pipe.send(_attempt(call, *pipe.recv()))


def _attempt(call, *args):
    """A traceback or None, and what the call returned."""
    try:
        return None, call(*args)
    except Exception:
        return traceback.format_exc(), None


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Seconds that each side took for the same work, pair by pair."""

    ours: Sequence[float]
    peer: Sequence[float]

    @property
    def ratios(self) -> list[float]:
        """How many times as fast as the peer this project was."""
        return [b / a for a, b in zip(self.ours, self.peer, strict=True)]


def compare(
    ours: Callable[[], float], peer: Callable[[], float], pairs: int
) -> Comparison:
    """Time both sides in turn.

    Args:
        ours: does the work once and returns its seconds.
        peer: likewise.
        pairs: pairs that count; one before them does not.
    """
    seconds = [(ours(), peer()) for _ in range(pairs + 1)][1:]
    return Comparison(*zip(*seconds, strict=True))


@dataclasses.dataclass(frozen=True)
class Row:
    """A line of the table.

    Attributes:
        work: what was done.
        dtype_policy: precision.
        ours: this project's figure, with its unit.
        peer: the peer's figure, with its unit; "" without a peer.
        figure: what the target speaks of: a ratio, or a share of a peak.
        low: the smallest figure of a pair.
        high: the largest.
    """

    work: str
    dtype_policy: str
    ours: str
    peer: str
    figure: str
    low: str = ""
    high: str = ""


def ratio_row(
    work: str,
    dtype_policy: str,
    comparison: Comparison,
    describe: Callable[[float], str],
    peer_dtype: str,
) -> Row:
    """The row of a comparison.

    Args:
        work: what was done.
        dtype_policy: this project's precision.
        comparison: the seconds.
        describe: a figure with its unit, of seconds.
        peer_dtype: the peer's precision.
    """
    ratios = comparison.ratios
    return Row(
        work,
        dtype_policy,
        describe(statistics.median(comparison.ours)),
        f"{describe(statistics.median(comparison.peer))}, {peer_dtype}",
        f"{statistics.median(ratios):.2f}x",
        f"{min(ratios):.2f}",
        f"{max(ratios):.2f}",
    )


def table(rows: Sequence[Row]) -> str:
    """Rows as a Markdown table."""
    head = "| work | dtype policy | keras_attn | peer | median | lowest - highest |"
    lines = [head, "|---" * 6 + "|"]
    for row in rows:
        spread = f"{row.low} - {row.high}" if row.low else ""
        cells = (row.work, row.dtype_policy, row.ours, row.peer, row.figure, spread)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def define_flags(pairs: int) -> None:
    """The flags of every script.

    Args:
        pairs: how many pairs are timed by default.
    """
    flags.DEFINE_enum(
        "dtype_policy", "float32", DTYPE_POLICIES, "Precision of the computation."
    )
    flags.DEFINE_integer("pairs", pairs, "Pairs of rounds that count.", lower_bound=1)
    flags.DEFINE_integer("threads", 2, "Threads of each side.", lower_bound=1)
    flags.DEFINE_string("json", None, "File to write the rows to.")


def report(rows: Sequence[Row]) -> None:
    """Print the table and write it where --json says."""
    print(machine.describe())
    print(table(rows), flush=True)
    if FLAGS.json:
        write_rows(rows, pathlib.Path(FLAGS.json))


def write_rows(rows: Sequence[Row], path: pathlib.Path) -> None:
    """Keep rows as JSON for `read_rows`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = json.dumps([dataclasses.asdict(row) for row in rows], indent=1)
    path.write_text(content + "\n", encoding="utf-8")


def read_rows(path: pathlib.Path) -> list[Row]:
    """The rows that `write_rows` wrote."""
    return [Row(**row) for row in json.loads(path.read_text(encoding="utf-8"))]


def run(main: Callable[[], None]) -> None:
    """Run a script; words beside flags are an error."""

    def start(argv):
        if len(argv) > 1:
            raise app.UsageError(f"Unexpected arguments: {' '.join(argv[1:])}")
        if other_work := machine.other_work():
            print(other_work, flush=True)
        main()

    app.run(start)
