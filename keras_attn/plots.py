"""Heat maps of attention: source tokens across the top, target tokens down the side.

Everything here uses matplotlib's object-oriented interface: no pyplot, no global
figure, no change of backend. It works without a display and from any thread, and
matplotlib is imported by the call, not with the module.
"""

from __future__ import annotations

import functools
import os
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from keras_attn._fonts import font_families, needs_glyph
from keras_attn.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

__all__ = ["attention_heatmap", "save_heatmap"]

_FORMATS = ("png", "svg", "pdf")
_TOLERANCE = 1e-3  # float16 and bfloat16 weights may end up just above 1
_FONT_POINTS = 10.0
_LONGEST_LABEL = 40  # characters
# Inches. Small maps get large cells; large ones the smallest cell whose label reads.
_SMALLEST_CELL, _LARGEST_CELL, _SIDE, _LONGEST_SIDE = 0.24, 0.5, 6.0, 40.0
_PADDING, _BAR_GAP, _BAR_WIDTH, _BAR_HEIGHT = 0.12, 0.15, 0.14, (0.8, 3.0)
# What stands for a character that would leave no mark on its own.
_MARKS = {" ": "␣", "\t": "⇥", "\n": "↵"}


def attention_heatmap(
    attention: Any,
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    *,
    ax: Axes | None = None,
    title: str | None = None,
    cmap: str = "Greys",
    colorbar: bool = True,
) -> Axes:
    """Draws one attention matrix with its tokens.

    Cell `[t, s]` is the weight that target token `t` put on source token `s`; white is
    0 and the darkest colour is 1, on the same scale in every figure. Tokens are
    written as they are (SentencePiece's "▁" included), with three exceptions: a space
    is written "␣", a control or other invisible character by its Unicode picture or
    code point, and a label beyond 40 characters is shortened in the middle.

    Installed fonts that hold the characters of the tokens are found and used. Where
    no font has them, one `UserWarning` names the characters and what to install, and
    placeholder boxes are drawn.

    Args:
        attention: array-like `[T, S]` of weights between 0 and 1. Take one hypothesis
            and cut it to its lengths first: `attention[0, :length, :source_length]`.
        source_tokens: the `S` source tokens.
        target_tokens: the `T` target tokens.
        ax: axes to draw into. Without it a new figure is made, in the size that the
            tokens need; reach it as `axes.figure`.
        title: text above the map.
        cmap: name of a matplotlib colour map, light for 0 and dark for 1.
        colorbar: whether to draw the scale beside the map.

    Returns:
        The matplotlib `Axes` that holds the map.

    Raises:
        TypeError: tokens are not a sequence of `str`.
        ValueError: there is nothing to draw, the shape of `attention` does not fit the
            tokens, or its values are no attention weights.

    Example:

    ```python
    axes = attention_heatmap([[0.9, 0.1]], ["ja", "!"], ["yes"])
    axes.figure.savefig("yes.png")
    ```
    """
    return _draw(attention, source_tokens, target_tokens, ax, title, cmap, colorbar)


