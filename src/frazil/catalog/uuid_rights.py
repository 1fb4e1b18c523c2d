"""Which UUIDs a caller may give a new table or view: one that is in use belongs to the table that has it.

Indexes are kept by the UUID of their table, also those of a table that was dropped. Who creates or registers a second
table with the same UUID would have them. Nothing is refused without authentication.
"""

from __future__ import annotations

import orjson

from frazil.catalog.access.privileges import Need, Privilege, Target
from frazil.catalog.context import Context
from frazil.catalog.fields import Json
from frazil.catalog.http import Request
from frazil.catalog.locations import parse_location
from frazil.catalog.store import indexes, relations
from frazil.catalog.store.database import Sql
from frazil.catalog.warehouse import Warehouse
from frazil.errors import UuidTaken


def check_uuid(ctx: Context, sql: Sql, request: Request, warehouse: Warehouse, metadata: Json, kind: str) -> None:
    """Passes when no table or view has this UUID, and no index of a dropped table, but those that the caller manages.

    Runs in the transaction that creates the table.
    """
    if request.caller is None:
        return
    uuid = metadata[f"{kind}-uuid"]
    sql.run_locked((), places=[f"uuid:{uuid}/"])  # another transaction with the same UUID waits
    pointers = relations.having_uuid(sql, uuid)
    targets = [Target(pointer.kind, pointer.warehouse, pointer.namespace, pointer.name) for pointer in pointers]
    if not targets and _has_foreign_index(sql, uuid, metadata["location"]):
        targets = [Target("warehouse", warehouse.name)]
    if not all(ctx.gate.allows(sql, request, Need(Privilege.MANAGE, target)) for target in targets):
        request.refused = True
        raise UuidTaken(uuid)


def _has_foreign_index(sql: Sql, uuid: str, location: str) -> bool:
    """Whether an index with this UUID has its files elsewhere than a table at this location would have them."""
    home = parse_location(location)
    records = [orjson.loads(index.record) for index in indexes.list_of(sql, uuid)]
    return not all(home.contains(parse_location(record["codebook"]["path"])) for record in records)
