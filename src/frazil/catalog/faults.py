"""Places where a test may stop the process for good, as a power cut would.

`FRAZIL_FAIL_POINT=name` kills the process (SIGKILL) the first time that it reaches the point; `name:3` the third time.
Without the variable a point costs one comparison.
"""

from __future__ import annotations

import os
import signal

POINTS = (
    "commit.decided",  # the new metadata is known, nothing is written
    "metadata.partly-written",  # half of the metadata file is in the folder
    "metadata.written",  # the file is durable, no pointer knows it
    "database.before-commit",  # the pointers are swapped in a transaction that is still open
    "database.after-commit",  # durable, no answer was sent
    "commit.before-reply",  # the answer is ready to be sent
)
LISTS_WRITTEN = "lists.written"  # of rebased appends: they are durable, no metadata file names them

_name, _, _count = os.environ.get("FRAZIL_FAIL_POINT", "").partition(":")
_left = int(_count or 1)
if _name and _name not in (*POINTS, LISTS_WRITTEN):
    raise ValueError(f"FRAZIL_FAIL_POINT={_name} is not one of {', '.join((*POINTS, LISTS_WRITTEN))}")


def armed(point: str) -> bool:
    """Whether the process is to die at this point."""
    return point == _name


def reach(point: str) -> None:
    """Does nothing, unless this is the point where the process must die."""
    if point == _name:
        _die()


def _die() -> None:
    global _left
    _left -= 1
    if _left <= 0:
        os.kill(os.getpid(), signal.SIGKILL)
