"""The Spark session of tests: one for all of them, the warm Spark's if there is one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from frazil.config import Settings, load_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_shared: list[SparkSession] = []  # that of `frazil test`, for the tests in Python that it runs


@contextmanager
def spark_for_tests(settings: Settings, tell: Callable[[str], None] | None = None) -> Iterator[SparkSession]:
    """A session on this machine for small rows."""
    from frazil.spark import is_local, spark_session

    if not is_local(settings.spark.master):  # a handful of rows needs no cluster
        spark = settings.spark.model_copy(update={"master": "local[*]"})
        settings = settings.model_copy(update={"spark": spark})
    log = settings.stack.folder / "spark" / "spark.log"
    with spark_session(settings, app_name="frazil test", log=log, tell=tell) as session:
        session.conf.set("spark.sql.shuffle.partitions", "2")
        _shared.append(session)
        try:
            yield session
        finally:
            _shared.pop()


@contextmanager
def shared_session(folder: Path) -> Iterator[SparkSession]:
    """The session of `frazil test` if it runs, else one of its own."""
    if _shared:
        yield _shared[-1]
        return
    with spark_for_tests(load_settings(folder=folder)) as session:
        yield session
