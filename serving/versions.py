"""The version directories under a model's base path."""

import os
from pathlib import Path

_INT64_MAX = 2**63 - 1


def find_versions(base_path: str | os.PathLike[str]) -> dict[int, Path]:
    """Lists the numeric directories in `base_path`.

    Leading zeros are allowed: `00000123` is version 123. Of two names for one
    version the later in sort order counts. Anything else is ignored, so that an
    export may be written beside the versions and renamed when it is complete.

    Args:
        base_path: the directory that holds one directory a version.

    Returns:
        The directory of each version.

    Raises:
        OSError: `base_path` is missing, unreadable, or no directory.
    """
    versions = {}
    for child in sorted(Path(base_path).iterdir()):
        number = _version_number(child.name)
        if number is not None and child.is_dir():
            versions[number] = child
    return versions


def _version_number(name: str) -> int | None:
    if not (name.isascii() and name.isdigit()):
        return None
    # No int64 has more digits, and int() refuses thousands of them.
    digits = name.lstrip("0") or "0"
    if len(digits) > 19 or int(digits) > _INT64_MAX:
        return None
    return int(digits)
