"""Makes the data of the demo: dates as people write them, and the same in ISO 8601.

    python -m trainers.make_dates --output_dir=dates

writes `train.tsv`, `valid.tsv` and `test.tsv`, one `text<TAB>YYYY-MM-DD` a line:
"Thursday, May 3rd, 1979", "3 de mayo de 1979", "3.5.79", "1979年5月3日星期四". Names,
order and punctuation come from the locale data of babel; a few patterns that people
write and the locale data does not have are in `PEOPLE_WRITE`. The same seed, sizes,
locales and versions of babel and numpy give the same bytes.

Every text has one reading, so that a perfect model scores 100 %:

- A two-digit year is the last number (or is marked by 年 or the like) and means 1950 to
  2049, which are all the years there are.
- Four digits first: year, month, day.
- Numbers with dots or hyphens, year last: day, month, year, in every locale.
- Numbers with slashes, year last: locales disagree, so only dates that show their
  order are written (13/5/1979, 5/13/1979, 5/5/1979; never 3/5/1979).
- No month name means two months in the chosen locales.

All texts are distinct, and no *day* of one file occurs in another: valid and test are
days that the model has never seen in any language.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import itertools
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from absl import app, flags

from keras_attn.files import write_text_atomically

FIRST_DAY = datetime.date(1950, 1, 1)
LAST_DAY = datetime.date(2049, 12, 31)
# Latin scripts of several orders and alphabets, Cyrillic, Greek and Chinese.
LOCALES = (
    *("en_US", "en_GB", "de", "fr", "es", "it", "pt", "nl", "pl"),
    *("ru", "el", "zh"),
)
# By language, in the pattern letters of CLDR. {th} is the ending of an ordinal.
PEOPLE_WRITE = {
    "en": (
        "d'{th}' MMMM y",
        "d'{th}' 'of' MMMM y",
        "'the' d'{th}' 'of' MMMM y",
        "MMMM d'{th}', y",
        "MMM d'{th}' y",
        "d MMM y",
        "MMM d yy",
    ),
    "de": ("'den' d. MMMM y", "d. MMM yy", "EEEE, 'den' d. MMMM y"),
    "fr": ("'le' d'{th}' MMMM y", "d'{th}' MMMM y", "EEEE d'{th}' MMMM y"),
    "es": ("d 'de' MMMM 'del' y", "d MMMM y", "EEEE d MMMM y", "d-M-y"),
    "it": ("d'{th}' MMMM y", "EEE d'{th}' MMM y", "d-M-y"),
    "pt": ("d MMMM y", "d'{th}' 'de' MMMM 'de' y", "d-M-y"),
    "nl": ("d MMMM yy",),
    "pl": ("d MMMM y 'r.'", "EEEE, d MMMM y 'r.'"),
    "ru": ("d MMMM y", "d MMM y", "d MMMM y 'года'"),
    "zh": ("y年MM月dd日", "y年M月d号", "yy年M月d日", "y年M月d日 EEE", "y-M-d", "y.M.d"),
}


@dataclasses.dataclass(frozen=True)
class Form:
    """One way to write a date: a locale, a CLDR pattern and a habit of typing."""

    locale: Any  # babel.Locale
    pattern: str
    style: str = "as is"  # or "lower", or "plain": lower case without dots and commas

    def write(self, day: datetime.date) -> str | None:
        """The text for `day`, or None where the text would have two readings."""
        if not _shows_its_order(self.pattern, day):
            return None
        text = _babel().dates.format_date(day, self.pattern, self.locale)
        text = text.replace("{th}", _ordinal_ending(self.locale.language, day.day))
        # People type plain spaces and no direction marks.
        text = re.sub("[\u200e\u200f]", "", re.sub(r"\s+", " ", text)).strip()
        if self.style == "plain":
            text = re.sub(r"[.,]", "", text)
        return text if self.style == "as is" else text.lower()


def date_forms(locale: str) -> list[Form]:
    """Lists the forms of a locale.

    Args:
        locale: a locale name that babel knows, such as "en_US" or "zh".

    Returns:
        The forms, each once, always in the same order.

    Raises:
        ValueError: babel knows no such locale.
        ImportError: babel is not installed.
    """
    babel = _babel()
    try:
        parsed = babel.Locale.parse(locale)
    except (ValueError, babel.UnknownLocaleError) as error:
        raise ValueError(
            "Invalid value for argument `locales`. Expected names of locales that "
            f"babel knows, such as 'en_US' or 'de'. Received: {locale!r}"
        ) from error
    patterns = [parsed.date_formats[name].pattern for name in parsed.date_formats]
    skeletons = parsed.datetime_skeletons
    for skeleton in ("yMd", "yMEd", "yMMMd", "yMMMEd", "yMMMMd"):
        if skeleton in skeletons:
            patterns.append(str(skeletons[skeleton].pattern))
    patterns += PEOPLE_WRITE.get(parsed.language, ())
    variants = [v for pattern in patterns for v in _variants(pattern)]
    return [
        Form(parsed, pattern, style)
        for pattern in dict.fromkeys(variants)
        for style in _styles(pattern)
    ]


def make_dates(
    sizes: dict[str, int], *, seed: int, locales: Sequence[str] = LOCALES
) -> dict[str, list[tuple[str, str]]]:
    """Makes the splits, each locale with an equal share.

    Args:
        sizes: number of pairs wanted, by the name of the split.
        seed: the same seed gives the same pairs.
        locales: locale names that babel knows.

    Returns:
        By the name of the split: `(text, YYYY-MM-DD)` pairs in random order.

    Raises:
        ValueError: unknown or disagreeing locales, or a size beyond what there is.
        ImportError: babel is not installed.
    """
    forms = [date_forms(locale) for locale in dict.fromkeys(locales)]
    _check_month_names(forms)
    random = np.random.default_rng(seed)
    count = (LAST_DAY - FIRST_DAY).days + 1
    days = [FIRST_DAY + datetime.timedelta(int(i)) for i in random.permutation(count)]
    # Days are dealt out in proportion to the sizes.
    bounds = np.cumsum([0, *sizes.values()]) * count // max(sum(sizes.values()), 1)
    return {
        name: _sample(name, days[start:stop], forms, sizes[name], random)
        for name, (start, stop) in zip(sizes, itertools.pairwise(bounds), strict=True)
    }


def _sample(
    name: str,
    days: list[datetime.date],
    forms: list[list[Form]],
    size: int,
    random: np.random.Generator,
) -> list[tuple[str, str]]:
    """Draws distinct texts, one locale after the other until the size is reached."""
    found: dict[str, str] = {}
    most = len(days) * sum(map(len, forms))
    if size > most:  # said at once, not after minutes of writing them all
        raise _too_many(name, size, most, len(days))
    streams = [_stream(days, choices, random) for choices in forms]
    for text, day in _take_turns(streams):
        if len(found) == size:
            break
        found.setdefault(text, day.isoformat())
    if len(found) < size:
        raise _too_many(name, size, len(found), len(days))
    pairs = list(found.items())
    return [pairs[i] for i in random.permutation(size)]


def _too_many(name: str, size: int, most: int, days: int) -> ValueError:
    return ValueError(
        f"Invalid value for argument `{name}_size`. Expected at most {most}: its share "
        f"of {days} days has no more texts in these locales. Received: {size}"
    )


def _stream(
    days: list[datetime.date], forms: list[Form], random: np.random.Generator
) -> Iterator[tuple[str, datetime.date]]:
    """Every day in every form, in random order."""
    for index in random.permutation(len(days) * len(forms)):
        day, form = days[index // len(forms)], forms[index % len(forms)]
        text = form.write(day)
        if text is not None:
            yield text, day


def _take_turns(streams: list[Iterator[Any]]) -> Iterator[Any]:
    while streams:
        heads = [(stream, next(stream, None)) for stream in streams]
        yield from (head for _, head in heads if head is not None)
        streams = [stream for stream, head in heads if head is not None]


def _variants(pattern: str) -> list[str]:
    """A pattern of the locale data, and how else people write it.

    Month names come short and long, numbers with and without a leading zero, and the
    year, where it stands last, in two digits as well. A pattern whose order could be
    misread gives nothing.
    """
    fields = _fields(pattern)
    if fields not in ("yMd", "dMy", "Mdy"):
        return []
    if fields == "yMd" and "yy" in pattern:
        return [pattern] if re.match("yy[年년]", pattern) else []
    if "MMM" in pattern:
        patterns = [_with(pattern, month) for month in ("MMM", "MMMM")]
    else:
        patterns = [_with(_with(pattern, "M"), "d"), _with(_with(pattern, "MM"), "dd")]
    short_year = fields != "yMd" and not re.search("E|c|{th}", pattern)
    years = ("y", "yy") if short_year else ("y",)
    return [_with(pattern, year) for pattern in patterns for year in years]


def _styles(pattern: str) -> tuple[str, ...]:
    if "MMM" in pattern:
        return ("as is", "lower", "plain")
    # Dots hold numbers apart, so they stay.
    return ("as is", "lower") if re.search("[Ec]", pattern) else ("as is",)


def _with(pattern: str, field: str) -> str:
    """Replaces the field of that letter, and nothing within quotes."""
    replaced = re.compile(f"('[^']*')|{field[0]}+")
    return replaced.sub(lambda match: match[1] or field, pattern)


@functools.cache
def _fields(pattern: str) -> str:
    """The order of year, month and day, such as "dMy"."""
    return re.sub("'[^']*'|[^yMd]|(.)(?=\\1)", "", pattern)


def _shows_its_order(pattern: str, day: datetime.date) -> bool:
    if "MMM" in pattern or _fields(pattern) == "yMd":
        return True
    if "/" in pattern:
        return day.day > 12 or day.day == day.month
    return _fields(pattern) == "dMy"


def _ordinal_ending(language: str, day: int) -> str:
    """ "rd" for 3 in English; elsewhere only the first of a month has an ending."""
    if language == "en":
        teen = 11 <= day <= 13
        return "th" if teen else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return {"fr": "er", "it": "º", "pt": "º"}.get(language, "") if day == 1 else ""


def _check_month_names(forms: list[list[Form]]) -> None:
    """Raises an error if a month name of one locale is another month elsewhere."""
    known: dict[str, tuple[int, str]] = {}
    for locale in (choices[0].locale for choices in forms):
        for width in ("wide", "abbreviated"):
            for month, name in locale.months["format"][width].items():
                name = name.lower().removesuffix(".")
                other, elsewhere = known.setdefault(name, (month, str(locale)))
                if month != other:
                    raise ValueError(
                        "Invalid value for argument `locales`. Expected locales that "
                        f"agree on what a month name means. Received: {elsewhere!r}, "
                        f"where {name!r} is month {other}, and {str(locale)!r}, where "
                        f"it is month {month}"
                    )


def _babel() -> Any:
    try:
        import babel
        import babel.dates
    except ImportError as error:
        raise ImportError(
            "Making dates needs babel, which is in the extra `dev`. Install it with: "
            "pip install babel"
        ) from error
    return babel


def define_flags() -> None:
    """Defines the flags; called when this module is the program."""
    flags.DEFINE_string(
        "output_dir", None, "Directory for the three files.", required=True
    )
    for name, size in (("train", 20000), ("valid", 1000), ("test", 1000)):
        flags.DEFINE_integer(
            f"{name}_size", size, f"Number of lines of {name}.tsv.", lower_bound=1
        )
    flags.DEFINE_integer("seed", 0, "Seed of all choices.", lower_bound=0)
    flags.DEFINE_list(
        "locales", list(LOCALES), "Names of the locales, as babel knows them."
    )


def main(arguments: Sequence[str]) -> None:
    if len(arguments) > 1:
        raise app.UsageError(f"Expected flags only. Received: {arguments[1:]}")
    values = flags.FLAGS
    sizes: dict[str, Any] = {
        name: values[f"{name}_size"].value for name in ("train", "valid", "test")
    }
    directory = Path(values.output_dir)
    try:
        splits = make_dates(sizes, seed=values.seed, locales=values.locales)
        directory.mkdir(parents=True, exist_ok=True)
        for name, pairs in splits.items():
            lines = "".join(f"{text}\t{date}\n" for text, date in pairs)
            path = directory / f"{name}.tsv"
            write_text_atomically(path, lines)
            print(f"{path}: {len(pairs)} dates, such as {' = '.join(pairs[0])}")
    except (ValueError, ImportError, OSError) as error:
        sys.exit(f"make_dates: {error}")


if __name__ == "__main__":
    define_flags()
    app.run(main)
