import io
import itertools
import subprocess
import sys
import threading
import warnings

import matplotlib
import numpy as np
import pytest
from matplotlib import font_manager
from matplotlib.figure import Figure

from keras_attn import _fonts, files
from keras_attn.plots import attention_heatmap, save_heatmap

BUNDLED_FONTS = matplotlib.get_data_path()
SCRIPT_A = "\U0001d49c"  # MATHEMATICAL SCRIPT CAPITAL A: STIX has it, DejaVu has not


@pytest.fixture
def bundled_fonts(monkeypatch):
    """Only the fonts that come with matplotlib, none of which holds Chinese."""
    manager = font_manager.fontManager
    entries = [e for e in manager.ttflist if e.fname.startswith(BUNDLED_FONTS)]
    monkeypatch.setattr(manager, "ttflist", entries)
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [])
    return entries


def labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def draw(axes):
    """Draws as a saved file would; glyph warnings of matplotlib come only here."""
    axes.figure.savefig(io.BytesIO(), format="png")


def boxes(texts):
    return [text.get_window_extent() for text in texts]


def test_every_cell_stands_where_its_tokens_are():
    attention = np.array([[0.7, 0.2, 0.1], [0.0, 0.25, 0.75]])
    axes = attention_heatmap(attention, ["das", "Haus", "."], ["the", "house"])
    (image,) = axes.images
    np.testing.assert_allclose(image.get_array(), attention, rtol=1e-6)
    # Columns are 0..2 from left to right, rows are 0..1 from top to bottom.
    assert image.get_extent() == [-0.5, 2.5, 1.5, -0.5]
    assert image.origin == "upper"
    assert list(axes.get_xticks()) == [0, 1, 2]
    assert labels(axes.xaxis) == ["das", "Haus", "."]
    assert list(axes.get_yticks()) == [0, 1]
    assert labels(axes.yaxis) == ["the", "house"]
    # And on the page: left to right, top to bottom, labels beside their cells.
    axes.figure.canvas.draw()
    pixel = axes.transData.transform
    assert pixel((0, 0))[0] < pixel((2, 0))[0]
    assert pixel((0, 0))[1] > pixel((0, 1))[1]
    for row, box in enumerate(boxes(axes.get_yticklabels())):
        assert box.y0 < pixel((0, row))[1] < box.y1
        assert box.x1 < pixel((-0.5, row))[0]
    for column, box in enumerate(boxes(axes.get_xticklabels())):
        assert box.x0 < pixel((column, 0))[0] < box.x1
        assert box.y0 > pixel((column, -0.5))[1]


def test_colours_run_from_white_at_0_to_black_at_1_whatever_the_values():
    axes = attention_heatmap([[0.2, 0.3]], ["a", "b"], ["c"])
    (image,) = axes.images
    assert image.get_clim() == (0, 1)
    assert image.to_rgba([0.0])[0].tolist() == [1, 1, 1, 1]
    assert image.to_rgba([1.0])[0].tolist() == [0, 0, 0, 1]


def test_cells_are_square_and_the_figure_grows_with_the_tokens():
    sizes = {}
    for length in (2, 60):
        tokens = ["▁token"] * length
        axes = attention_heatmap(np.eye(length), tokens, tokens)
        axes.figure.canvas.draw()
        box = axes.get_window_extent()
        assert box.width == pytest.approx(box.height, rel=1e-3)
        sizes[length] = box.width / axes.figure.dpi
    assert sizes[2] == pytest.approx(1.0)  # two cells of half an inch
    assert sizes[60] == pytest.approx(60 * 0.24)  # sixty of the smallest that read


