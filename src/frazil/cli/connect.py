"""`frazil connect`: how other engines use this lake."""

from __future__ import annotations

from pathlib import Path

import click

from frazil.cli.context import Context
from frazil.cli.show import echo
from frazil.engine_config import ENGINES, SIGNED, VENDED, find_connection
from frazil.errors import ConfigError


@click.command()
@click.argument("engine", type=click.Choice(list(ENGINES)))
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write it to a file, only yours to read.",
)
@click.option("--show-secrets", is_flag=True, help="Put keys and tokens in, instead of the variables that hold them.")
@click.option(
    "--vended",
    is_flag=True,
    help="For users without keys of the object store: the engine asks the catalog for credentials (trino, spark, "
    "pyiceberg, duckdb, daft).",
)
@click.option("--signed", is_flag=True, help="Likewise: the engine has the catalog sign its requests (spark).")
@click.pass_obj
def connect(context: Context, engine: str, output: Path | None, show_secrets: bool, vended: bool, signed: bool) -> None:
    """Print the configuration with which an engine uses this lake.

    trino: a catalog file; spark: lines for spark-defaults.conf; pyiceberg: .pyiceberg.yaml; duckdb: SQL for its shell;
    daft: a module in Python; polars, ibis: modules in Python; dlt, dbt, flink, kafka-connect: their configuration;
    clickhouse: SQL; sail, env: variables for a shell; go, rust: a function. Keys are named by their variables,
    AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. If you have no keys and the catalog vends credentials (or signs
    requests, for spark), none are named.
    """
    if vended and engine not in VENDED:
        raise ConfigError(
            f"{engine}: no configuration with vended credentials is known", hint=f"they are for {', '.join(VENDED)}"
        )
    if signed and engine not in SIGNED:
        raise ConfigError(f"{engine} cannot have its requests signed", hint=f"these can: {', '.join(SIGNED)}")
    to = find_connection(context.settings, lambda: context.catalog, vended=vended, signed=signed)
    text = ENGINES[engine](to, show_secrets=show_secrets)
    if output is None:
        echo(text, nl=False)
        return
    from frazil.local_stack import write_private

    try:
        write_private(output, text)
    except OSError as exc:
        raise ConfigError(f"{output} cannot be written: {exc.strerror}", hint="name a folder that exists") from exc
    echo(f"{engine}: written to {output}", err=True)
