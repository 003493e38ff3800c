"""The figure of `benchmarks.scaling`."""

import functools
import pathlib
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from benchmarks.scaling_sweeps import Result
from keras_attn.files import write_atomically

COLORS = ("#0072b2", "#d55e00")
MARKERS = ("o", "s")
# Attribute of `Result`, its unit, and what a unit is.
ROWS = (
    ("seconds", "processor time, s", 1.0),
    ("memory_bytes", "peak memory, MiB", 2.0**20),
)


def save(
    results: Mapping[tuple[str, str], Result],
    path: pathlib.Path,
    works: Mapping[str, str],
) -> None:
    """Draw a column for each sweep: time above, memory below, both log-log.

    The dashed line grows as the mathematics says, up to the last value.

    Args:
        results: by sweep and work.
        path: the image to write; its ending says the format.
        works: the names of the works in the legend.
    """
    names = list(dict.fromkeys(name for name, _ in results))
    figure = Figure(figsize=(1.2 + 2.7 * len(names), 6), layout="constrained")
    grid = figure.subplots(2, len(names), squeeze=False, sharex="col", sharey="row")
    for i, name in enumerate(names):
        for (attribute, label, unit), axes in zip(ROWS, grid[:, i], strict=True):
            for style, work in enumerate(works):
                if (name, work) in results:
                    result = results[name, work]
                    values = [v / unit for v in getattr(result, attribute)]
                    _draw(axes, result, values, style, works[work])
            _set_scales(axes)
            if i == 0:
                axes.set_ylabel(label)
        result = next(result for (n, _), result in results.items() if n == name)
        grid[1, i].set_xlabel(result.sweep.label)
        grid[1, i].set_xticks(result.sweep.sizes, map(_number, result.sweep.sizes))
        grid[1, i].xaxis.set_minor_locator(NullLocator())
    handles = {
        label: handle
        for axes in grid.flat
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        handles.values(), handles, loc="outside lower center", ncols=4, frameon=False
    )
    write_atomically(path, functools.partial(figure.savefig, dpi=120))


def _draw(
    axes: Axes, result: Result, values: Sequence[float], style: int, label: str
) -> None:
    color, order = COLORS[style], result.sweep.order
    axes.plot(result.sizes, values, MARKERS[style] + "-", color=color, label=label)
    ends = [result.sizes[0], result.sizes[-1]]
    axes.plot(
        ends,
        [values[-1] * (end / ends[-1]) ** order for end in ends],
        "--" if order == 1 else ":",
        color=color,
        linewidth=1,
        alpha=0.7,
        label=("linear" if order == 1 else "quadratic") + f", {label}",
    )


def _set_scales(axes: Axes) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def _number(size: int) -> str:
    return f"{size // 1000}k" if size % 1000 == 0 else f"{size}"
