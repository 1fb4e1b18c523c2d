"""Logs of Frazil on standard error, and what must never be in them.

Each package logs to a logger of its name: `frazil.write`, `frazil.sinks`, `frazil.client`, `frazil.pipelines`,
`frazil.upkeep`, `frazil.catalog`. A program that imports Frazil sees none of it unless it configures logging;
`frazil -v`, `-vv` and `--log-json` show it on the command line. A record carries its facts as `record.fields`.
"""

from __future__ import annotations

import logging
import re
import sys
import time
import traceback
from collections.abc import Callable
from typing import TextIO

from frazil.terminal import visible, visible_json

LONGEST_ERROR = 300  # characters of an error's text in a message
_LEVEL = r"(?:%1[fF]|\x1f|/(?:tables|views)/)"  # between the parts of a name in a path: the dots of a token end parts
# API keys of the catalog (their ids stay), and JSON Web Tokens: they tell what they are, wherever they stand.
_TOKENS = (
    (re.compile(r"(frz(?:_|%5[fF])[0-9a-f]{16}(?:_|%5[fF]))[0-9A-Za-z]{8,}"), r"\1***"),
    (re.compile(r"eyJ[\w-]{5,}\.[\w-]{5,}(?:\.[\w-]*)?"), "***"),
    (re.compile(rf"eyJ[\w-]{{5,}}{_LEVEL}eyJ[\w-]{{5,}}(?:{_LEVEL}[\w-]*)?"), "***"),
)
_SECRETS = (
    (re.compile(r"(://[^:/?#@\s]*):[^@\s/]*@"), r"\1:***@"),  # a password in a URL
    (
        re.compile(  # key=value, "key": "value", key: value
            r"""(?ix)(["']?[\w.-]*(?:password|passwd|secret|token|credential|signature|access.?key(?:.?id)?)["']?\s*[=:]\s*)
            (?:bearer\s+)?("[^"]*"|'[^']*'|[^\s,;&'"}\])]+)"""
        ),
        r"\1***",
    ),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{6,}"), r"\1 ***"),
    (re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"), "***"),
)


def hide_tokens(text: str) -> str:
    """The text without API keys of the catalog and JSON Web Tokens: what a client sends may be one in the wrong place.

    >>> hide_tokens("Namespace does not exist: frz_0123456789abcdef_" + 43 * "x"), hide_tokens("eyJhbGci.eyJzdWIi.c2ln")
    ('Namespace does not exist: frz_0123456789abcdef_***', '***')
    >>> hide_tokens("/v1/default/namespaces/ns%1FeyJhbGci%1FeyJzdWIi/tables/c2ln/plan")
    '/v1/default/namespaces/ns%1F***/plan'
    """
    if "frz" in text or "eyJ" in text:  # rarely: this is part of every answer with an error
        for pattern, instead in _TOKENS:
            text = pattern.sub(instead, text)
    return text


def redact(text: str) -> str:
    """The text without passwords, tokens and keys.

    >>> redact("postgresql://me:hunter2@db/lake?sslmode=require"), redact("GET /x?X-Amz-Signature=1f&part=2")
    ('postgresql://me:***@db/lake?sslmode=require', 'GET /x?X-Amz-Signature=***&part=2')
    >>> redact("{'s3.secret-access-key': 'abc', 'uri': 'http://c'}"), redact("Authorization: Bearer eyJhbGciOi")
    ("{'s3.secret-access-key': ***, 'uri': 'http://c'}", 'Authorization: Bearer ***')
    """
    text = hide_tokens(text)
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


def describe_error(error: BaseException) -> str:
    """An error in one line that is fit for a log: its first line, short, without secrets.

    >>> describe_error(OSError("no route to s3://key:secret@bucket\\nmore"))
    'OSError: no route to s3://key:***@bucket'
    """
    text = getattr(error, "message", None) or str(error)
    first = next(iter(str(text).splitlines()), "")
    return redact(f"{type(error).__name__}: {first}" if first else type(error).__name__)[:LONGEST_ERROR]


class TextFormatter(logging.Formatter):
    """One line per record, for people."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%H:%M:%S", time.localtime(record.created))
        line = f"{moment} {record.levelname.lower():<7} {record.name}: {record.getMessage()}"
        if record.exc_info and record.exc_info[1]:
            line += "\n" + "".join(traceback.format_exception(record.exc_info[1])).rstrip()
        return visible(redact(line))


class JsonFormatter(logging.Formatter):
    """A log record as one JSON object; its facts, `extra={"fields": {...}}`, are keys next to the message."""

    def format(self, record: logging.LogRecord) -> str:
        import orjson  # only programs that log JSON need it

        return visible_json(orjson.dumps(self.facts(record), default=str).decode())

    def facts(self, record: logging.LogRecord) -> dict[str, object]:
        """What the line says."""
        line: dict[str, object] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[1]:
            line["error"] = "".join(traceback.format_exception(record.exc_info[1]))
        return line


class RedactedJsonFormatter(JsonFormatter):
    """The same for the command line, where errors of other libraries may quote a URL or a header."""

    def facts(self, record: logging.LogRecord) -> dict[str, object]:
        """What the line says, without secrets."""
        facts = super().facts(record)
        return {key: redact(value) if isinstance(value, str) else value for key, value in facts.items()}


def log_to_stderr(verbosity: int, *, as_json: bool, stream: TextIO | None = None) -> Callable[[], None]:
    """Shows the logs of Frazil on standard error: warnings, with 1 also information, with 2 everything.

    Gives a call that puts back what was there before.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(RedactedJsonFormatter() if as_json else TextFormatter())
    logger = logging.getLogger("frazil")
    handlers, propagate, level = list(logger.handlers), logger.propagate, logger.level

    def undo() -> None:
        logger.handlers[:], logger.propagate = handlers, propagate
        logger.setLevel(level)

    logger.handlers[:], logger.propagate = [handler], False
    logger.setLevel((logging.WARNING, logging.INFO, logging.DEBUG)[min(verbosity, 2)])
    return undo
