"""The user's function, called: what it gives, or an error that names its line."""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from frazil.errors import PipelineError
from frazil.pipelines.declare import Pipeline
from frazil.spark import spark_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NOT_DONE = "nothing was committed; fix it and run again"


def transform(pipeline: Pipeline, *frames: DataFrame, **named: DataFrame) -> DataFrame:
    """What the user's function makes of the frames; its faults name the line."""
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame

    try:
        returned: object = pipeline(*frames, **named)
    except PySparkException as exc:
        raise failed(pipeline, exc) from exc
    except Exception as exc:
        reason = f"{type(exc).__name__}: {exc}"
        raise PipelineError(
            f"pipeline '{pipeline.name}' failed{_line_of(exc, pipeline)}: {reason}",
            hint=NOT_DONE,
            pipeline=pipeline.name,
        ) from exc
    if not isinstance(returned, DataFrame):
        hint = "end the function with: return <a DataFrame>"
        raise PipelineError(
            f"pipeline '{pipeline.name}' returned {type(returned).__name__}, not a Spark DataFrame",
            hint=hint,
            pipeline=pipeline.name,
        )
    return returned


def failed(pipeline: Pipeline, exc: Exception) -> PipelineError:
    """What Spark said, as an error of the pipeline; an error in a function of the user's, such as a UDF, names its
    line.
    """
    text = str(exc)
    where = _line_of(exc, pipeline) or line_in_task(text, file=_file_of(pipeline))
    return PipelineError(
        f"pipeline '{pipeline.name}'{f' failed{where}' if where else ''}: {spark_error(text)}",
        hint=NOT_DONE,
        pipeline=pipeline.name,
    )


def line_in_task(text: str, *, file: str | None = None) -> str:
    """Where in the user's code a task failed, out of a message with Python's stack trace: in `file`, else in code that
    is no library.

    >>> trace = 'Traceback (most recent call last):\\n  File "/p/x.py", line 7, in f\\n  File "/usr/lib/python3.11/json.py", line 3, in g'
    >>> line_in_task(trace), line_in_task(trace, file="/p/x.py"), line_in_task("no trace")
    (' at /p/x.py:7', ' at /p/x.py:7', '')
    """  # noqa: E501
    if "frazil.errors." in text:  # a fault that our own code found in the rows
        return ""
    frames: list[tuple[str, str]] = re.findall(r'File "([^"]+)", line (\d+)', text)
    own = [frame for frame in frames if frame[0] == file] or [frame for frame in frames if not _is_library(frame[0])]
    return f" at {own[-1][0]}:{own[-1][1]}" if own else ""


def _is_library(path: str) -> bool:
    ours = str(Path(__file__).parent.parent)
    return path.startswith(("<", ours)) or any(
        part in path for part in ("/site-packages/", "/pyspark/", "/pyspark.zip/", "/lib/python3")
    )


def _file_of(pipeline: Pipeline) -> str | None:
    return getattr(getattr(pipeline.transform, "__code__", None), "co_filename", None)


def _line_of(exc: Exception, pipeline: Pipeline) -> str:
    """Where in the user's file it happened."""
    file = _file_of(pipeline)
    lines = [number for frame, number in traceback.walk_tb(exc.__traceback__) if frame.f_code.co_filename == file]
    return f" at {file}:{lines[-1]}" if lines else ""
