"""A lake that commit 6cefdda made, at the path that its metadata names (see tests/data/old_lake/make.py)."""

from __future__ import annotations

import fcntl
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.data.old_lake.make import ARCHIVE, ROOT


@contextmanager
def old_lake() -> Iterator[Path]:
    """The folder of the lake: catalog.db, warehouse, project, recovery, delta.

    Its metadata and manifests hold absolute paths, so it is always unpacked at the same place; a lock keeps a second
    run of the tests on this machine waiting.
    """
    with ROOT.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(ROOT, ignore_errors=True)
        with tarfile.open(ARCHIVE) as archive:
            archive.extractall(ROOT, filter="data")
        try:
            yield ROOT
        finally:
            shutil.rmtree(ROOT)
