import datetime
import re
import subprocess
import sys

import pytest

pytest.importorskip("babel", reason="babel (extra `dev`) is not installed")
import babel

from trainers import make_dates as module
from trainers.make_dates import LOCALES, date_forms, make_dates

SIZES = {"train": 20000, "valid": 1000, "test": 1000}


@pytest.fixture(scope="module")
def splits():
    return make_dates(SIZES, seed=0)


@pytest.fixture(scope="module")
def pairs(splits):
    return [pair for split in splits.values() for pair in split]


def written(locale, day):
    """Every text of a day, without the refused ones."""
    texts = {
        form.write(datetime.date.fromisoformat(day)) for form in date_forms(locale)
    }
    return texts - {None}


# A reader that knows nothing but the conventions in the docstring of the module.


def read_year(digits):
    if len(digits) == 4:
        return int(digits)
    return int(digits) + (1900 if int(digits) >= 50 else 2000)


def read_numbers(text):
    """The one reading of a text of numbers; None if it has two."""
    first, second, third = re.findall(r"\d+", text)
    if len(first) == 4:
        return f"{first}-{int(second):02}-{int(third):02}"
    day, month = int(first), int(second)
    if "/" in text:
        if day <= 12 and month <= 12 and day != month:
            return None
        day, month = max(day, month), min(day, month)
    return f"{read_year(third)}-{month:02}-{day:02}"


def names(kind):
    """Month numbers or weekday numbers by the words that write them."""
    found = {}
    for name in LOCALES:
        locale = babel.Locale.parse(name)
        for width in ("wide", "abbreviated"):
            for number, word in getattr(locale, kind)["format"][width].items():
                for part in re.findall(r"[^\W\d]+", word.lower()):
                    found.setdefault(part, set()).add(number)
    return found


FILLING = set(re.findall(r"\S+", "den le de del the of г года r st nd rd th er º"))


def readings(text, months, weekdays):
    """The months that a text with words can mean.

    One word names the month; the others must name weekdays or be filling words.
    """
    words = re.findall(r"[^\W\d]+", text.lower())
    found = set()
    for index, word in enumerate(words):
        others = words[:index] + words[index + 1 :]
        if word in months and all(o in weekdays or o in FILLING for o in others):
            found |= months[word]
    return found


def test_sizes_and_lines(splits):
    assert {name: len(split) for name, split in splits.items()} == SIZES
    for split in splits.values():
        for text, date in split:
            assert text == text.strip()
            assert not re.search(r"[\t\n\r\u00a0\u202f]|  ", text)
            assert 1950 <= datetime.date.fromisoformat(date).year <= 2049


def test_all_texts_are_distinct_and_no_day_is_in_two_splits(splits, pairs):
    assert len({text for text, _ in pairs}) == 22000
    days = {name: {day for _, day in split} for name, split in splits.items()}
    assert not days["train"] & days["valid"]
    assert not days["train"] & days["test"]
    assert not days["valid"] & days["test"]
    # Yet every month, day of the month and year is in the training data.
    for part, count in ((slice(0, 4), 100), (slice(5, 7), 12), (slice(8, 10), 31)):
        assert len({day[part] for day in days["train"]}) == count


def test_the_same_seed_gives_the_same_pairs_and_another_seed_others(splits):
    small = {"train": 300, "valid": 30, "test": 30}
    assert make_dates(small, seed=3) == make_dates(small, seed=3)
    assert make_dates(small, seed=3)["test"] != make_dates(small, seed=4)["test"]


def test_no_text_has_two_dates():
    known = {}
    for seed in range(3):
        for text, date in make_dates({"train": 30000}, seed=seed)["train"]:
            assert known.setdefault(text.lower(), date) == date
    assert len(known) > 60000


def test_texts_of_numbers_can_be_read_by_the_conventions(pairs):
    numbers = [p for p in pairs if not re.search(r"[^\W\d]", p[0])]
    assert len(numbers) > 2000
    for text, date in numbers:
        assert read_numbers(text) == date, text


