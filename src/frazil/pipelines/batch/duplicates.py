"""Rows of one key side by side, the one to keep last: then the task that writes them needs to look at neighbours alone.

Spark sorts, and spills to disk what does not fit; no task holds more than a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    TimestampType,
    TimestamptzType,
)

from frazil.errors import PipelineError
from frazil.pipelines import Pipeline
from frazil.pipelines.files import POSITION
from frazil.spark import quoted

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyspark.sql import Column, DataFrame

_IN_SPARK: dict[type[IcebergType], str] = {
    BooleanType: "boolean",
    IntegerType: "int",
    LongType: "bigint",
    FloatType: "float",
    DoubleType: "double",
    DateType: "date",
    TimestampType: "timestamp_ntz",
    TimestamptzType: "timestamp",
}


def sort_by_key(frame: DataFrame, pipeline: Pipeline, schema: Schema, *, partitions: int) -> DataFrame:
    """The frame, with all rows of a key in one partition, next to each other, in the order that decides which one is
    kept.
    """
    if missing := [name for name in (*pipeline.key, *pipeline.order_by) if name not in frame.columns]:
        raise PipelineError(
            f"pipeline '{pipeline.name}': the function gives no column '{missing[0]}', which decides over duplicates; "
            f"it gives {', '.join(frame.columns)}",
            pipeline=pipeline.name,
            column=missing[0],
        )
    key = _values(frame, pipeline.key, schema)
    order = _values(frame, pipeline.order_by, schema)
    at = [frame[POSITION]] if POSITION in frame.columns else []
    return frame.repartition(partitions, *key).sortWithinPartitions(*key, *order, *at)


def _values(frame: DataFrame, names: Sequence[str], schema: Schema) -> list[Column]:
    """The columns as the table will have them: as texts, 9 would come after 10, and 1.0 would not be 1.00."""
    from pyspark.sql import functions as F

    columns = []
    for name in names:
        field = next((field for field in schema.fields if field.name == name), None)
        kind = _spell(field.field_type) if field and frame.schema[name].dataType.typeName() == "string" else None
        columns.append(F.expr(f"try_cast(trim({quoted(name)}) AS {kind})") if kind else F.col(quoted(name)))
    return columns


def _spell(kind: IcebergType) -> str | None:
    return f"decimal({kind.precision},{kind.scale})" if isinstance(kind, DecimalType) else _IN_SPARK.get(type(kind))
