"""`frazil upkeep`: a worker that maintains the tables of a catalog, and what all workers have done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from frazil.cli.catalog import DATABASE
from frazil.cli.context import Context
from frazil.cli.operator import opened_catalog
from frazil.cli.show import OUTPUT, echo, print_json, print_rows
from frazil.units import count, size

if TYPE_CHECKING:
    from frazil.client import FrazilCatalog
    from frazil.upkeep import Engine

COLUMNS = ("table", "state", "debt", "why", "worker", "last run (UTC)", "outcome", "saved", "next")


@click.group(invoke_without_command=True)
@click.option("--once", is_flag=True, help="End when no table is due: for a timer.")
@click.option("--spark", is_flag=True, help="Rewrite on Spark what is much for one process: 20 GB and more.")
@DATABASE
@click.option("--metrics-port", type=click.IntRange(0, 65535), metavar="PORT", help="Answer /metrics on 127.0.0.1.")
@click.pass_context
def upkeep(ctx: click.Context, once: bool, spark: bool, database: str | None, metrics_port: int | None) -> None:
    """Maintain the tables of the catalog, or show their debt.

    Works on the table with the largest debt, then on the next, until SIGTERM. Many workers may run on one database;
    each table is worked on by one at a time. Debt and leases are in the catalog's database; everything else goes
    through its REST API, with the key of catalog.token if it asks for one. The rules are the tables' own:
    Table(..., upkeep=Upkeep(...)).
    """
    context: Context = ctx.obj
    if ctx.invoked_subcommand is not None:
        if once or spark or metrics_port is not None:
            raise click.UsageError("--once, --spark and --metrics-port are for the worker: frazil upkeep")
        context.overrides |= {"server.database": database} if database is not None else {}
        return
    context.talk.verbosity = max(context.talk.verbosity, 1)  # a worker tells what it does
    ctx.call_on_close(context.talk.configure())
    with ExitStack() as stack:
        _work(context, stack, database, once=once, spark=spark, metrics_port=metrics_port)


def _work(
    context: Context, stack: ExitStack, database: str | None, *, once: bool, spark: bool, metrics_port: int | None
) -> None:
    from frazil import metrics
    from frazil.catalog import UpkeepWorker, be_modest, run_until_signal
    from frazil.cli.maintain import SparkOnDemand

    context.announce()
    opened = stack.enter_context(opened_catalog(context, database))
    if metrics_port is not None:
        recorded = metrics.Prometheus()
        stack.callback(metrics.use, metrics.use(recorded))
        pages: dict[str, tuple[Callable[[], str], str]] = {"/metrics": (recorded.render, metrics.CONTENT_TYPE)}
        port = stack.enter_context(metrics.serving_pages(pages, metrics_port))
        context.talk.note(f"metrics at http://127.0.0.1:{port}/metrics")
    be_modest()
    engine = SparkOnDemand(context, stack, "frazil upkeep") if spark else None
    large: Callable[[], Engine] | None = (lambda: engine) if engine is not None else None
    worker = UpkeepWorker(opened.database, _connector(context), context.settings.upkeep, large)
    run_until_signal(worker, once=once)


def _connector(context: Context) -> Callable[[str], FrazilCatalog]:
    """Clients of the catalog, by warehouse."""
    from frazil.lake import open_catalog

    return lambda warehouse: open_catalog(context.settings_with(catalog__warehouse=warehouse))


@upkeep.command()
@OUTPUT
@click.pass_obj
def status(context: Context, output: str) -> None:
    """Show the debt of every table, who works on it, and what the last run did."""
    from frazil.catalog import list_upkeep

    with opened_catalog(context, None) as opened:
        tables = list_upkeep(opened.database)
    if output == "json":
        print_json(tables)
        return
    if not tables:
        echo("no tables")
        return
    print_rows(COLUMNS, [_row(table) for table in tables], right=("debt",))
    for table in tables:
        for line in _problems(table):
            echo(f"{table['table']}: {line}")


def _row(table: dict[str, Any]) -> list[str]:
    run, lease = table["last_run"], table["lease"]
    score = "" if table["score"] is None else f"{table['score']:.2f}"
    started = f"{datetime.fromtimestamp(run['at_ms'] / 1000, UTC):%Y-%m-%d %H:%M:%S}" if run else ""
    waits = f"in {table['next_seconds']:.0f} s" if table["next_seconds"] else ""
    done = (run["outcome"], _saved(run)) if run else ("", "")
    why = ", ".join([*table["reasons"], *(["as of an older commit"] if table["outdated"] else [])])
    return [table["table"], table["state"], score, why, lease["owner"] if lease else "", started, *done, waits]


def _saved(run: dict[str, Any]) -> str:
    """
    >>> _saved({"saved_files": 9, "removed_files": 12, "removed_bytes": 4096, "expired_snapshots": 0})
    '9 files, 12 on disk (4.1 kB)'
    """
    said = [count(run["saved_files"], "file")] if run["saved_files"] else []
    said += [f"{run['removed_files']:,} on disk ({size(run['removed_bytes'])})"] if run["removed_files"] else []
    said += [count(run["expired_snapshots"], "snapshot")] if run["expired_snapshots"] else []
    return ", ".join(said)


def _problems(table: dict[str, Any]) -> Sequence[str]:
    """What a person should know about a table."""
    run = table["last_run"] or {"message": None, "problems": []}
    return [text for text in (table["error"], run["message"], *run["problems"]) if text]
