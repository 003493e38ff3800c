"""Peak memory of a piece of work, from Linux's own account of the process."""

import pathlib
import re
from collections.abc import Callable

_PROCESS = pathlib.Path("/proc/self")


def peak_growth(work: Callable[[], object]) -> int:
    """Bytes by which resident memory at its highest in `work` exceeds that before it.

    Meant for a process that has done nothing of the kind before: memory that earlier
    work has freed may still be resident, and would be used again unseen.

    Raises:
        OSError: the system does not reset the peak; it takes Linux.
    """
    # Sets VmHWM, the highest resident size so far, to the present one.
    (_PROCESS / "clear_refs").write_text("5", encoding="ascii")
    before = _status("VmRSS")
    work()
    return _status("VmHWM") - before


def _status(name: str) -> int:
    text = (_PROCESS / "status").read_text(encoding="ascii")
    found = re.search(rf"^{name}:\s+(\d+) kB$", text, re.M)
    if found is None:
        raise OSError(f"{_PROCESS / 'status'} has no line {name}")
    return 1024 * int(found[1])
