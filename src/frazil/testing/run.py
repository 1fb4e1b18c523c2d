"""One test, run: passed, failed with the rows that differ, or an error."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

from frazil.errors import FrazilError
from frazil.testing.cases import Case
from frazil.testing.compare import Difference, compare_rows
from frazil.testing.models import ModelRunner

Status = Literal["passed", "failed", "error"]


@dataclass(frozen=True)
class Outcome:
    """How a test ended; `model` is None for a test in Python."""

    name: str
    path: str
    model: str | None
    status: Status
    seconds: float
    message: str = ""
    difference: Difference | None = None


def run_case(case: Case, runner: ModelRunner) -> Outcome:
    """The outcome of a test; what is wrong with the test or the model is an outcome, too."""
    began = time.monotonic()

    def outcome(status: Status, message: str = "", difference: Difference | None = None) -> Outcome:
        seconds = time.monotonic() - began
        return Outcome(case.name, str(case.path), case.model, status, seconds, message, difference)

    try:
        computed = runner.compute(case.model, case.inputs)
        difference = compare_rows(case.expect, computed.rows)
    except FrazilError as exc:
        return outcome("error", f"{exc.message}; {exc.hint}" if exc.hint else exc.message)
    rows = len(difference.missing) + len(difference.unexpected) + len(difference.differing)
    differ = f"{rows} {'row differs' if rows == 1 else 'rows differ'}" if rows else ""
    if message := "\n".join(filter(None, (computed.unexpected(case.quarantined), differ))):
        return outcome("failed", message, difference)
    return outcome("passed")
