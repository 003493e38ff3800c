"""The corpus of the benchmarks on real text, read in place."""

import pathlib

RECIPE = "trainers/recipes/multi30k-de-en-bahdanau.flags"
_FOLDER = pathlib.Path("../shared/data/multi30k/tok")


def missing() -> str | None:
    """Why the benchmarks on it cannot run, if they cannot."""
    if _FOLDER.is_dir() and pathlib.Path(RECIPE).exists():
        return None
    return f"skipped: it takes {_FOLDER} and the project's root as working directory"


def test_set() -> tuple[list[str], list[str]]:
    """German sources and English references of test_2016."""
    german, english = (
        (_FOLDER / f"test_2016_flickr.lc.norm.tok.{language}")
        .read_text(encoding="utf-8")
        .splitlines()
        for language in ("de", "en")
    )
    return german, english
