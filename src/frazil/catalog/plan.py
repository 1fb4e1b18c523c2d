"""The first half of a commit: from a change to a plan. Reads the pointer and the base metadata, decides, lays out the
new version.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from frazil.catalog import place_rights, places
from frazil.catalog.access.privileges import Target
from frazil.catalog.appends.files import rebase_change
from frazil.catalog.appends.problems import NotRebased
from frazil.catalog.appends.rebase import Rebased
from frazil.catalog.commit import Change, decide
from frazil.catalog.context import Context
from frazil.catalog.fields import Json
from frazil.catalog.http import Request
from frazil.catalog.metadata import Version, table_version
from frazil.catalog.names import Name, show
from frazil.catalog.places import METADATA_PATH as METADATA_PATH
from frazil.catalog.places import PATH_PROPERTIES as PATH_PROPERTIES
from frazil.catalog.store import namespaces, relations
from frazil.catalog.store import places as place_store
from frazil.catalog.store.database import Sql
from frazil.catalog.store.relations import Relation
from frazil.catalog.warehouse import Warehouse
from frazil.errors import (
    AlreadyExists,
    CommitConflict,
    MetadataCorrupt,
    MetadataMissing,
    NoSuchNamespace,
    NoSuchTable,
    PropertyRefused,
    Unavailable,
)

log = logging.getLogger("frazil.catalog")


@dataclass(frozen=True, slots=True)
class Plan:
    """What will happen to one table: from `base` (None for a new one) to `new` (None when nothing changes)."""

    name: Name
    base: Version | None
    new: Version | None
    kind: str = "table"
    claims: Mapping[str, str] = field(default_factory=dict)  # the places that it adds, and how they were spelled
    names_uuid: bool = False  # the client chose the UUID of a new table
    moved: tuple[Rebased, ...] = ()  # appends that follow another head than their clients saw

    @property
    def result(self) -> Version:
        metadata = self.new or self.base
        assert metadata is not None, "a plan has a base or a new version"
        return metadata

    def target(self, warehouse: str) -> Target:
        """The table or view as the object of grants."""
        return Target(self.kind, warehouse, self.name.key, self.name.name)


def plan_change(
    ctx: Context, sql: Sql, request: Request, warehouse: Warehouse, change: Change, *, moves: bool = False
) -> Plan:
    """What a change makes of its table as it is now; raises what speaks against it. With `moves`, an append may be
    rebased.
    """
    relation = find_pointer(ctx, sql, request, warehouse.name, change.name)
    base = (
        _check_free(ctx, sql, warehouse, change.name, relation)
        if change.creates
        else load_base(ctx, change.name, relation)
    )
    old, old_location = (base.metadata, base.location) if base else (None, None)
    new_uuid = ctx.new_uuid()
    metadata, rebased = decide_or_rebase(ctx, old, change, base_location=old_location, new_uuid=new_uuid, moves=moves)
    if metadata is None:
        return Plan(change.name, base, None)
    chosen = None
    if base is None and "location" not in metadata:
        properties = namespaces.find(sql, warehouse.name, change.name.namespace) or {}
        chosen = new_location(ctx, sql, request, warehouse, change.name, properties)
        metadata["location"] = next(iter(chosen.values()))
    claims = check_places(ctx, sql, request, warehouse, change.name, metadata, old, chosen=chosen)
    location = metadata_location(metadata, old_location, ctx.new_uuid())
    version = table_version(location, metadata, base, rule=ctx.files.rule)
    names_uuid = base is None and metadata["table-uuid"] != new_uuid
    moved = (rebased,) if rebased is not None else ()
    return Plan(change.name, base, version, claims=claims, names_uuid=names_uuid, moved=moved)


def decide_or_rebase(
    ctx: Context,
    base: Json | None,
    change: Change,
    *,
    base_location: str | None,
    new_uuid: str = "",
    moves: bool = False,
) -> tuple[Json | None, Rebased | None]:
    """The decision about a change; about the same append after the head of now, if only that stands in its way and the
    table allows it.
    """
    try:
        return decide(base, change, base_location=base_location, now_ms=ctx.clock(), new_uuid=new_uuid), None
    except CommitConflict as conflict:
        if not moves or base is None or not ctx.appends.is_on(base):
            raise
        rebased = _rebase(ctx, base, change, conflict)
    decided = decide(base, rebased.change, base_location=base_location, now_ms=ctx.clock(), new_uuid=new_uuid)
    return decided, rebased


def _rebase(ctx: Context, base: Json, change: Change, conflict: CommitConflict) -> Rebased:
    try:
        return rebase_change(ctx.files.read_bytes, ctx.appends.known, base, change, new_uuid=ctx.new_uuid)
    except NotRebased as reason:
        ctx.appends.count("refused")
        log.info("append not rebased", extra={"fields": {"table": str(change.name), "reason": str(reason)}})
        raise conflict from reason


def find_pointer(ctx: Context, sql: Sql, request: Request, warehouse: str, name: Name) -> Relation | None:
    """The row of a table or view. If the caller was assumed to be known, the same query confirms it."""
    if not request.assumed:
        return relations.find(sql, warehouse, name)
    relation, access_version = relations.find_with_version(sql, warehouse, name)
    ctx.gate.confirm(request, access_version)
    return relation


def _check_free(ctx: Context, sql: Sql, warehouse: Warehouse, name: Name, relation: Relation | None) -> Version | None:
    if relation is None:
        if namespaces.find(sql, warehouse.name, name.namespace) is None:
            raise NoSuchNamespace(show(name.namespace))
        return None
    if relation.kind == "view":
        raise AlreadyExists(f"View with same name already exists: {name}")
    return load_base(ctx, name, relation)


def load_base(ctx: Context, name: Name, relation: Relation | None) -> Version:
    """The table's current version."""
    if relation is None or relation.kind != "table":
        raise NoSuchTable(str(name))
    return load_current(ctx, name, relation)