def save_heatmap(
    path: str | os.PathLike[str],
    attention: Any,
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    *,
    title: str | None = None,
    cmap: str = "Greys",
    colorbar: bool = True,
    dpi: float = 150,
) -> Path:
    """Draws one attention matrix as `attention_heatmap` does and saves it to a file.

    The file appears under its name only when it is complete.

    Args:
        path: the file to write; its extension, `.png`, `.svg` or `.pdf`, says the
            format. Its directory must exist. An older file is replaced.
        attention: array-like `[T, S]` of weights between 0 and 1.
        source_tokens: the `S` source tokens.
        target_tokens: the `T` target tokens.
        title: text above the map.
        cmap: name of a matplotlib colour map, light for 0 and dark for 1.
        colorbar: whether to draw the scale beside the map.
        dpi: pixels per inch of a PNG.

    Returns:
        The path written.

    Raises:
        TypeError: tokens are not a sequence of `str`.
        ValueError: unknown extension, or any reason `attention_heatmap` has.
        FileNotFoundError: the directory of `path` does not exist.
    """
    path = Path(path)
    image_format = path.suffix.lower().removeprefix(".")
    if image_format not in _FORMATS:
        raise ValueError(
            "Invalid value for argument `path`. Expected a file name that ends in "
            f".png, .svg or .pdf. Received: {str(path)!r}"
        )
    if not path.parent.is_dir():
        raise FileNotFoundError(
            "Invalid value for argument `path`. Expected a file in an existing "
            f"directory. Received: {str(path)!r}; there is no directory "
            f"{str(path.parent)!r}"
        )
    axes = _draw(attention, source_tokens, target_tokens, None, title, cmap, colorbar)
    figure = cast("Figure", axes.figure)
    save = functools.partial(figure.savefig, format=image_format, dpi=dpi)
    write_atomically(path, save)
    return path


def _draw(
    attention: Any,
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    ax: Axes | None,
    title: str | None,
    cmap: str,
    colorbar: bool,
) -> Axes:
    """Validates, draws and lays out; the one caller of a warning about glyphs."""
    weights = _validated(attention, source_tokens, target_tokens)
    columns = [_label(token) for token in source_tokens]
    rows = [_label(token) for token in target_tokens]
    families = font_families("".join((*columns, *rows, title or "")))
    figure = None
    if ax is None:
        figure = _new_figure(*weights.shape)
        ax = figure.add_axes((0, 0, 1, 1))
    image = ax.imshow(
        weights, cmap=cmap, vmin=0, vmax=1, aspect="equal", interpolation="nearest"
    )
    if colorbar:
        _draw_colorbar(ax, image, figure)
    # Dollar signs and backslashes in a token are text, never mathematics.
    text: dict[str, Any] = {
        "fontfamily": families,
        "parse_math": False,
        "usetex": False,
    }
    _draw_labels(ax, columns, rows, text)
    if title:
        ax.set_title(title, pad=10, **text)
    if figure is not None:
        _fit_figure(figure, ax)
    return ax


def _validated(
    attention: Any, source_tokens: Sequence[str], target_tokens: Sequence[str]
) -> np.ndarray:
    _check_tokens("source_tokens", source_tokens)
    _check_tokens("target_tokens", target_tokens)
    weights = np.asarray(attention, dtype="float32")
    expected = (len(target_tokens), len(source_tokens))
    if weights.shape != expected:
        raise ValueError(
            "Invalid value for argument `attention`. Expected shape [T, S] = "
            f"{list(expected)} for {expected[0]} target tokens and {expected[1]} "
            f"source tokens. Received: an array of shape {list(weights.shape)}"
        )
    if not np.all((weights >= -_TOLERANCE) & (weights <= 1 + _TOLERANCE)):
        raise ValueError(
            "Invalid value for argument `attention`. Expected weights between 0 and 1. "
            f"Received: values from {weights.min()} to {weights.max()}"
        )
    return weights


def _check_tokens(name: str, tokens: Sequence[str]) -> None:
    if isinstance(tokens, (str, bytes)) or not all(isinstance(t, str) for t in tokens):
        raise TypeError(
            f"Invalid value for argument `{name}`. Expected a sequence of str, one a "
            "token (list(text) for characters, token.decode() for bytes). "
            f"Received: {tokens!r:.200}"
        )
    if len(tokens) == 0:
        raise ValueError(
            f"Invalid value for argument `{name}`. Expected at least one token; an "
            "empty text has no attention to draw. Received: no tokens"
        )


def _label(token: str) -> str:
    """Writes a token so that it is visible and stays different from other tokens."""
    label = "".join(_visible(character) for character in token)
    if label and not any(needs_glyph(character) for character in label):
        label = " ".join(f"U+{ord(character):04X}" for character in label)
    if len(label) > _LONGEST_LABEL:
        half = _LONGEST_LABEL // 2
        label = f"{label[:half]}…{label[1 - half :]}"
    return label


