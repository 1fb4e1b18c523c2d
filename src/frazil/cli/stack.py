"""`frazil up`, `down`, `status` and `logs`: the local servers of a project."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from frazil.artifacts import folder_bytes
from frazil.cli.context import Context
from frazil.cli.show import OUTPUT, echo, print_json
from frazil.cli.stack_display import show_events
from frazil.errors import FrazilError
from frazil.local_stack import secrets_file
from frazil.served import FILE_NAME as SERVED_FILE
from frazil.served import Served, forget_served, read_all, record_served
from frazil.services import PLAIN, Catalog, ServiceStatus, Stack, check_name

_COLOURS = {"ready": "green", "starting": "yellow", "failed": "red", "stopped": "dim"}


@click.command()
@click.option(
    "--with",
    "extra",
    metavar="SERVICES",
    default="",
    help="Start these too: trino, kafka, postgres, spark (separated by commas).",
)
@OUTPUT
@click.pass_obj
def up(context: Context, extra: str, output: str) -> None:
    """Start the local servers: object store, catalog, more by --with."""
    stack = Stack(context.settings)
    wanted = {*PLAIN, *(check_name(name) for name in extra.split(",") if name.strip())}
    try:
        with show_events(Console(stderr=output == "json")) as listener:
            running = stack.up(wanted, listener)
    except KeyboardInterrupt:
        echo("interrupted: what was started goes on; 'frazil up' takes it over, 'frazil down' stops it", err=True)
        raise click.Abort from None
    if output == "json":
        print_json([asdict(row) for row in running])
    else:
        _print_endpoints(stack, running)
    _record(stack, context)


def _record(stack: Stack, context: Context) -> None:
    """Makes the stack's catalog the one that commands in this folder use."""
    catalog = stack.service("catalog")
    assert isinstance(catalog, Catalog)
    process = catalog.process()
    if process is None:
        return
    other = next((entry for entry in read_all(stack.folder) if entry.command == "serve"), None)
    if other is not None:
        state = "runs at" if other.is_running else "was at"
        context.talk.note(
            f"note: 'frazil serve' has a catalog of its own here, which {state} {other.uri}; its tables are not in "
            "this one"
        )
    record_served(stack.folder, Served("up", catalog.endpoint, process.pid, catalog.warehouses))


@click.command()
@click.option(
    "--purge", is_flag=True, help="Delete the data of all services as well; shows what would go unless --yes is given."
)
@click.option("--yes", is_flag=True, help="With --purge: really delete.")
@OUTPUT
@click.pass_context
def down(click_context: click.Context, purge: bool, yes: bool, output: str) -> None:
    """Stop the local servers; their data stays unless --purge."""
    stack = Stack(click_context.obj.settings)
    if purge and not yes:
        if output == "json":
            raise click.UsageError("--output json does not ask: add --yes")
        _print_purge(stack)
        click_context.exit(1)
    with show_events(Console(stderr=output == "json")) as listener:
        stopped = stack.down(listener)
    gone = stack.purge_paths() if purge else []
    if purge:
        stack.purge()
        forget_served(stack.folder, "up")
    if output == "json":
        print_json({"stopped": list(stopped), "deleted": [str(path) for path in gone]})
        return
    if not stopped:
        echo("nothing was running")
    if purge:
        echo("\n".join(f"deleted {path}" for path in gone) or "there was no data")


@click.command()
@OUTPUT
@click.pass_obj
def status(context: Context, output: str) -> None:
    """Show the local servers: state, endpoint, version, memory, log."""
    rows = Stack(context.settings).status()
    if output == "json":
        print_json([asdict(row) for row in rows])
        return
    table = Table("service", "state", "endpoint", "pid", "version", "memory", "log", box=None, header_style="bold")
    for row in rows:
        state = f"[{_COLOURS[row.state]}]{row.state}[/]"
        table.add_row(
            row.service,
            state,
            row.endpoint,
            _text(row.pid),
            _text(row.version),
            _megabytes(row.memory_bytes),
            _short(row.log),
        )
    _console().print(table)


@click.command()
@click.argument("service")
@click.option(
    "-n", "--lines", type=click.IntRange(min=0), default=50, show_default=True, help="How many lines from the end."
)
@click.option("-f", "--follow", is_flag=True, help="Go on printing what is added, until Ctrl-C.")
@click.pass_obj
def logs(context: Context, service: str, lines: int, follow: bool) -> None:
    """Print the end of a server's log."""
    log = Stack(context.settings).service(service).log
    if not log.exists():
        raise FrazilError(
            f"{service} has no log yet: {log} does not exist", hint=f"frazil up --with {check_name(service)}"
        )
    with log.open(errors="replace") as file:
        echo("".join(deque(file, maxlen=lines)), nl=False)
        while follow:
            text = file.read()
            echo(text, nl=False) if text else time.sleep(0.2)


# --- what is printed -------------------------------------------------------------------------------------------------


def _print_endpoints(stack: Stack, running: list[ServiceStatus]) -> None:
    table = Table("service", "endpoint", "version", box=None, header_style="bold")
    for row in running:
        table.add_row(row.service, row.endpoint, _text(row.version))
    console = _console()
    console.print()
    console.print(table)
    echo(_connection(stack))
    echo(
        "Try next:\n"
        "  frazil status            what runs, and how much memory it takes\n"
        "  frazil logs catalog -f   what the catalog does\n"
        "  frazil apply             make the tables of lakehouse.py\n"
        "  frazil down              stop everything; the data stays"
    )


def _connection(stack: Stack) -> str:
    """How other programs, and this project's own pipelines, get at the stack: names of variables, never a secret."""
    settings = stack.settings
    catalog, store = stack.service("catalog").endpoint, stack.service("object-store").endpoint
    text = (
        f"\nS3: AWS_ENDPOINT_URL={store} AWS_REGION={settings.s3.region}, bucket s3://{settings.stack.bucket}/ (the "
        f"warehouse 'default')\n"
        "  AWS_ACCESS_KEY_ID      is the setting stack.access_key_id\n"
        f"  AWS_SECRET_ACCESS_KEY  is the setting stack.secret_access_key, kept in "
        f"{_short(str(secrets_file(stack.folder)))}\n"
        f"Data and logs: {_short(str(stack.folder))}\n"
    )
    text += "The commands of this project use this catalog and this store"
    chosen = settings.source_of("catalog.uri")
    other = settings.catalog.uri != catalog and not chosen.endswith(SERVED_FILE) and chosen != "default"
    return (
        f"{text}, if they are not told otherwise: catalog.uri is {settings.catalog.uri} ({chosen})\n"
        if other
        else f"{text}.\n"
    )


def _print_purge(stack: Stack) -> None:
    paths = stack.purge_paths()
    if not paths:
        echo("there is no data to delete")
        return
    running = [row.service for row in stack.status() if row.pid]
    echo(f"This would stop {', '.join(running) or 'nothing'} and delete:")
    for path in paths:
        echo(f"  {path}  ({folder_bytes(path) / 1e6:.1f} MB)")
    echo("Nothing was stopped or deleted. To do it: frazil down --purge --yes")


def _console() -> Console:
    """Wide if stdout is not a terminal: a pipe gets whole paths, not folded ones."""
    console = Console()
    return console if console.is_terminal else Console(width=240)


def _text(value: object) -> str:
    return "-" if value is None else str(value)


def _megabytes(count: int | None) -> str:
    return "-" if count is None else f"{count / 1e6:.0f} MB"


def _short(path: str | None) -> str:
    """The path as seen from here, when it lies here."""
    if path is None:
        return "-"
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path
