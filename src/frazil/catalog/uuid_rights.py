"""Which UUIDs a caller may give a new table or view: one that is in use belongs to the table that has it.

Indexes are kept by the UUID of their table, also those of a table that was dropped. Who creates or registers a second
table with the same UUID would have them. Nothing is refused without authentication.
"""

from __future__ import annotations

import orjson

from frazil.catalog.access.privileges import Need, Privilege, Target
from frazil.catalog.context import Context
from frazil.catalog.http import Request
from frazil.catalog.locations import parse_location
from frazil.catalog.metadata import Version
from frazil.catalog.store import indexes, relations, versions
from frazil.catalog.store.database import Sql
from frazil.catalog.warehouse import Warehouse
from frazil.errors import UuidTaken


def check_uuid(ctx: Context, sql: Sql, request: Request, warehouse: Warehouse, new: Version, kind: str) -> None:
    """Passes when no table or view has this UUID, nor had it at another place, but those that the caller manages.

    Runs in the transaction that creates the table.
    """
    if request.caller is None:
        return
    uuid = new.metadata[f"{kind}-uuid"]
    sql.run_locked((), places=[f"uuid:{uuid}/"])  # another transaction with the same UUID waits
    pointers = relations.having_uuid(sql, uuid)
    targets = [Target(pointer.kind, pointer.warehouse, pointer.namespace, pointer.name) for pointer in pointers]
    if not targets and _was_elsewhere(sql, uuid, new):
        targets = [Target("warehouse", warehouse.name)]
    if not all(ctx.gate.allows(sql, request, Need(Privilege.MANAGE, target)) for target in targets):
        request.refused = True
        raise UuidTaken(uuid)


def _was_elsewhere(sql: Sql, uuid: str, new: Version) -> bool:
    """Whether a dropped table with this UUID, or an index of it, has its files at another place than this one: a purge
    of it may be under way, which stops if the table is registered again.
    """
    homes = [parse_location(place) for place in (new.metadata["location"], new.location.rpartition("/")[0])]
    former = [parse_location(file) for file in versions.former_of(sql, uuid)]
    records = [orjson.loads(index.record) for index in indexes.list_of(sql, uuid)]
    indexed = [parse_location(record["codebook"]["path"]) for record in records]
    came_back = not former or any(home.contains(file) for file in former for home in homes)
    return not came_back or not all(homes[0].contains(file) for file in indexed)