@pytest.mark.parametrize("length", [1, 2, 25, 60])
def test_no_label_is_clipped_or_runs_into_another(length):
    source = [f"▁Donaudampfschiff{i}" for i in range(length)]
    target = [f"▁steamship{i}" for i in range(length)]
    axes = attention_heatmap(np.eye(length), source, target, title="t" * 50)
    figure = axes.figure
    figure.canvas.draw()
    full = figure.bbox
    for box in boxes([*axes.get_xticklabels(), *axes.get_yticklabels(), axes.title]):
        assert box.x0 >= full.x0
        assert box.y0 >= full.y0
        assert box.x1 <= full.x1
        assert box.y1 <= full.y1
    rows = boxes(axes.get_yticklabels())
    assert all(low.y1 < high.y0 for high, low in itertools.pairwise(rows))
    # Slanted labels: the distance between neighbours is larger than a line is high.
    points = axes.get_xticklabels()[0].get_fontsize()
    assert points == 10
    if length > 1:
        pitch = axes.get_window_extent().width / figure.dpi * 72 / length
        assert pitch * np.sin(np.pi / 4) > points


def test_a_very_long_pair_stays_within_forty_inches():
    axes = attention_heatmap(np.eye(200), list("a" * 200), list("b" * 200))
    assert axes.get_window_extent().width / axes.figure.dpi == pytest.approx(40)
    assert 4 < axes.get_yticklabels()[0].get_fontsize() < 10


def test_labels_are_slanted_only_when_they_need_the_room():
    def rotations(tokens):
        axes = attention_heatmap(np.full((1, len(tokens)), 0.1), tokens, ["x"])
        return {label.get_rotation() for label in axes.get_xticklabels()}

    assert rotations(list("saturday october 13 1984")) == {0}
    assert rotations([*"saturday october 13 1984", "</s>"]) == {0, 90}
    assert rotations(["international", "understanding", "a", "b"]) == {45}


def test_tokens_are_shown_as_text_and_stay_distinguishable(bundled_fonts):
    tokens = ["$x_1$", "\\frac", "a_b", "▁a_b", "▁", "_", " ", "  ", "\t", "\n", "a "]
    tokens += ["\u3000", "\u200b", "\u202f", "\x07", "\ud800", ""]
    axes = attention_heatmap(np.zeros((1, len(tokens))), tokens, ["$5$"], title="$a$")
    shown = labels(axes.xaxis)
    assert shown[:11] == [*tokens[:6], "␣", "␣␣", "⇥", "↵", "a␣"]
    assert shown[11:] == ["U+3000", "U+200B", "U+202F", "U+0007", "U+D800", ""]
    assert not any(label.get_parse_math() for label in axes.get_xticklabels())
    assert not axes.title.get_parse_math()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw(axes)
    assert labels(axes.yaxis) == ["$5$"]


def test_a_very_long_token_is_shortened_in_the_middle():
    axes = attention_heatmap([[1.0]], ["a" * 50 + "b" * 50], ["y"])
    assert labels(axes.xaxis) == ["a" * 20 + "…" + "b" * 19]


def test_right_to_left_words_are_drawn_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        axes = attention_heatmap([[0.5, 0.5]], ["שלום", "السلام"], ["peace"])
        draw(axes)
    assert labels(axes.xaxis) == ["שלום", "السلام"]


def test_a_missing_glyph_is_one_warning_that_names_the_package(bundled_fonts):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        axes = attention_heatmap(np.eye(3), list("图书馆"), ["a", "b", "c"])
        draw(axes)
    (warning,) = caught
    assert warning.category is UserWarning
    assert warning.filename == __file__
    message = str(warning.message)
    assert "3 character(s) of the tokens, from CJK:" in message
    assert "图 (U+56FE)" in message
    assert "apt-get install fonts-noto-cjk)" in message


def test_saving_warns_once_as_well_and_at_the_callers_line(bundled_fonts, tmp_path):
    with pytest.warns(UserWarning, match="fonts-noto-cjk") as caught:
        save_heatmap(tmp_path / "a.png", [[1.0]], ["馆"], ["x"])
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize(
    ("character", "package"),
    [
        ("ひ", "fonts-noto-cjk"),
        ("한", "fonts-noto-cjk"),
        ("。", "fonts-noto-cjk"),
        ("\U0001f9ff", "fonts-symbola"),
        ("ព", "fonts-noto-core"),
    ],
)
def test_the_package_fits_the_script(bundled_fonts, character, package):
    with pytest.warns(UserWarning, match=f"apt-get install {package}\\)"):
        attention_heatmap([[1.0]], [character], ["x"])


