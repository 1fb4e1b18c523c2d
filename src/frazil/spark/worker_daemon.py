"""The process from which Spark forks its Python workers, with what they need loaded: then it is loaded once, not by
each of them.

Measured: 2.7 s of CPU and 100 MB a worker, and a run has two workers a core. Spark starts it by name
(`spark.python.daemon.module`).
"""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import suppress
from pathlib import Path
from zipimport import zipimporter

FOLDER = "FRAZIL_WORKER_FOLDER"  # of the command whose tasks these are, if Spark was started elsewhere
# Spark asks for pandas in every worker; sqlglot reads the checks.
MODULES = (
    "pandas",
    "sqlglot",
    "pyspark.worker",
    "frazil.pipelines.files.read_csv",
    "frazil.pipelines.files.rows",
    "frazil.sinks.spark.frame_rows",
    "frazil.pipelines.upsert.task",
)


def main() -> None:
    """Loads, and hands over to Spark's own daemon."""
    from pyspark import daemon

    enter_folder()
    for name in MODULES:
        with suppress(ImportError):  # a worker that needs it says so in its own words
            importlib.import_module(name)
    list_archives_when_they_changed()
    daemon.manager()  # type: ignore[no-untyped-call]  # PySpark's


def enter_folder() -> None:
    """Workers of a warm Spark work where the command does, and find its modules there."""
    if folder := os.environ.get(FOLDER):
        os.chdir(folder)
        sys.path[0] = folder  # `python -m` has put the folder there in which the JVM was started


def list_archives_when_they_changed() -> None:
    """From now on `importlib.invalidate_caches()` lists an archive again only if its file changed.

    Every Python task of Spark calls it, and the jars of Spark's packages are on Python's path: to list Iceberg's again
    took 0.6 s of CPU a task.
    """
    listed = {finder.archive: _version(finder.archive) for finder in _archives()}
    list_again = zipimporter.invalidate_caches

    def invalidate_caches(self: zipimporter) -> None:
        version = _version(self.archive)
        if listed.get(self.archive) != version:
            list_again(self)
            listed[self.archive] = version

    zipimporter.invalidate_caches = invalidate_caches  # type: ignore[method-assign]


def _archives() -> list[zipimporter]:
    return [finder for finder in sys.path_importer_cache.values() if isinstance(finder, zipimporter)]


def _version(path: str) -> tuple[int, int] | None:
    """What changes with the file; None if it is gone."""
    try:
        facts = Path(path).stat()
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_size


if __name__ == "__main__":
    main()
