"""`frazil`: the table of commands, loaded only when called, and the one place where errors become exit codes."""

from __future__ import annotations

import importlib
import io
import itertools
import json
import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

import click

import frazil
from frazil.errors import CatalogError, FrazilError, MissingExtra
from frazil.logs import redact
from frazil.terminal import visible

# section -> name -> (module:attribute, help). The help stands here too so that `frazil --help` imports none of the
# modules; a test compares both.
SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Project": {
        "init": ("frazil.cli.init:init", "Start a project: lakehouse.py, settings and a test."),
        "demo": ("frazil.cli.demo:demo", "Try it all once, on real servers that are started here."),
        "plan": ("frazil.cli.project:plan", "Show what apply would change."),
        "apply": ("frazil.cli.project:apply", "Make the live tables what lakehouse.py declares."),
        "drift": ("frazil.cli.drift:drift", "Show what was changed by hand since the last apply."),
        "import": ("frazil.cli.import_:import_", "Write the code that declares live tables."),
    },
    "Pipelines": {
        "run": (
            "frazil.cli.run:run",
            "Load and compute what is new: pipelines and models, once.",
        ),
        "test": ("frazil.cli.model_tests:run_tests", "Test models and pipelines: given rows in, expected rows out."),
        "stream": ("frazil.cli.stream:stream", "Keep a pipeline running, one commit per micro-batch."),
        "submit": ("frazil.cli.submit:submit", "Run a pipeline on a Spark cluster with spark-submit."),
        "graph": ("frazil.cli.graph:graph", "Show what pipelines and models read and fill, in their order."),
        "env": (
            "frazil.cli.env:env",
            "List, compare, publish and drop environments of branches.",
        ),
        "runs": ("frazil.cli.runs:runs", "Show what runs have read, written and quarantined."),
    },
    "Tables": {
        "tables": ("frazil.cli.tables:tables", "List tables with their snapshots, rows and size."),
        "query": ("frazil.cli.query:query", "Run a SELECT over the catalog's tables."),
        "search": ("frazil.cli.search:search", "Show the rows of a table that are nearest to a text or a vector."),
        "explain": ("frazil.cli.explain:explain", "Show which files a scan of a table skips, and why."),
        "log": ("frazil.cli.log:log", "Show the snapshots of a table."),
        "diff": ("frazil.cli.diff:diff", "Show what changed in a table between two snapshots."),
        "bisect": ("frazil.cli.bisect:bisect", "Find the first snapshot of a table that fails a check."),
        "blame": ("frazil.cli.blame:blame", "Show where rows came from: file, snapshot, run and source."),
        "rollback": ("frazil.cli.rollback:rollback", "Go back to an older snapshot; shows first what that undoes."),
        "branch": ("frazil.cli.refs:branch", "List, create, drop and publish the branches of a table."),
        "tag": ("frazil.cli.refs:tag", "List, create and drop the tags of a table."),
        "index": ("frazil.cli.index:index", "Create, refresh, check and drop the vector indexes of a table."),
    },
    "Operations": {
        "maintain": ("frazil.cli.maintain:maintain", "Compact files, expire snapshots, remove orphan files."),
        "upkeep": ("frazil.cli.upkeep:upkeep", "Maintain the tables of the catalog, or show their debt."),
        "quarantine": ("frazil.cli.quarantine:quarantine", "List, replay and drop rows that broke a table's contract."),
        "audit": ("frazil.cli.audit:audit", "Prove that every row of a table's sinks is in exactly once."),
        "table": ("frazil.cli.table:table", "Repair single tables."),
        "catalog": ("frazil.cli.catalog:catalog", "Maintain the catalog's database and files."),
        "warehouse": (
            "frazil.cli.warehouse:warehouse",
            "Keep warehouses in the database; check what credentials open.",
        ),
        "config": ("frazil.cli.config:config", "Show the settings that hold here and where each came from."),
        "doctor": ("frazil.cli.doctor:doctor", "Check this machine, the catalog and the local servers."),
    },
    "Access": {
        "token": ("frazil.cli.access:token", "Make, list, rotate and revoke the API keys of the catalog."),
        "role": ("frazil.cli.access:role", "Create, drop and list roles, and change their members."),
        "grant": ("frazil.cli.access:grant", "Grant a privilege on a table, view, index, namespace or warehouse."),
        "revoke": ("frazil.cli.access:revoke", "Revoke a privilege, at once on all servers."),
        "audit-log": ("frazil.cli.access:audit_log", "Show who changed what in the catalog, and what was refused."),
        "who-can": ("frazil.cli.access:who_can", "List who has a privilege on an object, and why."),
        "why": ("frazil.cli.access:why", "Show what a principal may do with an object, and why."),
    },
    "Servers": {
        "serve": ("frazil.cli.serve:serve", "Serve the Iceberg REST catalog."),
        "up": ("frazil.cli.stack:up", "Start the local servers: object store, catalog, more by --with."),
        "down": ("frazil.cli.stack:down", "Stop the local servers; their data stays unless --purge."),
        "status": ("frazil.cli.stack:status", "Show the local servers: state, endpoint, version, memory, log."),
        "logs": ("frazil.cli.stack:logs", "Print the end of a server's log."),
        "connect": ("frazil.cli.connect:connect", "Print the configuration with which an engine uses this lake."),
    },
}
COMMANDS = {name: entry for section in SECTIONS.values() for name, entry in section.items()}


