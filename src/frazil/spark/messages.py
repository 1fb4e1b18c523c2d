"""What went wrong, out of the long messages of Spark."""

from __future__ import annotations

import re


def spark_errors() -> tuple[type[Exception], ...]:
    """What PySpark raises when a job or a statement fails: `except spark_errors() as exc`."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return PySparkException, Py4JError


def python_error(text: str) -> str:
    """The sentence that says what is wrong, out of a Spark message that may hold stack traces of two languages.

    >>> python_error("Job aborted.\\n  File x\\nfrazil.errors.WriteFailed: cannot write f: full\\n  free some\\n\\n\\tat org.a.B(C.java:1)")
    'cannot write f: full'
    """  # noqa: E501
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ours = [line.split(": ", 1)[1] for line in lines if line.startswith("frazil.errors.") and ": " in line]
    python = [
        line
        for line in lines
        if re.match(r"[\w.]+(Error|Exception|Refused|Failed): ", line) and not line.startswith(("org.", "java."))
    ]
    return next(iter(ours or python or lines), "no reason was given")


def spark_error(text: str) -> str:
    """The sentence that says what is wrong, and its cause, out of a Spark message that may hold whole stack traces.

    >>> spark_error("An error occurred.\\n: x.RESTException: failed\\n\\tat x.Y(Z.java:1)\\nCaused by: x.Io: refused")
    'x.RESTException: failed (x.Io: refused)'
    """
    if "Traceback (most recent call last)" in text:
        return python_error(text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    conditions = [line for line in lines if "[" in line and "]" in line and "SQLSTATE" in line]
    thrown = [line for line in lines if line.startswith(": ")]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    removeprefix = (
        (conditions[-1] if conditions else next(iter(thrown or lines), "no reason was given"))
        .removeprefix("Caused by: ")
        .removeprefix(": ")
    )
    return f"{removeprefix} ({causes[-1]})" if causes and causes[-1] not in removeprefix else removeprefix
