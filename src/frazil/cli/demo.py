"""`frazil demo`: the whole way once, on real servers of this machine, by commands that the reader can type."""

from __future__ import annotations

import os
import signal
import sys
import threading
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from frazil.cli.demo_folder import copy_examples
from frazil.cli.demo_steps import SALES, STEPS, Step
from frazil.cli.demo_walk import CommandFailed, Walk
from frazil.cli.show import echo
from frazil.errors import MissingExtra

NAMES = ",".join(step.name for step in STEPS)


def choose(_context: click.Context, _option: click.Parameter, names: str | None) -> list[Step]:
    """The steps that were named, in their own order."""
    chosen = {name.strip() for name in (names or NAMES).split(",") if name.strip()}
    unknown = sorted(chosen - {step.name for step in STEPS})
    if unknown:
        raise click.BadParameter(f"there is no step {unknown[0]!r}; there are {NAMES}")
    return [step for step in STEPS if step.name in chosen]


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=Path("frazil-demo"))
@click.option("--only", "steps", metavar="STEPS", callback=choose, help=f"Some of {NAMES}.  [default: all]")
@click.option("--keep", is_flag=True, help="Leave the servers running at the end, and do not wait for Ctrl-C.")
def demo(folder: Path, steps: list[Step], keep: bool) -> None:
    """Try it all once, on real servers that are started here.

    Copies the examples to FOLDER and runs them on servers that it starts: catalog, object store, Kafka, Spark. Each
    step shows the command that does it alone. On a terminal the console stays open until Ctrl-C; then, or elsewhere at
    once, the servers stop. The data stays in FOLDER, and a second run goes on from there.
    """
    check_installed()
    copy_examples(folder)
    walk = Walk(folder.resolve(), Console())
    with stopping_servers(walk, keep=keep):
        start_servers(walk, steps)
        failed = run_steps(walk, steps)
        say_where_it_is(walk, failed, keep=keep)
        if not keep and not failed and sys.stdout.isatty():
            threading.Event().wait()
    if failed:
        raise click.exceptions.Exit(1)


def check_installed() -> None:
    """Passes when the libraries are there that the steps import."""
    for module in ("pyspark", "confluent_kafka", "duckdb", "sqlglot"):
        if find_spec(module) is None:
            raise MissingExtra(module, extra="demo")


def start_servers(walk: Walk, steps: Sequence[Step]) -> None:
    """The servers that the steps need are ready."""
    walk.begin(1, len(steps) + 1, "servers", "Starts an object store, the catalog with its console, Kafka and Spark.")
    services = sorted({service for step in steps for service in step.services})
    walk.do(SALES, f"frazil up --with {','.join(services)}" if services else "frazil up")
    walk.end()


def run_steps(walk: Walk, steps: Sequence[Step]) -> list[str]:
    """Runs the steps; gives the names of those that failed. One that others build on ends the walk."""
    failed = []
    for number, step in enumerate(steps, start=2):
        walk.begin(number, len(steps) + 1, step.name, step.about)
        try:
            step.run(walk)
        except CommandFailed as exc:
            if step.is_needed:
                raise
            failed.append(step.name)
            echo(f"error: {exc.message}", err=True)
        walk.end()
    return failed


@contextmanager
def stopping_servers(walk: Walk, *, keep: bool) -> Iterator[None]:
    """Stops the servers when the block ends, also by Ctrl-C or SIGTERM, unless they are to be kept or ran before."""
    ran_before = any(row["state"] == "ready" for row in walk.ask(SALES, "frazil status --output json"))
    before = signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    try:
        yield
    except BaseException:
        if not ran_before:
            stop_servers(walk)
        raise
    else:
        if not keep and not ran_before:
            stop_servers(walk)
    finally:
        signal.signal(signal.SIGTERM, before)


def stop_servers(walk: Walk) -> None:
    """No server of the folder runs any more; a second Ctrl-C does not interrupt that."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        walk.do(SALES, "frazil down")
    finally:
        signal.signal(signal.SIGINT, before)


def say_where_it_is(walk: Walk, failed: Sequence[str], *, keep: bool) -> None:
    """What was done in which time, where the console is, and what to try next."""
    table = Table("step", "seconds", "", box=None, header_style="bold")
    for name, seconds in walk.seconds.items():
        table.add_row(name, f"{seconds:.1f}", "[red]failed[/]" if name in failed else "[green]done[/]")
    walk.console.print(table)
    uri = next(row["endpoint"] for row in walk.ask(SALES, "frazil status --output json") if row["service"] == "catalog")
    total = sum(walk.seconds.values())
    echo(f"\nAll of it is in {walk.folder}, after {total:.0f} s.")
    if failed:
        echo(f"To try again what failed: frazil demo {walk.folder} --only {','.join(failed)}", err=True)
    if keep or sys.stdout.isatty():
        echo(f"The console: {uri}/")
        if sys.stdout.isatty() and has_screen():
            webbrowser.open(f"{uri}/")
    again = f"cd {walk.folder / SALES}"
    if keep:
        echo(f"To stop the servers: {again} && frazil down")
    elif sys.stdout.isatty():
        echo("Ctrl-C stops the servers.")
    else:
        echo(f"To see it in the console: {again} && frazil up   (prints the address of the catalog: open it)")


def has_screen() -> bool:
    """Whether a browser with windows can be opened."""
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