def load_current(ctx: Context, name: Name, relation: Relation, *, inline: bool = False) -> Version:
    """The version that a table's row points to; if its file is lost, corrupt or out of reach, the error names the table
    as well.
    """
    try:
        return ctx.files.load(relation.metadata_location, inline=inline)
    except (MetadataMissing, MetadataCorrupt) as exc:
        raise exc.of(str(name)) from exc
    except Unavailable as exc:
        raise Unavailable(f"{exc.message} (table {name})", hint=exc.hint, table=str(name)) from exc


def new_location(
    ctx: Context,
    sql: Sql,
    request: Request,
    warehouse: Warehouse,
    name: Name,
    properties: Mapping[str, str],
    *,
    unique: bool = False,
) -> dict[str, str]:
    """The keys and the location of a place for a table or view whose creator names none; the properties are its
    namespace's. A unique one always has a suffix.
    """
    with place_rights.unnamed_occupants(ctx, request, warehouse):
        return places.choose_location(
            sql,
            ctx.warehouses,
            warehouse,
            name,
            properties,
            new_uuid=ctx.new_uuid,
            is_empty=lambda keys: not unique and place_rights.empty_place(ctx, request, keys),
            folds=ctx.folds(warehouse),
        )


def check_places(
    ctx: Context,
    sql: Sql,
    request: Request,
    warehouse: Warehouse,
    name: Name,
    metadata: Json,
    base: Json | None,
    *,
    chosen: Mapping[str, str] | None = None,
    registers: bool = False,
) -> dict[str, str]:
    """The places that the metadata adds to those of its base, if the table or view may have them, and the caller may
    name them; `chosen` are known to be free.
    """
    check_properties(ctx, metadata, base)
    known = dict(chosen or {})
    locations = [location for location in places.new_locations(metadata, base) if location not in known.values()]
    if not locations:
        return known
    claims = places.checked_keys(ctx.warehouses, warehouse, locations)
    if request.caller is not None:
        own = place_store.list_own(sql, warehouse=warehouse.name, name=name) if base is not None else list(known)
        created = metadata if base is None and not registers else None
        place_rights.check_places(ctx, sql, request, warehouse, name, locations, created=created, own=own)
    with place_rights.unnamed_occupants(ctx, request, warehouse):
        places.check_free(sql, ctx.warehouses, warehouse, name, claims, folds=ctx.folds(warehouse))
    return known | claims


def check_properties(ctx: Context, metadata: Json, base: Json | None) -> None:
    """Passes when no property is newly set by which clients would load code or reach other hosts."""
    properties = metadata["properties"]
    stored = base["properties"] if base else {}
    if properties is not stored and (names := ctx.files.rule.newly_set(properties, stored)):
        raise PropertyRefused(metadata["location"], names)


_NUMBER = re.compile(r"(?:v)?(\d{1,9})")


def metadata_location(metadata: Json, previous: str | None, uuid: str) -> str:
    """The name of the next metadata file: a number one above the file before, and a UUID that no other commit has.

    >>> metadata_location({"location": "s3://b/t", "properties": {}}, "s3://b/t/metadata/00041-x.metadata.json", "u")
    's3://b/t/metadata/00042-u.metadata.json'
    """
    number = 0
    if previous is not None:
        match = _NUMBER.match(previous.rpartition("/")[2])
        number = int(match[1]) + 1 if match else 1
    packed = ".gz" if metadata["properties"].get("write.metadata.compression-codec", "none").lower() == "gzip" else ""
    return f"{places.metadata_folder(metadata)}/{number:05d}-{uuid}{packed}.metadata.json"