# Libraries that only some commands need, and the extra that each comes with.
EXTRAS = {
    **dict.fromkeys(("pyarrow", "numpy", "pyiceberg_core", "sqlglot"), "sinks"),
    **{name: name for name in ("bytewax", "daft", "duckdb", "pandas", "polars", "trino")},
    **{
        "pyspark": "spark",
        "deltalake": "delta",
        "confluent_kafka": "kafka",
        "psycopg": "postgres",
        "botocore": "vending",
        "cryptography": "vending",
    },
}

POSIX_ONLY = ("fcntl", "pwd", "resource")  # of Python itself, and not there on Windows


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called, and listed by section from a table."""

    def __init__(self, *args: object, sections: dict[str, dict[str, tuple[str, str]]], **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # click's own signature, passed through
        self.sections = sections
        self.lazy = {name: entry for section in sections.values() for name, entry in section.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.lazy:
            return None
        module, _, attribute = self.lazy[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        _take_global_options(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self.lazy))
        for title, commands in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, (_, text) in commands.items()])


@click.command(
    cls=LazyGroup, sections=SECTIONS, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.option("--profile", metavar="NAME", help="Use this profile of frazil.toml.")
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override one setting, e.g. stack.ports.kafka=19092."
)
@click.option("-v", "--verbose", count=True, help="Log on stderr what is done; -vv says everything.")
@click.option("--log-json", is_flag=True, help="Log one JSON object per line.")
@click.version_option(frazil.__version__, prog_name="frazil")
@click.pass_context
def cli(ctx: click.Context, profile: str | None, overrides: Sequence[str], verbose: int, log_json: bool) -> None:
    """An open lakehouse for Python data teams.

    An Iceberg REST catalog, tables as code, Spark pipelines and exactly-once sinks, from a laptop to a cluster. The
    options -v and --log-json may also stand after the command.
    """
    from frazil.cli.context import Context  # pydantic: not needed for --help
    from frazil.cli.show import Talk

    ctx.obj = Context(profile, _parse_overrides(overrides), Talk(verbosity=verbose, log_json=log_json))
    ctx.call_on_close(ctx.obj.talk.configure())


def _take_global_options(command: click.Command) -> None:
    """Lets -v and --log-json stand after a command, too; its help does not repeat them."""
    if isinstance(command, click.Group):
        for child in command.commands.values():
            _take_global_options(child)
    elif not any(param.name == "log_json" for param in command.params):
        command.params += [
            click.Option(["-v", "--verbose"], count=True, hidden=True, expose_value=False, callback=_set_log_option),
            click.Option(["--log-json"], is_flag=True, hidden=True, expose_value=False, callback=_set_log_option),
        ]


def _set_log_option(ctx: click.Context, param: click.Parameter, value: int) -> None:
    if value and ctx.obj is not None and not ctx.resilient_parsing:
        if param.name == "verbose":
            ctx.obj.talk.verbosity += value
        else:
            ctx.obj.talk.log_json = True
        ctx.obj.talk.configure()


def _parse_overrides(overrides: Sequence[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in overrides]
    for (key, sign, _), text in zip(pairs, overrides, strict=True):
        if not key or not sign:
            raise click.BadParameter(f"'{text}' is not KEY=VALUE", param_hint="--set")
    return {key: value for key, _, value in pairs}


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line; an error is one message on stderr, without a traceback, or one line of JSON with
    `--output json`.
    """
    # A terminal that cannot show a sign shows `?` for it, instead of ending the program.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and "utf" not in stream.encoding.lower():
            stream.reconfigure(errors="replace")
    words = list(sys.argv[1:] if args is None else args)
    if not _wants_json(words):
        _call(words)
        return
    try:
        _call(words, standalone=False)
    except click.ClickException as exc:
        _fail_in_json(type(exc).__name__, exc.format_message(), exit_code=exc.exit_code)
    except click.Abort:
        _fail_in_json("Aborted", "interrupted, or a question was not answered with yes")
    except FrazilError as exc:
        _fail_in_json(type(exc).__name__, exc.message, hint=exc.hint, exit_code=exc.exit_code)
    except Exception as exc:
        trace = redact(traceback.format_exc())
        _fail_in_json(type(exc).__name__, redact(str(exc)), hint="an unexpected error", trace=trace)