def test_emoji_are_named_as_symbols(bundled_fonts):
    with pytest.warns(UserWarning, match=r"from SYMBOLS: \U0001f9ff \(U\+1F9FF\)\."):
        attention_heatmap([[1.0]], ["\U0001f9ff"], ["x"])


def test_a_long_list_of_missing_characters_is_cut(bundled_fonts):
    characters = [chr(0x4E00 + i) for i in range(30)]
    with pytest.warns(UserWarning, match=r"has 30 character.*U\+4E09\) \.\.\.\. Pla"):
        attention_heatmap(np.zeros((1, 30)), characters, ["x"])


def test_an_installed_font_that_has_the_characters_is_used(bundled_fonts):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        axes = attention_heatmap([[1.0]], [SCRIPT_A], ["x"])
        draw(axes)
    family = axes.get_xticklabels()[0].get_fontfamily()
    assert family == [*matplotlib.rcParams["font.family"], "STIXGeneral"]


def test_a_font_installed_after_matplotlib_made_its_list_is_found(
    bundled_fonts, monkeypatch
):
    stix = next(e.fname for e in bundled_fonts if e.fname.endswith("STIXGeneral.ttf"))
    stale = [e for e in bundled_fonts if not e.name.startswith("STIX")]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", stale)
    with pytest.warns(UserWarning, match="fonts-noto-core"):
        attention_heatmap([[1.0]], [SCRIPT_A], ["x"])
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [__file__, stix])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        axes = attention_heatmap([[1.0]], [SCRIPT_A], ["x"])
    assert axes.get_xticklabels()[0].get_fontfamily()[-1] == "STIXGeneral"


def test_fonts_are_chosen_by_coverage_then_region_then_sans(monkeypatch):
    def entry(name, index, **properties):
        return font_manager.FontEntry(
            fname="all.ttc", index=index, name=name, weight=400, **properties
        )

    faces = {
        "Serif CJK SC": set("汉字かな"),
        "Sans CJK JP": set("汉字かな"),
        "Sans CJK SC": set("汉字かな"),
        "Sans Mono CJK SC": set("汉字かな"),
        "Only Han": set("汉"),
        "Thai Sans": set("ไ"),
    }
    entries = [entry(name, index) for index, name in enumerate(faces)]
    entries.append(entry("Italic", 0, style="italic"))
    monkeypatch.setattr(font_manager.fontManager, "ttflist", entries)
    holdings = list(faces.values())
    monkeypatch.setattr(_fonts, "_characters", lambda path, index: holdings[index])
    assert _fonts._fallback_fonts(set("汉字")) == (["Sans CJK SC"], set())
    assert _fonts._fallback_fonts(set("汉か")) == (["Sans CJK JP"], set())
    assert _fonts._fallback_fonts(set("汉字ไ한")) == (
        ["Sans CJK SC", "Thai Sans"],
        {"한"},
    )


def test_a_map_in_given_axes_keeps_the_figure_and_fits_the_labels_to_it():
    figure = Figure(figsize=(6, 3))
    left, right = figure.subplots(1, 2)
    drawn = attention_heatmap(np.eye(20), list("a" * 20), list("b" * 20), ax=right)
    assert drawn is right
    assert not left.images
    assert figure.get_size_inches().tolist() == [6, 3]
    cell = right.get_window_extent().width / figure.dpi * 72 / 20
    size = right.get_yticklabels()[0].get_fontsize()
    assert 0 < size < cell


def test_options():
    axes = attention_heatmap(
        [[0.5]], ["a"], ["b"], title="Haus", cmap="Blues", colorbar=False
    )
    assert axes.get_title() == "Haus"
    assert axes.images[0].get_cmap().name == "Blues"
    assert not axes.child_axes
    assert len(axes.figure.axes) == 1
    (scale,) = attention_heatmap([[0.5]], ["a"], ["b"]).child_axes
    assert labels(scale.yaxis) == ["0.0", "0.5", "1.0"]


