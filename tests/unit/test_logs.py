"""Logs: silent by default, one line per record on stderr, no secrets."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from frazil.logs import describe_error, log_to_stderr, redact


@pytest.fixture
def frazil_logger() -> Iterator[logging.Logger]:
    """The logger `frazil`, as it was afterwards."""
    logger = logging.getLogger("frazil")
    before = (list(logger.handlers), logger.propagate, logger.level)
    yield logger
    logger.handlers[:], logger.propagate = before[0], before[1]
    logger.setLevel(before[2])


def test_a_program_that_imports_frazil_sees_no_log() -> None:
    code = "import frazil, logging; logging.getLogger('frazil.write').warning('hidden')"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (result.stdout, result.stderr) == ("", "")


@pytest.mark.parametrize(
    ("verbosity", "levels"),
    [(0, ["warning"]), (1, ["info", "warning"]), (2, ["debug", "info", "warning"]), (5, ["debug", "info", "warning"])],
)
def test_verbosity_chooses_the_level(frazil_logger: logging.Logger, verbosity: int, levels: list[str]) -> None:
    stream = io.StringIO()
    log_to_stderr(verbosity, as_json=True, stream=stream)
    for level in (logging.DEBUG, logging.INFO, logging.WARNING):
        logging.getLogger("frazil.write").log(level, "m")
    assert [json.loads(line)["level"] for line in stream.getvalue().splitlines()] == levels


def test_json_lines_carry_the_facts_of_a_record(frazil_logger: logging.Logger) -> None:
    stream = io.StringIO()
    log_to_stderr(0, as_json=True, stream=stream)
    logging.getLogger("frazil.write").warning("%s: again", "l.t", extra={"fields": {"table": "l.t", "attempt": 2}})
    line = json.loads(stream.getvalue())
    del line["time"]
    assert line == {"level": "warning", "logger": "frazil.write", "message": "l.t: again", "table": "l.t", "attempt": 2}


SECRETS = (
    "http://user:hunter2@catalog/v1",
    "postgresql://frazil:hunter2@db/cat",
    "https://s3/x?X-Amz-Credential=hunter2&X-Amz-Signature=hunter2",
    "Authorization: Bearer hunter2hunter2",
    "{'token': 'hunter2', 's3.secret-access-key': \"hunter2\"}",
    "s3.access-key-id=hunter2, client_secret: hunter2",
    "password=hunter2;",
)


@pytest.mark.parametrize("text", SECRETS)
@pytest.mark.parametrize("as_json", [False, True])
def test_secrets_are_redacted(frazil_logger: logging.Logger, text: str, as_json: bool) -> None:
    stream = io.StringIO()
    log_to_stderr(2, as_json=as_json, stream=stream)
    error = OSError(text)
    logging.getLogger("frazil.client").warning("%s", text, exc_info=error, extra={"fields": {"url": text}})
    assert stream.getvalue()
    assert "hunter2" not in stream.getvalue() + describe_error(error)


@pytest.mark.parametrize("text", ["lake.tokens: 3 rows", "s3://bucket/key/part-0.parquet", "attempt 2 of 10: conflict"])
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert redact(text) == text
