"""The result of a run, for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from frazil.pipelines import RunResult


def result_as_json(result: RunResult, *, dry_run: bool = False) -> dict[str, Any]:
    """The result for programs: docs/cli-json.md has its shape."""
    values = asdict(result)
    del values["error"]  # a run that failed is an error of the command
    ended = {"dry_run": dry_run, "status": "unchanged" if result.snapshot_id is None else "committed"}
    return {"pipeline": values.pop("pipeline"), "table": values.pop("table"), **ended, **values, "pending": []}
