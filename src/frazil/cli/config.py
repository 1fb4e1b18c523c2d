"""`frazil config`: the settings that hold here, and where each came from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
from pydantic import BaseModel, SecretStr

from frazil.cli.context import Context
from frazil.cli.show import OUTPUT, print_json
from frazil.config import Settings, is_secret, redact_url
from frazil.terminal import visible


@click.command()
@OUTPUT
@click.pass_obj
def config(context: Context, output: str) -> None:
    """Show the settings that hold here and where each came from."""
    rows = [(key, value, context.settings.source_of(key)) for key, value in printable(context.settings)]
    if output == "json":
        print_json([{"key": key, "value": value, "source": source} for key, value, source in rows])
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("setting", "value", "source", title=Text(f"profile {context.settings.profile}"))
    for key, value, source in rows:
        # Text, not str: brackets in a value or in the name of a profile's source are no markup.
        table.add_row(
            key, Text(visible("" if value is None else str(value)), overflow="fold"), Text(source, overflow="fold")
        )
    console = Console()
    (console if console.is_terminal else Console(width=240)).print(table)


def printable(settings: Settings) -> Iterator[tuple[str, Any]]:
    """Each setting as (dotted key, value fit for a screen): secrets hidden, passwords in URLs too."""
    for section in type(settings).model_fields:
        if section not in ("sources", "profile"):
            yield from _rows(getattr(settings, section), section)


def _rows(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _rows(getattr(value, name), f"{key}.{name}")
    elif isinstance(value, SecretStr):
        secret = value.get_secret_value()
        yield key, redact_url(secret) if "://" in secret else str(value)
    elif isinstance(value, dict):
        # A connection's own properties may hold credentials under any name: their values stay hidden.
        hidden = key == "catalog.properties"
        yield key, {k: "**********" if hidden or is_secret(k) else redact_url(v) for k, v in value.items()}
    elif isinstance(value, str):
        yield key, redact_url(value)
    else:
        yield key, value if isinstance(value, int | float | None) else str(value)
