"""The user's function, called: what it gives, or an error that names its line."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from frazil.errors import PipelineError
from frazil.pipelines.declare import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NOT_DONE = "nothing was committed; mend it and run again"


def transform(pipeline: Pipeline, frame: DataFrame) -> DataFrame:
    """What the user's function makes of the frame; its faults name the line."""
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame

    try:
        given: object = pipeline(frame)
    except PySparkException as exc:
        raise failed(pipeline, exc) from exc
    except Exception as exc:
        found = f"{type(exc).__name__}: {exc}"
        raise PipelineError(f"pipeline '{pipeline.name}' failed{_line_of(exc, pipeline)}: {found}", hint=NOT_DONE) from exc
    if not isinstance(given, DataFrame):
        hint = "end the function with: return <a DataFrame>"
        raise PipelineError(f"pipeline '{pipeline.name}' returned {type(given).__name__}, not a Spark DataFrame", hint=hint)
    return given


def failed(pipeline: Pipeline, exc: Exception) -> PipelineError:
    """What Spark said, as an error of the pipeline."""
    return PipelineError(f"pipeline '{pipeline.name}': {telling(str(exc))}", hint=NOT_DONE)


def _line_of(exc: Exception, pipeline: Pipeline) -> str:
    """Where in the user's file it happened."""
    file = getattr(getattr(pipeline.transform, "__code__", None), "co_filename", None)
    lines = [number for frame, number in traceback.walk_tb(exc.__traceback__) if frame.f_code.co_filename == file]
    return f" at {file}:{lines[-1]}" if lines else ""


def telling(text: str) -> str:
    """The sentence that says what is wrong, and its cause, out of a Spark message that may hold whole stack traces.

    >>> telling("An error occurred.\\n: x.RESTException: failed\\n\\tat x.Y(Z.java:1)\\nCaused by: x.Io: refused")
    'x.RESTException: failed (x.Io: refused)'
    """
    if "Traceback (most recent call last)" in text:
        from frazil.sinks.spark_job import telling_line

        return telling_line(text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    conditions = [line for line in lines if "[" in line and "]" in line and "SQLSTATE" in line]
    thrown = [line for line in lines if line.startswith(": ")]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    told = (
        (conditions[-1] if conditions else next(iter(thrown or lines), "no reason was given"))
        .removeprefix("Caused by: ")
        .removeprefix(": ")
    )
    return f"{told} ({causes[-1]})" if causes and causes[-1] not in told else told