def _call(words: Sequence[str], *, standalone: bool = True) -> None:
    """Runs the command; errors of ours are printed and end the program, unless the caller wants them."""
    try:
        sys.exit(cli.main(args=words, prog_name="frazil", standalone_mode=standalone))
    except FrazilError as exc:
        if not standalone:
            raise
        _fail(exc)
    except Exception as exc:
        known = _as_ours(exc)
        if not standalone:
            raise known or exc from exc
        if known is None:
            _fail_unexpectedly(exc)
        _fail(known)


def _as_ours(exc: Exception) -> FrazilError | None:
    """An error of another library that users meet, as one of ours."""
    if isinstance(exc, ModuleNotFoundError):
        library = (exc.name or "").partition(".")[0]
        if library in POSIX_ONLY:
            hint = "on Windows, run it in WSL or in a container; docs/install.md says what works where"
            return FrazilError(f"this command does not run here: this Python has no module {library}", hint=hint)
        return MissingExtra(library, extra=EXTRAS[library]) if library in EXTRAS else None
    # What a catalog answers reaches us as PyIceberg's errors. They are known by name: importing them here would
    # cost every command.
    if type(exc).__module__.startswith("pyiceberg."):
        return CatalogError(f"{type(exc).__name__}: {exc}", reason=str(exc))
    return None


def _wants_json(words: Sequence[str]) -> bool:
    """Whether the command prints JSON; read from the words, for an error may come before they are parsed.

    >>> _wants_json(["run", "daily", "--output", "json"]), _wants_json(["log", "a.b", "--output=json"]), _wants_json(["log"])
    (True, True, False)
    """  # noqa: E501
    pairs = itertools.pairwise(words)
    return "connect" not in words and ("--output=json" in words or ("--output", "json") in pairs)


def _fail(exc: FrazilError) -> NoReturn:
    colour = False if os.environ.get("NO_COLOR") else None  # click itself does not look
    click.echo(f"{click.style('error:', fg='red', bold=True)} {visible(exc.message)}", err=True, color=colour)
    if exc.hint:
        click.echo(f"{click.style('  try:', bold=True)} {visible(exc.hint)}", err=True, color=colour)
    sys.exit(exc.exit_code)


def _fail_unexpectedly(exc: Exception) -> NoReturn:
    """Ends after an unexpected error: the traceback, for a report of the bug, then one line for the user."""
    click.echo(visible(redact(traceback.format_exc())), err=True)
    problem = f"{type(exc).__name__}: {redact(str(exc))}" if str(exc) else type(exc).__name__
    _fail(FrazilError(f"unexpected: {problem}", hint="report it with the lines above; frazil should have said more"))


def _fail_in_json(
    kind: str, message: str, *, hint: str | None = None, exit_code: int = 1, trace: str | None = None
) -> NoReturn:
    """One line on stderr, for programs: docs/cli-json.md has its shape."""
    error = {"type": kind, "message": message, "hint": hint, "exit_code": exit_code}
    click.echo(json.dumps({"error": error | ({"traceback": trace} if trace else {})}), err=True)
    sys.exit(exit_code)