def test_texts_with_words_can_be_read_by_the_conventions(pairs):
    months, weekdays = names("months"), names("days")
    worded = [p for p in pairs if re.search(r"[^\W\d]", p[0]) and "年" not in p[0]]
    assert len(worded) > 15000
    for text, date in worded:
        digits = re.findall(r"\d+", text)
        if len(digits) == 3:  # a weekday and numbers
            assert read_numbers(text) == date, text
            continue
        day, year = digits
        (month,) = readings(text, months, weekdays)
        assert f"{read_year(year)}-{month:02}-{int(day):02}" == date, text


def test_chinese_texts_can_be_read_by_their_marks(pairs):
    chinese = [p for p in pairs if "年" in p[0]]
    assert len(chinese) > 800
    for text, date in chinese:
        year, month, day = re.match(r"(\d+)年(\d+)月(\d+)[日号]", text).groups()
        assert f"{read_year(year)}-{int(month):02}-{int(day):02}" == date, text


def test_every_locale_has_its_share(pairs):
    scripts = {"[а-я]": 0.05, "[α-ω]": 0.05, "[年周]": 0.05}
    for script, share in scripts.items():
        texts = [text for text, _ in pairs if re.search(script, text.lower())]
        assert share < len(texts) / len(pairs) < 0.1


@pytest.mark.parametrize(
    ("locale", "expected"),
    [
        ("en_US", "Thursday, May 3, 1979|may 3rd, 1979|the 3rd of May 1979|May 3, 79"),
        ("en_GB", "3 May 1979|thursday 3 may 1979|3rd of may 1979"),
        (
            "de",
            "3. Mai 1979|Donnerstag, den 3. Mai 1979|03.05.1979|3.5.79|do., 3.5.1979",
        ),
        ("fr", "jeudi 3 mai 1979|le 3 mai 1979|3 mai 79"),
        ("es", "jueves, 3 de mayo de 1979|3 may 79|3-5-1979"),
        ("it", "giovedì 3 maggio 1979|gio 3 mag 1979"),
        ("pt", "quinta-feira, 3 de maio de 1979|3 de mai. de 1979|3 mai 1979"),
        ("nl", "3 mei 1979|do 03-05-1979|3-5-79"),
        ("pl", "czwartek, 3 maja 1979|3 maja 1979 r."),
        ("ru", "четверг, 3 мая 1979 г.|3 мая 79|03.05.1979"),
        ("el", "Πέμπτη 3 Μαΐου 1979|3 μαΐ 79"),
        ("zh", "1979年5月3日星期四|79年5月3日|1979/05/03|1979年5月3号|1979-5-3"),
        ("ja", "1979年5月3日木曜日|1979/05/03"),
        ("hu", "1979. május 3., csütörtök"),
    ],
)
def test_texts_as_people_write_them(locale, expected):
    assert set(expected.split("|")) <= written(locale, "1979-05-03")


def test_slashes_only_where_they_show_the_order():
    def slashed(locale, day):
        return {t for t in written(locale, day) if re.match(r"[\d/]+$", t)}

    assert slashed("en_US", "1979-05-03") == set()
    assert slashed("en_GB", "1979-05-03") == set()
    assert slashed("en_US", "1979-05-13") == {"5/13/1979", "5/13/79"} | {
        "05/13/1979",
        "05/13/79",
    }
    assert slashed("fr", "1979-05-13") == {"13/5/1979", "13/5/79"} | {
        "13/05/1979",
        "13/05/79",
    }
    assert "5/5/1979" in slashed("en_US", "1979-05-05") & slashed("el", "1979-05-05")


def test_two_digits_lead_only_where_they_are_marked_as_the_year():
    # Korean locale data has "79. 5. 3." as its short form.
    assert "1979. 5. 3." in written("ko", "1979-05-03")
    assert not [t for t in written("ko", "1979-05-03") if t.startswith("79")]


