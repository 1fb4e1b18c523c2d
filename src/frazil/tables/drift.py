"""What someone changed by hand: the live table against what was last applied to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.tables.compare import Change, compare
from frazil.tables.declare import Table
from frazil.tables.evolve import evolve
from frazil.tables.shape import Record, Shape, nodes

if TYPE_CHECKING:
    from pyiceberg.table import Table as LiveTable


def find_drift(declared: Table, live: LiveTable | None) -> list[Change]:
    """The changes that were made by hand and that the declaration does not have.

    A table remembers what was applied to it last. What differs from that was done by someone else; where the
    declaration has followed since, it is no drift any more. A table to which nothing was ever applied is compared with
    its declaration.
    """
    if live is None:
        return [Change("-", ("table",), f"table {declared.name}: it is not there")]
    metadata = live.metadata
    evolution = evolve(declared, metadata)
    record = Record.of(metadata.properties)
    applied = record.shape(metadata) if record else None
    if record is None or applied is None:
        return compare(evolution.target, evolution.live)
    still_open = {change.about[:2] for change in compare(evolution.live, evolution.target)}
    # A column that was dropped by hand would come back under a new id: it is known by its name.
    missing = {node.path for i, node in nodes(evolution.target.schema).items() if i not in nodes(evolution.live.schema)}
    still_open |= {("column", str(i)) for i, node in nodes(applied.schema).items() if node.path in missing}
    now = Shape.of(metadata, keys=set(record.properties))
    return [change for change in compare(applied, now) if change.about[:2] in still_open]
