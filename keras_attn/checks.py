"""Checks of arguments that several packages share, in one form of words."""

from collections.abc import Collection


def check_positive(name: str, value: int) -> int:
    """`value` if it is an integer above 0, a ValueError that names it otherwise."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise _invalid(name, value, "a positive integer")
    return value


def check_fraction(name: str, value: float) -> float:
    """`value` if 0 <= value < 1, a ValueError that names it otherwise."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0 <= value < 1:
        raise _invalid(name, value, "a number of at least 0 and below 1")
    return value


def check_one_of(name: str, value: str, allowed: Collection[str]) -> str:
    """`value` if it is one of `allowed`, a ValueError that names it otherwise."""
    if value not in allowed:
        raise _invalid(name, value, f"one of {', '.join(map(repr, allowed))}")
    return value


def _invalid(name, value, expected):
    return ValueError(
        f"Invalid value for argument `{name}`. Expected {expected}. "
        f"Received: {name}={value!r}"
    )