@pytest.mark.parametrize(
    ("day", "text"),
    [
        ("1981-03-01", "March 1st, 1981"),
        ("1981-03-02", "March 2nd, 1981"),
        ("1981-03-04", "March 4th, 1981"),
        ("1981-03-11", "March 11th, 1981"),
        ("1981-03-12", "March 12th, 1981"),
        ("1981-03-13", "March 13th, 1981"),
        ("1981-03-22", "March 22nd, 1981"),
        ("1981-03-31", "March 31st, 1981"),
    ],
)
def test_english_ordinals(day, text):
    assert text in written("en_US", day)


def test_the_first_of_a_month_in_french_italian_portuguese():
    assert "le 1er mars 1981" in written("fr", "1981-03-01")
    assert "1º marzo 1981" in written("it", "1981-03-01")
    assert "1º de março de 1981" in written("pt", "1981-03-01")


def test_locales_can_be_chosen():
    texts = [text for text, _ in make_dates({"a": 50}, seed=0, locales=["zh"])["a"]]
    assert not any(re.search("[a-zα-ωа-я]", text.lower()) for text in texts)


@pytest.mark.parametrize("locale", ["xx", "", "en-US-oops"])
def test_an_unknown_locale(locale):
    with pytest.raises(ValueError, match=f"`locales`.*Received: '{locale}'"):
        make_dates({"a": 1}, seed=0, locales=["de", locale])


def test_locales_that_disagree_on_a_month_name():
    with pytest.raises(ValueError, match="'hr', where 'srp' is month 7, and 'cs'"):
        make_dates({"a": 1}, seed=0, locales=["hr", "cs"])


def test_more_texts_than_there_are():
    with pytest.raises(
        ValueError, match=r"`train_size`\. Expected at most \d+.*10{9}$"
    ):
        make_dates({"train": 10**9}, seed=0)
    # 3 of the 36525 days for the first split. Chinese has 27 forms of each at most.
    with pytest.raises(
        ValueError, match=r"`a_size`.*at most (4|5|6|7)[0-9]: .* 3 days"
    ):
        make_dates({"a": 80, "b": 800_000}, seed=0, locales=["zh"])


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "trainers.make_dates", *arguments],
        capture_output=True,
        text=True,
    )


def test_the_script_writes_the_files_the_same_each_time(tmp_path):
    sizes = ("--train_size=50", "--valid_size=5", "--test_size=4", "--locales=de,zh")
    for name in ("one", "two/deep"):
        done = run(f"--output_dir={tmp_path / name}", *sizes, "--seed=7")
        assert done.returncode == 0, done.stderr
        assert "train.tsv: 50 dates, such as " in done.stdout
    made = {"train": 50, "valid": 5, "test": 4}
    assert sorted(p.name for p in (tmp_path / "one").iterdir()) == [
        "test.tsv",
        "train.tsv",
        "valid.tsv",
    ]
    expected = make_dates(made, seed=7, locales=["de", "zh"])
    for name in made:
        content = (tmp_path / "one" / f"{name}.tsv").read_bytes()
        assert content == (tmp_path / "two" / "deep" / f"{name}.tsv").read_bytes()
        lines = content.decode("utf-8").splitlines()
        assert lines == [f"{text}\t{date}" for text, date in expected[name]]


def test_the_script_says_what_is_wrong(tmp_path):
    done = run(f"--output_dir={tmp_path}", "--locales=klingon")
    assert done.returncode == 1
    assert "make_dates: Invalid value for argument `locales`." in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())

    (tmp_path / "file").write_text("")
    done = run(f"--output_dir={tmp_path / 'file'}", "--train_size=1")
    assert done.returncode == 1
    assert str(tmp_path / "file") in done.stderr
    assert "Traceback" not in done.stderr


def test_without_babel_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "babel", None)
    with pytest.raises(ImportError, match=r"extra `dev`.*pip install babel"):
        module.make_dates({"a": 1}, seed=0)
