"""`frazil tables`: the tables of the catalog, with what their current metadata says about them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from frazil.cli.complete import complete_namespaces
from frazil.cli.context import Context
from frazil.cli.show import OUTPUT, echo, print_rows, to_json
from frazil.protocol import COMPANION_SUFFIXES
from frazil.units import count, size

if TYPE_CHECKING:
    from pyiceberg.table import Table

COLUMNS = ("table", "snapshots", "rows", "data files", "size", "updated (UTC)")


@dataclass(frozen=True)
class TableInfo:
    """What one metadata file says about a table; a number that no snapshot summary holds is None."""

    table: str
    format_version: int | None = None
    snapshots: int | None = None
    snapshot_id: int | None = None
    rows: int | None = None  # in data files
    delete_files: int | None = None
    data_files: int | None = None
    bytes: int | None = None
    updated_ms: int | None = None
    location: str | None = None
    error: str | None = None

    @classmethod
    def of(cls, name: str, table: Table | Exception) -> TableInfo:
        """From the table's metadata: no manifest is read."""
        if isinstance(table, Exception):
            return cls(name, error=str(table).partition("\n")[0])
        metadata, snapshot = table.metadata, table.current_snapshot()
        summary = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}

        def total(key: str) -> int | None:
            return 0 if snapshot is None else int(summary[key]) if key in summary else None

        return cls(
            name,
            format_version=metadata.format_version,
            snapshots=len(metadata.snapshots),
            snapshot_id=snapshot.snapshot_id if snapshot else None,
            rows=total("total-records"),
            delete_files=total("total-delete-files"),
            data_files=total("total-data-files"),
            bytes=total("total-files-size"),
            updated_ms=metadata.last_updated_ms,
            location=metadata.location,
        )


@click.command()
@click.argument("namespace", required=False, shell_complete=complete_namespaces)
@click.option("--all", "everything", is_flag=True, help="Also companion tables: __quarantine, __ledger, __runs.")
@OUTPUT
@click.pass_obj
def tables(context: Context, namespace: str | None, everything: bool, output: str) -> None:
    """List tables with their snapshots, rows and size.

    Of the whole catalog, or of one NAMESPACE and what is below it. Reads the metadata of each table and no manifest:
    rows, files and size are those of the current snapshot's summary.
    """
    infos = list(_describe(context, namespace, everything))
    if output == "json":
        echo(to_json({"tables": [asdict(info) for info in infos]}))
    elif infos:
        print_rows(COLUMNS, map(_as_row, infos), right=COLUMNS[1:5])
    else:
        echo(f"no tables in {namespace or 'this catalog'}")


def _describe(context: Context, namespace: str | None, everything: bool) -> Iterator[TableInfo]:
    from frazil.lake import Lake

    parts = tuple(namespace.split(".")) if namespace else None
    names = Lake(context.settings, catalog=context.catalog).identifiers(parts)
    names = [name for name in names if everything or not name[-1].endswith(COMPANION_SUFFIXES)]
    for name, table in zip(names, context.catalog.load_each(names), strict=True):
        yield TableInfo.of(".".join(name), table)


def _as_row(info: TableInfo) -> tuple[object, ...]:
    if info.error is not None:
        return info.table, "", "", "", "", info.error
    deletes = f" + {count(info.delete_files, 'delete file')}" if info.delete_files else ""
    return (
        info.table,
        f"{info.snapshots:,}",
        _number(info.rows),
        _number(info.data_files) + deletes,
        "?" if info.bytes is None else size(info.bytes),
        f"{datetime.fromtimestamp((info.updated_ms or 0) / 1000, UTC):%Y-%m-%d %H:%M:%S}",
    )


def _number(value: int | None) -> str:
    """
    >>> _number(1200), _number(None)
    ('1,200', '?')
    """
    return "?" if value is None else f"{value:,}"