def _visible(character: str) -> str:
    if character in _MARKS:
        return _MARKS[character]
    # Control characters, and lone surrogates, which are no text at all.
    if unicodedata.category(character) in ("Cc", "Cs"):
        return f"U+{ord(character):04X}"
    return character


def _new_figure(target_length: int, source_length: int) -> Figure:
    """A figure that has room for the cells only; `_fit_figure` adds the margins."""
    from matplotlib.figure import Figure

    longest = max(target_length, source_length)
    cell = min(max(_SIDE / longest, _SMALLEST_CELL), _LARGEST_CELL)
    cell = min(cell, _LONGEST_SIDE / longest)
    return Figure(figsize=(source_length * cell, target_length * cell))


def _draw_colorbar(ax: Axes, image: AxesImage, new_figure: Figure | None) -> None:
    if new_figure is None:  # room is taken from the axes, as everywhere in matplotlib
        scale = ax.figure.colorbar(image, ax=ax, ticks=[0, 0.5, 1])
    else:  # beside the top of the map, in a size that suits any map
        width, height = new_figure.get_size_inches()
        bar = min(max(height, _BAR_HEIGHT[0]), _BAR_HEIGHT[1])
        bounds = (1 + _BAR_GAP / width, 1 - bar / height, _BAR_WIDTH / width)
        place = ax.inset_axes((*bounds, bar / height))
        scale = new_figure.colorbar(image, cax=place, ticks=[0, 0.5, 1])
    scale.ax.tick_params(labelsize=8)
    scale.outline.set(edgecolor="0.7", linewidth=0.5)


def _draw_labels(
    ax: Axes, columns: list[str], rows: list[str], text: dict[str, Any]
) -> None:
    ax.apply_aspect()
    pixels_per_point = ax.figure.dpi / 72
    cell = ax.get_window_extent().width / len(columns)
    text = text | {"fontsize": min(_FONT_POINTS, 0.6 * cell / pixels_per_point)}
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    ax.set_xticks(range(len(columns)), columns, **text)
    ax.set_yticks(range(len(rows)), rows, **text)
    renderer = _text_measure(ax.figure.dpi)
    wide = [
        label
        for label in ax.get_xticklabels()
        if label.get_window_extent(renderer).width > 0.95 * cell
    ]
    if 4 * len(wide) <= len(columns):  # one "</s>" does not turn a row of characters
        for label in wide:
            label.set(rotation=90)
    else:
        for label in ax.get_xticklabels():
            label.set(rotation=45, ha="left", va="baseline", rotation_mode="anchor")
    # Thin lines between the cells lead the eye from a cell to its two tokens.
    ax.set_xticks(np.arange(len(columns) + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(len(rows) + 1) - 0.5, minor=True)
    line: dict[str, Any] = {"color": "0.8", "linewidth": min(0.5, 0.03 * cell)}
    ax.grid(which="minor", **line)
    ax.spines[:].set(**line)
    ax.tick_params(which="both", length=0)


def _text_measure(dpi: float) -> RendererAgg:
    """A renderer to measure with. By default matplotlib makes one as large as the
    figure for every text it measures."""
    from matplotlib.backends.backend_agg import RendererAgg

    return RendererAgg(1, 1, dpi)


def _fit_figure(figure: Figure, ax: Axes) -> None:
    """Grows the figure around the cells by what labels, title and scale take."""
    width, height = figure.get_size_inches()
    box = figure.get_tightbbox(_text_measure(figure.dpi))  # inches
    full_width, full_height = box.width + 2 * _PADDING, box.height + 2 * _PADDING
    figure.set_size_inches(full_width, full_height)
    ax.set_position(
        (
            (_PADDING - box.x0) / full_width,
            (_PADDING - box.y0) / full_height,
            width / full_width,
            height / full_height,
        )
    )
