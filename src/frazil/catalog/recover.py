"""Going back to an older metadata file when the current one is corrupt or gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from frazil.catalog import places
from frazil.catalog.access.manage import COMMAND_LINE
from frazil.catalog.access.privileges import Target
from frazil.catalog.context import Context
from frazil.catalog.fields import Json
from frazil.catalog.history import list_metadata_files, number_of, read_or_reason
from frazil.catalog.locations import Place, parse_location
from frazil.catalog.names import Name
from frazil.catalog.store import audit, relations, versions
from frazil.catalog.store import places as place_store
from frazil.catalog.store.database import Sql
from frazil.catalog.store.relations import Relation, Swap
from frazil.catalog.updates import NO_SNAPSHOT
from frazil.catalog.warehouse import Warehouse
from frazil.errors import BadRequest, CommitConflict, NoSuchTable


@dataclass(frozen=True)
class Candidate:
    """A metadata file that the table could point to."""

    location: str
    number: int
    is_current: bool
    was_current: bool  # certain: the catalog or a later version's log says so
    reason: str  # why it cannot be read; empty when it can
    updated_ms: int = 0
    snapshot_id: int | None = None
    snapshots: int = 0

    @property
    def readable(self) -> bool:
        return not self.reason


def find_candidates(ctx: Context, warehouse: Warehouse, name: Name) -> tuple[Relation, list[Candidate]]:
    """The table's row, and every metadata file of it, the newest first; the current one is in the list even when it is
    gone.
    """
    relation = relations.find(ctx.database.read(), warehouse.name, name)
    if relation is None or relation.kind != "table":
        raise NoSuchTable(str(name))
    locations = [entry.location for entry in list_metadata_files(ctx.files, relation.metadata_location)]
    if parse_location(relation.metadata_location) not in map(parse_location, locations):
        locations.insert(0, relation.metadata_location)
    looks = [(location, *read_or_reason(ctx.files, location)) for location in locations]
    # a folder may hold two tables
    own = [look for look in looks if look[1] is None or look[1]["table-uuid"] == relation.uuid]
    certain = {parse_location(p) for p in (relation.metadata_location, relation.previous_location) if p}
    for _, metadata, _ in own:
        certain |= {parse_location(entry["metadata-file"]) for entry in (metadata or {}).get("metadata-log", ())}
    current = parse_location(relation.metadata_location)
    return relation, [_candidate(*look, current=current, certain=certain) for look in own]


def _candidate(location: str, metadata: Json | None, reason: str, *, current: Place, certain: set[Place]) -> Candidate:
    place, number = parse_location(location), number_of(location) or 0
    plain = Candidate(location, number, is_current=place == current, was_current=place in certain, reason=reason)
    if metadata is None:
        return plain
    snapshot_id = metadata["current-snapshot-id"]
    return replace(
        plain,
        updated_ms=metadata["last-updated-ms"],
        snapshot_id=None if snapshot_id == NO_SNAPSHOT else snapshot_id,
        snapshots=len(metadata["snapshots"]),
    )


def best_candidate(relation: Relation, candidates: Sequence[Candidate]) -> Candidate | None:
    """The version to go back to: the one that the catalog had before, else the newest that is readable and was current
    for certain.
    """
    good = [c for c in candidates if c.readable and c.was_current and not c.is_current]
    before = [
        c
        for c in good
        if relation.previous_location and parse_location(c.location) == parse_location(relation.previous_location)
    ]
    return next(iter(before or good), None)


def roll_back(ctx: Context, warehouse: Warehouse, name: Name, relation: Relation, target: Candidate) -> None:
    """Points the table to the candidate, if the pointer has not moved since it was read, and records that."""
    if not target.readable:
        raise BadRequest(f"{target.location} cannot be read: {target.reason}", path=target.location)
    metadata = ctx.files.read(target.location)
    swap = Swap(
        name, "table", relation.metadata_location, target.location, metadata["table-uuid"], metadata["location"]
    )
    claims = places.keys_of(places.new_locations(metadata, None))

    # Whatever lies there now may have been current: the logs that tell may be in the files that are lost.
    present = [entry.location for entry in list_metadata_files(ctx.files, relation.metadata_location)]
    named = str(Target("table", warehouse.name, name.key, name.name))
    note = f"from {relation.metadata_location} to {target.location}"
    record = audit.Record(ctx.clock(), COMMAND_LINE, "", "", "", "recoverTable", named, "allowed", note)

    def point_back(sql: Sql) -> bool:
        versions.keep(sql, relation.uuid, (relation.metadata_location, relation.previous_location, *present))
        moved = relations.swap(sql, warehouse.name, swap)
        if moved:  # it had them before: a repair is not refused
            place_store.claim(sql, warehouse.name, [(key, name) for key in claims], allow_overlap=True)
            audit.add(sql, record)
        return moved

    if not ctx.database.write(point_back):
        raise CommitConflict(f"Table {name} was changed at the same time; run the command again")
