"""The options of `frazil run`, and what it prints: lines as tables are done, or one document at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from frazil.cli.show import echo, print_json
from frazil.pipelines import RunResult

if TYPE_CHECKING:
    from frazil.pipelines.models import Days


@dataclass(frozen=True)
class RunOptions:
    """How a project is run."""

    dry_run: bool = False
    atomic: bool = False
    full_refresh: bool = False
    adopt: bool = False
    threads: int = 4
    env: str | None = None
    days: Days | None = None


@dataclass
class Report:
    """The results of a run. `document` is that of the command; a single load has one of its own."""

    output: str
    dry_run: bool = False
    results: list[Mapping[str, Any]] = field(default_factory=list)
    models: list[Mapping[str, Any]] = field(default_factory=list)

    def add(self, text: str, document: Mapping[str, Any]) -> None:
        """A result: as text at once, or for the document."""
        self.results.append(document)
        self._say(text)

    def add_model(self, text: str, document: Mapping[str, Any]) -> None:
        """What is decided about a model; without text, a result follows."""
        self.models.append(document)
        if text:
            self._say(text)

    def _say(self, text: str) -> None:
        if self.output == "text":
            echo(text)

    def print_document(self, *, single: bool) -> None:
        """Prints the document, if it is asked for: of a `single` load, or of all."""
        if self.output == "json" and single and len(self.results) == 1:
            print_json(self.results[0])
        elif self.output == "json":
            print_json({"dry_run": self.dry_run, "results": self.results, "models": self.models})


def result_as_json(result: RunResult, *, dry_run: bool = False) -> dict[str, Any]:
    """The result for programs: docs/cli-json.md has its shape."""
    values = asdict(result)
    del values["error"]  # a run that failed is an error of the command
    ended = {"dry_run": dry_run, "status": "unchanged" if result.snapshot_id is None else "committed"}
    return {"pipeline": values.pop("pipeline"), "table": values.pop("table"), **ended, **values, "pending": []}


def failure_as_json(name: str, error: str, *, status: str) -> dict[str, Any]:
    """One of several in a run that failed or was skipped.

    >>> failure_as_json("gold.revenue", "silver.orders failed", status="skipped")
    {'pipeline': 'gold.revenue', 'status': 'skipped', 'error': 'silver.orders failed'}
    """
    return {"pipeline": name, "status": status, "error": error}


def on_branch(env: str | None) -> str:
    """Where the rows are, after the name of the table.

    >>> on_branch("dev"), on_branch(None)
    (" (branch 'dev')", '')
    """
    return f" (branch '{env}')" if env else ""
