"""`frazil maintain`: what keeps tables healthy, said before it is done."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from frazil.cli.complete import complete_tables
from frazil.cli.context import Context
from frazil.cli.show import OUTPUT, Talk, echo, to_json
from frazil.errors import FrazilError, NoSuchTable, UpkeepError
from frazil.protocol import COMPANION_SUFFIXES
from frazil.units import count, size

if TYPE_CHECKING:
    from pyiceberg.typedef import Identifier

    from frazil.client import FrazilCatalog
    from frazil.upkeep import Engine, Finished, Group, Keeper, Locations, Rewriter, StepPlan, StepReport
    from frazil.vector import Builder

NAMES = ("compact", "deletes", "manifests", "indexes", "expire", "orphans")
REMOVING = ("expire", "orphans")


def _steps(_: click.Context, __: click.Parameter, text: str | None) -> tuple[str, ...]:
    """The steps of `--only`, in the order in which they help each other."""
    chosen = [name.strip() for name in text.split(",")] if text else list(NAMES)
    if unknown := [name for name in chosen if name not in NAMES]:
        raise click.BadParameter(f"'{unknown[0]}' is no step; there are: {', '.join(NAMES)}")
    return tuple(name for name in NAMES if name in chosen)


@click.command()
@click.argument("tables", nargs=-1, metavar="[TABLE]...", shell_complete=complete_tables)
@click.option("--dry-run", is_flag=True, help="Say what would be done and what it would save, and do nothing.")
@click.option(
    "--only",
    "steps",
    callback=_steps,
    metavar="STEPS",
    help="Some of compact,deletes,manifests,indexes,expire,orphans.  [default: all]",
)
@click.option(
    "--engine",
    type=click.Choice(["python", "spark"]),
    default="python",
    show_default=True,
    help="Where data files are rewritten.",
)
@click.option(
    "--rewrite-all",
    is_flag=True,
    help="Compaction takes every file: it gets the current partitioning, order and codec.",
)
@click.option("--yes", is_flag=True, help="Do not ask before snapshots and files are removed.")
@OUTPUT
@click.pass_obj
def maintain(
    context: Context,
    tables: Sequence[str],
    dry_run: bool,
    steps: tuple[str, ...],
    engine: str,
    rewrite_all: bool,
    yes: bool,
    output: str,
) -> None:
    """Compact files, expire snapshots, remove orphan files.

    Each step says first what it would do. Without TABLE: every table that lakehouse.py here declares, and its
    companion tables; without lakehouse.py, every table of the catalog. Writers go on meanwhile. The rules are the
    table's own: Table(..., upkeep=Upkeep(...)).
    """
    asks = not dry_run and not yes
    if asks and (output == "json" or not sys.stdin.isatty()) and set(steps) & set(REMOVING):
        raise UpkeepError(
            "confirmation required before snapshots and files are removed, and there is no terminal; nothing was "
            "changed",
            hint="add --yes or --dry-run, or leave these steps out: --only compact,deletes,manifests",
            problem="no-terminal",
        )
    from frazil.upkeep import Locations

    context.announce()
    names, manner = _choose(context, tables), Manner(dry_run, asks, rewrite_all, quiet=output == "json")
    with _engine(context, engine) as works:
        session = Session(context.catalog, works, steps, manner, Locations(context.catalog), context.talk)
        for name in names:
            session.look_after(name)
    session.finish()


@dataclass(frozen=True)
class Manner:
    """How the run behaves: only says, asks first, takes every file, prints nothing but JSON."""

    dry_run: bool
    asks: bool
    rewrite_all: bool
    quiet: bool


@dataclass
class Session:
    """One run of the command over some tables."""

    catalog: FrazilCatalog
    engine: Engine
    steps: Sequence[str]
    manner: Manner
    locations: Locations
    talk: Talk = field(default_factory=Talk)
    entries: list[dict[str, Any]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def look_after(self, name: Identifier) -> None:
        """Goes through the steps of one table; an error ends this table and not the others."""
        label = ".".join(name)
        try:
            self._look_after(label, name)
        except Exception as exc:
            # what the catalog answers
            if not isinstance(exc, FrazilError) and not type(exc).__module__.startswith("pyiceberg."):
                raise
            known = (
                exc if isinstance(exc, FrazilError) else UpkeepError(f"{type(exc).__name__}: {exc}", reason=str(exc))
            )
            self.failed.append(label)
            self.entries.append({"table": label, "error": known.message})
            self.talk.note(f"{label}: {known.message}" + (f"\n  try: {known.hint}" if known.hint else ""))

    def _look_after(self, label: str, name: Identifier) -> None:
        from frazil.upkeep import Keeper

        keeper = Keeper(self.catalog, name, self.engine, everything=self.manner.rewrite_all, locations=self.locations)
        idle = True
        for step in self.steps:
            with _bar(f"{label}: {step}", self.manner.quiet) as update:
                keeper.on_progress = update
                plan = keeper.plan(step)
            if plan.lines:
                idle = False
                self._say(f"{label}  {step}")
                self._say(*(f"  {line}" for line in plan.lines))
            self._do(keeper, plan)
        if idle:
            self._say(f"{label}  nothing to do")

    def _do(self, keeper: Keeper, plan: StepPlan) -> None:
        entry: dict[str, Any] = {"table": plan.table, "step": plan.step, "would": list(plan.lines)}
        entry |= {"files": plan.files, "bytes": plan.bytes, "snapshots": plan.snapshots}
        entry |= {"did": [], "problems": [], "done": False}
        self.entries.append(entry)
        if plan.detail is None or self.manner.dry_run:
            return
        if self.manner.asks and plan.removes and not click.confirm(f"  {plan.step} {plan.table}?", err=True):
            self._say("  left as it is")
            return
        with _bar(f"{plan.table}: {plan.step}", self.manner.quiet) as update:
            keeper.on_progress = update
            report = keeper.perform(plan)
        entry |= _as_entry(report)
        self._say(*(f"  done: {line}" for line in report.lines))
        for problem in report.problems:
            self.talk.note(f"  problem: {problem}")
        if report.problems and plan.table not in self.failed:
            self.failed.append(plan.table)

    def finish(self) -> None:
        """The sum, and the exit code."""
        if self.manner.quiet:
            echo(to_json(self.entries))
        else:
            if self.manner.dry_run and len(self.steps) > 1:
                self._say(
                    "each step is judged by the table as it is now; done in turn, one leaves more or less to the next"
                )
            self._say(_sum(self.entries, would=self.manner.dry_run))
        if self.failed:
            sys.exit(1)

    def _say(self, *lines: str) -> None:
        for line in lines if not self.manner.quiet else ():
            echo(line)


def _sum(entries: Sequence[dict[str, Any]], *, would: bool) -> str:
    """What all steps save together.

    >>> entries = [{"step": "compact", "files": 9, "done": True}, {"step": "expire", "files": 10, "bytes": 2000, "snapshots": 3}]
    >>> _sum(entries, would=True)
    'would save: 9 files that readers open, 10 files on disk (2.0 kB), 3 snapshots'
    >>> _sum(entries, would=False)
    'saved: 9 files that readers open, 0 files on disk (0 B), 0 snapshots'
    """  # noqa: E501
    entries = [entry for entry in entries if would or entry.get("done")]
    live = sum(entry.get("files", 0) for entry in entries if entry.get("step") not in REMOVING)
    gone = sum(entry.get("files", 0) for entry in entries if entry.get("step") in REMOVING)
    free, snapshots = (sum(entry.get(key, 0) for entry in entries) for key in ("bytes", "snapshots"))
    said = (
        f"{count(live, 'file')} that readers open, {count(gone, 'file')} on disk ({size(free)}), "
        f"{count(snapshots, 'snapshot')}"
    )
    return f"{'would save' if would else 'saved'}: {said}"


def _as_entry(report: StepReport) -> dict[str, Any]:
    said = {"did": list(report.lines), "problems": list(report.problems), "done": True}
    return {"files": report.files, "bytes": report.bytes, "snapshots": report.snapshots, **said}


def _choose(context: Context, names: Sequence[str]) -> list[Identifier]:
    """The tables that are meant, each once and in order."""
    from frazil.project import FILE_NAME, load_project
    from frazil.upkeep import every_table

    catalog = context.catalog
    if names:
        for name in names:
            if "." not in name or not catalog.table_exists(name):
                raise NoSuchTable(name)
        return [tuple(name.split(".")) for name in dict.fromkeys(names)]
    live = list(every_table(catalog))
    if not (Path.cwd() / FILE_NAME).exists():
        return sorted(live)
    declared = {table.identifier for table in load_project(Path.cwd()).tables}
    companions = {(*name[:-1], f"{name[-1]}{suffix}") for name in declared for suffix in COMPANION_SUFFIXES}
    return sorted(name for name in live if name in declared | companions)


@contextmanager
def _engine(context: Context, name: str) -> Iterator[Engine]:
    """Where files are rewritten."""
    from frazil.upkeep import LocalEngine

    with ExitStack() as stack:
        yield SparkOnDemand(context, stack, "frazil maintain") if name == "spark" else LocalEngine()


@dataclass
class SparkOnDemand:
    """Spark, from the first group on: it takes seconds to start, not for nothing."""

    context: Context
    stack: ExitStack
    app_name: str
    engine: Engine | None = None

    def rewrite(self, rewriter: Rewriter, groups: Sequence[Group]) -> Iterator[Finished]:
        """As the engine on Spark does."""
        yield from self._start().rewrite(rewriter, groups) if groups else ()

    def index_builder(self) -> Builder:
        """As the engine on Spark does."""
        return self._start().index_builder()

    def _start(self) -> Engine:
        from frazil.cli.spark import spark_log
        from frazil.spark import spark_session
        from frazil.upkeep import SparkEngine

        if self.engine is None:
            session = spark_session(self.context.settings, app_name=self.app_name, log=spark_log(self.context))
            self.engine = SparkEngine(self.stack.enter_context(session))
        return self.engine


@contextmanager
def _bar(label: str, quiet: bool) -> Iterator[Any]:
    """A bar on a terminal; elsewhere the lines say enough."""
    from rich.console import Console
    from rich.progress import Progress

    from frazil.cli.progress import bar_columns

    console = Console(stderr=True)
    columns, hidden = bar_columns(console), quiet or not console.is_terminal
    with Progress(*columns, console=console, transient=True, expand=True, disable=hidden) as progress:
        task = progress.add_task(label, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
