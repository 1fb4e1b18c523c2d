"""Spark in a process of its own: reads a statement a line from stdin, answers a line of JSON. Run as `python -m
tests.engines.spark_sql`.

A JVM keeps the jars that it was started with, and a process has one: tests that need other jars would get in each
other's way.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from frazil.config import load_settings


class SparkProcess:
    """A running Spark that takes SQL."""

    def __init__(self, flags: dict[str, str], folder: Path) -> None:
        environment = {**os.environ, "SPARK_SQL_FLAGS": json.dumps(flags)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.engines.spark_sql", str(folder / "spark.log")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )
        self._log = folder / "spark.log"

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of a statement."""
        return [tuple(row) for row in self._ask(statement)]

    def call(self, function: str, *arguments: Any) -> list[Any]:
        """What a function `module:name` returns that is called with the session: for what SQL cannot say."""
        return self._ask({"call": function, "arguments": arguments})

    def _ask(self, request: str | dict[str, Any]) -> list[Any]:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(
                f"Spark ended:\n{self._log.read_text(errors='replace')[-3000:] if self._log.exists() else ''}"
            )
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        rows: list[Any] = answer["rows"]
        return rows

    def close(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


def serve(log: Path) -> None:
    from frazil.spark.session import spark_session

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else prints to stdout must not mix with the answers
    settings = load_settings(flags=json.loads(os.environ["SPARK_SQL_FLAGS"]), environ={})
    with spark_session(settings, app_name="walk-through", log=log) as spark:
        for line in sys.stdin:
            try:
                answer: dict[str, Any] = {"rows": answer_to(spark, json.loads(line))}
            except Exception as exc:
                answer = {"error": str(exc)[:2000]}
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


def answer_to(spark: Any, request: str | dict[str, Any]) -> list[Any]:
    if isinstance(request, str):
        return [list(row) for row in spark.sql(request).collect()]
    module, _, name = request["call"].partition(":")
    return getattr(importlib.import_module(module), name)(spark, *request["arguments"]) or []


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
