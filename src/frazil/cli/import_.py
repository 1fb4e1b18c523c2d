"""`import`: the code that declares what is live."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from frazil.cli.complete import complete_tables
from frazil.cli.context import Context
from frazil.cli.show import echo
from frazil.errors import ProjectError
from frazil.protocol import COMPANION_SUFFIXES
from frazil.units import count

if TYPE_CHECKING:
    from frazil.client import FrazilCatalog


@click.command("import")
@click.argument("names", nargs=-1, metavar="[TABLE|NAMESPACE]...", shell_complete=complete_tables)
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="Write to a new file, instead of printing."
)
@click.pass_obj
def import_(context: Context, names: Sequence[str], out: Path | None) -> None:
    """Write the code that declares live tables."""
    from frazil.tables import write_module

    if out and out.exists():
        raise ProjectError(
            f"{out} exists, and import overwrites nothing", hint="name another file, and take over what you want"
        )
    catalog = context.catalog
    tables = catalog.load_tables(_find(catalog, names))
    if not tables:
        raise ProjectError("the catalog has no tables to import")
    code = write_module(tables)
    if out is None:
        echo(code, nl=False)
        return
    out.write_text(code, encoding="utf-8")
    echo(f"declared {count(len(tables), 'table')} in {out}")


def _find(catalog: FrazilCatalog, names: Sequence[str]) -> list[tuple[str, ...]]:
    """The tables of these names and in these namespaces; all, if nothing is named."""
    if not names:
        return [table for namespace in _all_namespaces(catalog) for table in _tables(catalog, namespace)]
    identifiers: list[tuple[str, ...]] = []
    for name in names:
        identifier = tuple(name.split("."))
        if len(identifier) > 1 and catalog.table_exists(identifier):
            identifiers.append(identifier)
        elif catalog.namespace_exists(identifier):
            identifiers += _tables(catalog, identifier)
        else:
            raise ProjectError(f"the catalog has no table and no namespace '{name}'")
    return list(dict.fromkeys(identifiers))


def _all_namespaces(catalog: FrazilCatalog, parent: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    children = sorted(catalog.list_namespaces(parent))
    return [namespace for child in children for namespace in (child, *_all_namespaces(catalog, child))]


def _tables(catalog: FrazilCatalog, namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
    return sorted(
        identifier for identifier in catalog.list_tables(namespace) if not identifier[-1].endswith(COMPANION_SUFFIXES)
    )
