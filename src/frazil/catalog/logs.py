"""Structured logs: one JSON object a line on standard error.

Every write, every error and every slow request is a line at level INFO (WARNING for 5xx); reads that went well are at
DEBUG. A line of a request carries its id, which the client gave in X-Request-ID or the server made up, and which the
answer carries too.
"""

from __future__ import annotations

import logging
import sys

from frazil.logs import JsonFormatter, hide_tokens, redact

SLOW_SECONDS = 1.0
LEVELS = ("debug", "info", "warning", "error")
log = logging.getLogger("frazil.catalog")


class ServerFormatter(JsonFormatter):
    """A line of the server. Paths and names come from clients, warnings and tracebacks quote other libraries."""

    def facts(self, record: logging.LogRecord) -> dict[str, object]:
        """What the line says, without secrets."""
        facts = super().facts(record)
        quotes = ("error", "message") if record.levelno >= logging.WARNING else ("error",)
        for key, value in facts.items():
            if isinstance(value, str):
                facts[key] = redact(value) if key in quotes else hide_tokens(value)
        return facts


def log_to_stderr(level: str) -> None:
    """Sends the logs of the server, and of what it runs on, to standard error."""
    # Nothing prints the caller, thread or process of a record: finding them out took a tenth of a commit's time in the
    # event loop.
    logging.logThreads = logging.logMultiprocessing = logging.logProcesses = False
    logging._srcfile = None  # as the standard library's logging guide has it
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(ServerFormatter())
    for name in ("frazil", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
        logger.setLevel(level.upper() if name == "frazil" else "WARNING")


def log_request(request_id: str, facts: dict[str, object], *, seconds: float, writes: bool) -> None:
    """Logs an answered request; `facts` are its method, path, operation and status."""
    status = facts["status"]
    assert isinstance(status, int)
    level = (
        logging.WARNING
        if status >= 500
        else logging.INFO
        if writes or status >= 400 or seconds > SLOW_SECONDS
        else logging.DEBUG
    )
    if log.isEnabledFor(level):
        fields = {"request_id": request_id, **facts, "ms": round(seconds * 1000, 2)}
        log.log(level, "%s %s", facts["operation"], status, extra={"fields": fields})
