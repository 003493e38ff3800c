"""Which installed fonts draw a text: matplotlib's fallback list, filled by coverage."""

from __future__ import annotations

import functools
import unicodedata
import warnings
from collections.abc import Iterable

# matplotlib ships this font of placeholder boxes. Named last in the family list, it
# draws what no font has without one warning a glyph from matplotlib.
_LAST_RESORT = "Last Resort High-Efficiency"
# The first word of the Unicode names of the characters that pan-CJK fonts hold.
_CJK_SCRIPTS = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC")
_CJK_PACKAGE = "fonts-noto-cjk"
_SYMBOL_PACKAGE = "fonts-symbola"
_OTHER_PACKAGE = "fonts-noto-core"


def needs_glyph(character: str) -> bool:
    """False for characters that only join, order or space what stands beside them."""
    variation_selector = 0xFE00 <= ord(character) <= 0xFE0F
    return unicodedata.category(character)[0] not in "CZ" and not variation_selector


def font_families(text: str) -> list[str]:
    """The user's font families, then installed ones for what those do not have.

    Warns once, at the caller of the public plotting function, when there is no glyph.
    """
    from matplotlib import font_manager

    default = font_manager.FontProperties()
    missing = {character for character in text if needs_glyph(character)}
    base = font_manager.findfont(default)
    missing -= _characters(str(base), base.face_index)
    families = list(default.get_family())
    if missing:
        found, missing = _fallback_fonts(missing)
        if missing:  # perhaps a font was installed after matplotlib made its list
            _add_new_fonts()
            more, missing = _fallback_fonts(missing)
            found += more
        families += found
    if missing:
        # Points at the caller of attention_heatmap or save_heatmap.
        warnings.warn(_missing_message(missing), UserWarning, stacklevel=4)
        families.append(_LAST_RESORT)
    return families


@functools.lru_cache(maxsize=4096)
def _characters(path: str, face_index: int) -> frozenset[str]:
    """The characters of one face of a font file; of none that it draws in colour."""
    from matplotlib import ft2font

    font = ft2font.FT2Font(path, face_index=face_index)
    # matplotlib draws outlines only; colour emoji would come out blank.
    if ft2font.FaceFlags.COLOR in font.face_flags:
        return frozenset()
    return frozenset(map(chr, font.get_charmap()))


def _fallback_fonts(missing: set[str]) -> tuple[list[str], set[str]]:
    """Chooses fonts, the one with most of the missing characters first.

    Returns:
        The family names, and the characters that no installed font has.
    """
    from matplotlib import font_manager

    candidates = [
        (entry.name, missing & _characters(entry.fname, entry.index))
        for entry in font_manager.fontManager.ttflist
        if entry.style == "normal"
        and entry.weight == 400
        and entry.name != _LAST_RESORT
    ]
    region = _cjk_region(missing)
    families: list[str] = []
    while True:
        name, covered = max(
            candidates,
            key=lambda font: (
                len(font[1] & missing),
                font[0].endswith(region),
                "Sans" in font[0] and "Mono" not in font[0],
                font[0],
            ),
            default=("", set()),
        )
        if not covered & missing:
            return families, missing
        families.append(name)
        missing = missing - covered


def _cjk_region(characters: Iterable[str]) -> str:
    """The suffix of the pan-CJK families, whose glyphs differ from land to land."""
    scripts = {_script(character) for character in characters}
    if scripts & {"HIRAGANA", "KATAKANA"}:
        return " JP"
    return " KR" if "HANGUL" in scripts else " SC"


def _add_new_fonts() -> None:
    """Lets matplotlib know of font files that its cached list does not have."""
    from matplotlib import font_manager

    manager = font_manager.fontManager
    known = {entry.fname for entry in manager.ttflist}
    for path in font_manager.findSystemFonts():
        if path not in known:
            try:
                manager.addfont(path)
            except (OSError, RuntimeError, NotImplementedError):
                continue  # a broken or bitmap font: matplotlib leaves these out too


def _script(character: str) -> str:
    if unicodedata.category(character) == "So":
        return "SYMBOLS"  # their names say what they show, not where they belong
    return unicodedata.name(character, "UNNAMED").split()[0].split("-")[0]


def _missing_message(missing: set[str]) -> str:
    packages = sorted({_package(character) for character in missing})
    scripts = sorted({_script(character) for character in missing})
    shown = " ".join(
        f"{character} (U+{ord(character):04X})" for character in sorted(missing)[:10]
    )
    return (
        f"No installed font has {len(missing)} character(s) of the tokens, from "
        f"{', '.join(scripts[:5])}: {shown}{' ...' if len(missing) > 10 else ''}. "
        "Placeholder boxes are drawn instead. Install a font that has them and draw "
        f"again (on Debian or Ubuntu: apt-get install {' '.join(packages)})."
    )


def _package(character: str) -> str:
    if _script(character) in _CJK_SCRIPTS:
        return _CJK_PACKAGE
    return _SYMBOL_PACKAGE if _script(character) == "SYMBOLS" else _OTHER_PACKAGE
