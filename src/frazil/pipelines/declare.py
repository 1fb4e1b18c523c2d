"""`@pipeline`: a function from DataFrame to DataFrame, with the source it reads and the table it fills."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frazil.pipelines.sources import FileSource
from frazil.tables.declare import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    Transform = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True)
class Pipeline:
    """A declared pipeline; calling it is calling the user's function, so that it can be tested alone."""

    name: str
    source: FileSource
    target: Table
    transform: Transform

    def __call__(self, frame: DataFrame) -> DataFrame:
        return self.transform(frame)


def pipeline(*, source: FileSource, target: Table, name: str | None = None) -> Callable[[Transform], Pipeline]:
    """Declares the decorated function as a pipeline from `source` into `target`."""

    def decorate(transform: Transform) -> Pipeline:
        return Pipeline(name or transform.__name__, source, target, transform)

    return decorate