@pytest.mark.parametrize(
    ("attention", "source", "target", "words"),
    [
        ([[1, 0]], ["a"], ["b"], r"\[T, S\] = \[1, 1\].*shape \[1, 2\]"),
        ([[1, 0]], ["a"], ["b", "c"], "2 target tokens and 1 source"),
        ([1.0], ["a"], ["b"], r"shape \[1\]"),
        ([[1.5]], ["a"], ["b"], "between 0 and 1.*from 1.5 to 1.5"),
        ([[-0.5]], ["a"], ["b"], "between 0 and 1.*-0.5"),
        ([[float("nan")]], ["a"], ["b"], "from nan"),
        (np.zeros((0, 1)), ["a"], [], "`target_tokens`.*empty text"),
        (np.zeros((1, 0)), [], ["a"], "`source_tokens`.*empty text"),
    ],
)
def test_bad_values(attention, source, target, words):
    with pytest.raises(ValueError, match=words):
        attention_heatmap(attention, source, target)


@pytest.mark.parametrize("tokens", ["ab", b"ab", [b"a", b"b"], [1, 2]])
def test_tokens_are_a_sequence_of_str(tokens):
    with pytest.raises(TypeError, match=r"`source_tokens`\. Expected a sequence of"):
        attention_heatmap([[0.5, 0.5]], tokens, ["x"])


def test_weights_of_low_precision_may_round_above_1():
    axes = attention_heatmap([[1.0004]], ["a"], ["b"])
    assert axes.images[0].get_array().max() == pytest.approx(1.0004)


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("a.png", b"\x89PNG\r\n"),
        ("a.SVG", b"<?xml"),
        ("a.pdf", b"%PDF-"),
        ("Straße 1.5.png", b"\x89PNG\r\n"),
    ],
)
def test_saves_each_format(tmp_path, name, start):
    written = save_heatmap(tmp_path / name, [[0.5]], ["a"], ["b"], title="t")
    assert written == tmp_path / name
    assert written.read_bytes().startswith(start)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_dpi_scales_the_png(tmp_path):
    from PIL import Image

    def width(dpi):
        path = save_heatmap(tmp_path / f"{dpi}.png", [[0.5]], ["a"], ["b"], dpi=dpi)
        with Image.open(path) as image:
            return image.width

    assert width(200) == pytest.approx(2 * width(100), abs=2)


@pytest.mark.parametrize("name", ["a.jpeg", "a", "png", "a.png.gz"])
def test_an_unknown_extension_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match=r"`path`.*\.png, \.svg or \.pdf"):
        save_heatmap(tmp_path / name, [[0.5]], ["a"], ["b"])
    assert not list(tmp_path.iterdir())


def test_a_missing_directory_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no directory .*nowhere"):
        save_heatmap(tmp_path / "nowhere" / "a.png", [[0.5]], ["a"], ["b"])


def test_a_failed_save_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "a.png"
    path.write_bytes(b"old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(files.os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        save_heatmap(path, [[0.5]], ["a"], ["b"])
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_importing_the_module_imports_no_matplotlib():
    code = (
        "import sys; from keras_attn import plots; "
        "sys.exit(any(m.split('.')[0] == 'matplotlib' for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_drawing_imports_no_pyplot():
    code = (
        "import sys; from keras_attn.plots import attention_heatmap; "
        "attention_heatmap([[1.0]], ['a'], ['b']); "
        "sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_drawing_changes_no_setting(tmp_path):
    def settings():  # reading "backend" would choose one
        return {
            k: matplotlib.rcParams[k] for k in matplotlib.rcParams if k != "backend"
        }

    before = settings()
    save_heatmap(tmp_path / "a.svg", [[0.5]], ["a"], ["b"], title="c")
    assert settings() == before


def test_threads_draw_the_same_file_as_one_alone(tmp_path):
    def save(name):
        save_heatmap(tmp_path / name, np.eye(4), list("abcd"), list("efgh"))

    save("alone.png")
    names = [f"{i}.png" for i in range(4)]
    threads = [threading.Thread(target=save, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone = (tmp_path / "alone.png").read_bytes()
    assert [(tmp_path / name).read_bytes() for name in names] == [alone] * 4
