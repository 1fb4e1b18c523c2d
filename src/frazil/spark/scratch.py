"""Where a Spark on this machine puts its temporary files: a folder for each process, which goes with it, or at the next
start after a kill.

Spark itself leaves 120 MB of copied jars behind whenever it is killed, and a supervisor that starts a stream again
after each kill would fill the disk. Everything follows from Java's own setting, so `spark.local.dir` and
SPARK_LOCAL_DIRS are the user's as before. A lock, not a pid, shows who is alive: the system frees it at any
death, and numbers of processes come again.
"""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

PREFIX, LOCK = "frazil-spark-", ".lock"
OPTIONS = "spark.driver.defaultJavaOptions"  # those of the user, spark.driver.extraJavaOptions, come after it and win


def scratch_conf(conf: Mapping[str, str]) -> dict[str, str]:
    """The setting that sends temporary files of the JVM to this process's own folder; folders of dead ones are gone."""
    remove_left()
    return {
        OPTIONS: " ".join([f"-Djava.io.tmpdir={shlex.quote(str(own_folder()))}", *filter(None, [conf.get(OPTIONS)])])
    }


@cache
def own_folder() -> Path:
    """An empty folder in the system's temporary one, until this process ends."""
    import fcntl  # not on Windows

    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    held = os.open(folder / "new", os.O_CREAT | os.O_RDWR)  # never closed: the process ends, and with it the lock
    fcntl.flock(held, fcntl.LOCK_EX)
    (folder / "new").rename(folder / LOCK)  # the lock is never free while we live
    atexit.register(_remove, folder, os.getpid())
    return folder


def remove_left() -> None:
    """Removes the folders of processes of this user that did not come to do it."""
    import fcntl

    for lock in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{LOCK}"):
        try:
            if lock.parent.lstat().st_uid == os.getuid():
                with lock.open("r+") as held:
                    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(lock.parent, ignore_errors=True)
        except OSError:  # its process lives, or another one was faster
            continue


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:  # not a fork of it
        shutil.rmtree(folder, ignore_errors=True)
