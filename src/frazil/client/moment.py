"""Several tables as they were at one moment, though each is loaded by a request of its own.

Tables are loaded twice. What did not change between the two readings was current all the time from the end of the first
to the start of the second, for all of the tables: so tables that are published in one commit are read together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from frazil.client.catalog import FrazilCatalog

READS = 10  # of all tables, until two in a row see the same


def load_at_once(catalog: FrazilCatalog, names: Sequence[str]) -> tuple[dict[str, Table], bool]:
    """The tables by name, and whether they were so at one moment: read until nothing has changed between two readings.
    If they change during all readings, each of them is right by itself.
    """
    tables = dict(zip(names, catalog.load_tables(names), strict=True))
    for _ in range(READS):
        changed = load_changed(catalog, tables)
        if not changed:
            return tables, True
        tables |= changed
    return tables, False


def load_changed(catalog: FrazilCatalog, tables: Mapping[str, Table]) -> dict[str, Table]:
    """Those tables that are not as they were loaded, as they are now. One alone needs no second reading."""
    if len(tables) < 2:
        return {}
    again = zip(tables, catalog.load_tables(tables), strict=True)
    return {name: table for name, table in again if table.metadata_location != tables[name].metadata_location}
