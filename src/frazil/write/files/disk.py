"""The one edge where errors of disks and object stores become ours."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from frazil.errors import WriteFailed
from frazil.storage_errors import classify, hint_for

_MEANINGS = {
    errno.ENOSPC: (
        "no space left",
        "free some space, or point the sink at another folder; nothing of this batch was committed",
    ),
    errno.EDQUOT: ("the quota is used up", "raise the quota or free some space; nothing of this batch was committed"),
    errno.EFBIG: (
        "the file would pass the largest size allowed",
        "raise the limit (ulimit -f); nothing of this batch was committed",
    ),
    errno.EROFS: (
        "the file system is read-only",
        "point the sink at a folder that it may write; nothing of this batch was committed",
    ),
    errno.EACCES: ("permission denied", "let this user write there; nothing of this batch was committed"),
    errno.EPERM: ("permission denied", "let this user write there; nothing of this batch was committed"),
    errno.ENOENT: ("the folder is not there", "make the folder; nothing of this batch was committed"),
    errno.ENOTDIR: ("a part of the path is not a folder", "nothing of this batch was committed"),
}

_UNCOMMITTED = "nothing of this batch was committed"


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Turns what a disk or an object store says into `WriteFailed`, with the path and the next step."""
    try:
        yield
    except OSError as exc:
        fault = classify(exc)
        if fault.lasting and "://" in path and not path.startswith("file:"):  # a disk says it better by its number
            raise WriteFailed(path, str(exc), lasting=True, hint=f"{_UNCOMMITTED}; {hint_for(fault, path)}") from exc
        # Arrow wraps the number of the system in a text of its own.
        reason, hint = _MEANINGS.get(
            exc.errno or 0, (str(exc), f"{_UNCOMMITTED}; write it again when the store answers")
        )
        raise WriteFailed(path, reason, lasting=exc.errno in _MEANINGS, hint=hint) from exc
