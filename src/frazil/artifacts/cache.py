"""The folder that downloads are kept in, and how a thing gets into it whole or not at all."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from frazil.errors import DownloadError


def cache_folder() -> Path:
    """Where downloads are kept: FRAZIL_CACHE, else `frazil` in the user's cache folder."""
    if named := os.environ.get("FRAZIL_CACHE"):
        return Path(named).expanduser().absolute()
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "frazil"


@dataclass(frozen=True)
class Work:
    """A folder to build in. Programs started for it inherit `lock`, so that one that outlives us still keeps others
    out.
    """

    folder: Path
    lock: int


def fill_once(target: Path, build: Callable[[Work], Path], *, is_whole: Callable[[Path], bool] = Path.is_dir) -> Path:
    """`target`, made by `build` the first time: it returns the finished folder, which is renamed into place.

    One process builds while others wait. A build that fails leaves its work folder, so that the next one can go on from
    there.
    """
    if is_whole(target):
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target) as lock:
            if not is_whole(target):
                _fill(target, build, lock)
    except OSError as exc:
        hint = "set FRAZIL_CACHE to a folder with room that you may write to"
        reason = f"the cache {target.parent} cannot be used: {exc.strerror or exc}"
        raise DownloadError(target.name, reason, hint=hint, path=str(target.parent)) from exc
    return target


def _fill(target: Path, build: Callable[[Work], Path], lock: int) -> None:
    shutil.rmtree(target, ignore_errors=True)  # damaged: it was here, but was not whole
    work = target.with_name(f".{target.name}.partial")
    work.mkdir(exist_ok=True)
    build(Work(work, lock)).rename(target)
    shutil.rmtree(work, ignore_errors=True)


@contextmanager
def _locked(target: Path) -> Iterator[int]:
    import fcntl  # not on Windows, where nothing is downloaded, but where the folder has a name

    file = target.with_name(f".{target.name}.lock")
    lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for {target.name}, which is being fetched already", file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock
    finally:
        os.close(lock)
