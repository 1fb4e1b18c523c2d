"""`test`: the tests of a project's models and pipelines."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from frazil.cli.complete import complete_selectors
from frazil.cli.context import Context
from frazil.cli.progress import starting_spark
from frazil.cli.show import OUTPUT, echo, print_json
from frazil.errors import ProjectError
from frazil.project import Project, load_project
from frazil.units import count

if TYPE_CHECKING:
    from frazil.testing import Case, Outcome

FOLDER = "tests"
SHOWN_ROWS = 20


@click.command("test")
@click.argument("selectors", nargs=-1, metavar="[SELECTOR]...", shell_complete=complete_selectors)
@OUTPUT
@click.pass_context
def run_tests(click_context: click.Context, selectors: Sequence[str], output: str) -> None:
    """Test models and pipelines: given rows in, expected rows out.

    Runs the tests in tests/*.yml, and tests/test_*.py by pytest, on one local Spark and without a catalog. A SELECTOR
    is a file of tests, or selects models and pipelines as for run: gold.revenue, +gold.revenue, tag:daily.
    """
    from frazil.testing import read_cases

    context: Context = click_context.obj
    project = load_project(Path.cwd())
    cases, files = _choose(project, read_cases(project.folder), selectors)
    if not cases and not files:
        raise ProjectError(
            f"there are no tests in {project.folder / FOLDER}" + (" of what is selected" if selectors else ""),
            hint="tests/revenue.yml: model, given and expect (docs/models.md)",
            path=str(project.folder / FOLDER),
        )
    outcomes = _run(context, project, cases, files, output)
    if output == "json":
        print_json(as_json(outcomes))
    else:
        echo(describe_total(outcomes))
    if any(outcome.status != "passed" for outcome in outcomes):
        click_context.exit(1)


def _choose(project: Project, cases: Sequence[Case], selectors: Sequence[str]) -> tuple[list[Case], list[Path]]:
    """The tests in YAML, and the files of tests in Python."""
    folder = project.folder
    python = sorted({*(folder / FOLDER).rglob("test_*.py"), *(folder / FOLDER).rglob("*_test.py")})
    if not selectors:
        return list(cases), python
    paths = [selector for selector in selectors if (folder / selector).is_file()]
    chosen = _selected(project, [selector for selector in selectors if selector not in paths])
    wanted = {Path(path) for path in paths}
    named = [case for case in cases if case.path in wanted or case.model in chosen]
    return named, [path for path in python if path.relative_to(folder) in wanted]


def _selected(project: Project, selectors: Sequence[str]) -> set[str]:
    """The names of models and pipelines, and of the tables that these fill."""
    if not selectors:
        return set()
    from frazil.pipelines.graph import select

    names = {node.name for node in select(project.graph, selectors)}
    return names | {pipeline.target.name for pipeline in project.pipelines if pipeline.name in names}


def _run(
    context: Context, project: Project, cases: Sequence[Case], files: Sequence[Path], output: str
) -> list[Outcome]:
    from frazil.testing import ModelRunner, run_case, spark_for_tests

    outcomes: list[Outcome] = []
    with ExitStack() as stack:
        if cases:  # tests in Python start Spark by themselves, if they need it
            with starting_spark("test", context.talk):
                spark = stack.enter_context(spark_for_tests(context.settings, context.talk.note))
            runner = ModelRunner(project, spark)
        for case in cases:
            outcomes.append(run_case(case, runner))
            _print_outcome(outcomes[-1], output)
        for outcome in _run_pytest(project, files) if files else ():
            outcomes.append(outcome)
            _print_outcome(outcome, output)
    return outcomes


def _run_pytest(project: Project, files: Sequence[Path]) -> list[Outcome]:
    try:
        import pytest
    except ImportError as exc:
        raise ProjectError(
            f"{files[0]} is a test in Python, and pytest is not installed", hint="pip install pytest"
        ) from exc
    results, said = _Results(), StringIO()
    with redirect_stdout(said):
        code = pytest.main([f"--rootdir={project.folder}", *map(str, files)], plugins=[results])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED) and all(
        outcome.status == "passed" for outcome in results.outcomes
    ):
        raise ProjectError(f"pytest ended with exit code {int(code)}: {said.getvalue().strip()[-2000:]}")
    return results.outcomes


@dataclass
class _Results:
    """A plugin of pytest that keeps how each test ended."""

    outcomes: list[Outcome] = field(default_factory=list)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" or (report.when == "setup" and report.outcome != "passed"):
            self._add(report, "failed" if report.when == "call" else "error", report.duration)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._add(report, "error", 0.0)

    def _add(self, report: Any, problem: str, seconds: float) -> None:
        from frazil.testing import Outcome

        if report.outcome == "skipped":
            return
        path, _, name = report.nodeid.partition("::")
        passed = report.outcome == "passed"
        message = "" if passed else str(report.longrepr)
        status: Any = "passed" if passed else problem
        self.outcomes.append(Outcome(name or path, path, None, status, seconds, message))


def _print_outcome(outcome: Outcome, output: str) -> None:
    if output != "json":
        echo(describe_outcome(outcome))


def describe_outcome(outcome: Outcome) -> str:
    """A test in lines: how it ended, and what is wrong."""
    about = f" ({outcome.model})" if outcome.model else ""
    lines = [f"{outcome.status:<6}  {outcome.path}: {outcome.name}{about}, {outcome.seconds:.1f} s"]
    if outcome.message:
        lines += [f"        {line}" for line in outcome.message.splitlines()]
    if outcome.difference:
        rows = outcome.difference.lines()
        lines += [f"          {row}" for row in rows[:SHOWN_ROWS]]
        lines += [f"          and {len(rows) - SHOWN_ROWS:,} more"] * (len(rows) > SHOWN_ROWS)
    return "\n".join(lines)


def describe_total(outcomes: Sequence[Outcome]) -> str:
    """The number of tests, and how they ended."""
    passed, failed, errors = (_number(outcomes, status) for status in ("passed", "failed", "error"))
    words = [f"{passed} passed", f"{failed} failed", count(errors, "error")]
    return f"{count(len(outcomes), 'test')}: {', '.join(word for word in words if not word.startswith('0 '))}"


def as_json(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """All outcomes for programs."""
    totals = {status: _number(outcomes, status) for status in ("passed", "failed", "error")}
    return {**totals, "tests": [_outcome_as_json(outcome) for outcome in outcomes]}


def _outcome_as_json(outcome: Outcome) -> dict[str, Any]:
    difference = outcome.difference
    return {
        "name": outcome.name,
        "path": outcome.path,
        "model": outcome.model,
        "status": outcome.status,
        "seconds": round(outcome.seconds, 3),
        "message": outcome.message or None,
        "missing": [_values(row) for row in difference.missing] if difference else [],
        "unexpected": [_values(row) for row in difference.unexpected] if difference else [],
        "differing": [
            {"expected": _values(expected), "actual": _values(actual)}
            for expected, actual in (difference.differing if difference else ())
        ],
    }


def _values(row: Any) -> dict[str, Any]:
    """Values that JSON has no type for are texts."""
    plain = (str, int, float, bool, type(None))
    return {name: value if isinstance(value, plain) else str(value) for name, value in row.items()}


def _number(outcomes: Sequence[Outcome], status: str) -> int:
    return sum(outcome.status == status for outcome in outcomes)
