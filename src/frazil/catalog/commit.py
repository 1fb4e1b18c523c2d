"""The decision about a commit: base metadata + requirements + updates -> new metadata, or a refusal. Pure.

    decide(base, change, ...)  ->  new metadata        write its file, then swap the pointer
                               ->  None                the updates change nothing
                               raises CommitConflict   a requirement does not hold, or a ref needs what is removed:
                               refresh and retry raises BadRequest       it can never be applied

Metadata is plain JSON in the shape that `metadata.normalise` gives: every list and map is there, even when empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from frazil.catalog import fields, schemas
from frazil.catalog.fields import Json
from frazil.catalog.names import Name
from frazil.catalog.requirements import check_requirements, is_create
from frazil.catalog.updates import MAX_FORMAT_VERSION, NO_SNAPSHOT, TABLE_UPDATES, Draft, current_schema
from frazil.errors import BadRequest, CommitConflict, InvalidChange

DEFAULT_FORMAT_VERSION = 2
PREVIOUS_VERSIONS_MAX = "write.metadata.previous-versions-max"
PREVIOUS_VERSIONS_MAX_DEFAULT = 100
RESERVED_PROPERTIES = frozenset(
    (
        "format-version", "uuid", "snapshot-count", "current-snapshot-id", "current-snapshot-summary",
        "current-snapshot-timestamp-ms",
        "current-schema", "default-partition-spec", "default-sort-order",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Change:
    """What a request asks of one table."""

    name: Name
    requirements: Sequence[Json] = field(default_factory=list)
    updates: Sequence[Json] = field(default_factory=list)

    @property
    def creates(self) -> bool:
        return is_create(self.requirements)


def parse_change(body: Json, name: Name, *, most: int = fields.INT_MAX) -> Change:
    """The change of one table out of a request's body; refuses one with more than `most` updates or requirements."""
    where = f"Commit of {name}"
    change = Change(
        name, fields.objects(body, "requirements", where, optional=True), fields.objects(body, "updates", where)
    )
    count = max(len(change.requirements), len(change.updates))
    if count > most:
        kind = "updates" if len(change.updates) == count else "requirements"
        raise BadRequest(f"{where}: {count} {kind} in one commit; at most {most} are accepted", hint="split the commit")
    return change


def decide(base: Json | None, change: Change, *, base_location: str | None, now_ms: int, new_uuid: str) -> Json | None:
    """The table's new metadata, or None when the updates change nothing. `base` is None when there is no such table."""
    check_requirements(base, change.requirements, table=str(change.name))
    draft = _start(base, change, now_ms=now_ms, new_uuid=new_uuid)
    apply_updates(draft, change)
    if not draft.changed:
        return None
    return finish(draft, base, base_location)


def apply_updates(draft: Draft, change: Change) -> None:
    for position, update in enumerate(change.updates):
        action = update.get("action")
        apply = TABLE_UPDATES.get(action.lower()) if isinstance(action, str) else None
        if apply is None:
            raise BadRequest(f"Commit of {change.name}: update {position} has an unknown action {action!r}")
        apply(draft, update, f"Commit of {change.name}: update {position} ({action})")


def _start(base: Json | None, change: Change, *, now_ms: int, new_uuid: str) -> Draft:
    if base is not None:
        return Draft(dict(base), now_ms)
    # A new table is born in the version that it asks for: there is nothing to upgrade.
    upgrades = [u for u in change.updates if u.get("action") == "upgrade-format-version"]
    version = (
        fields.integer(upgrades[0], "format-version", f"Commit of {change.name}")
        if upgrades
        else DEFAULT_FORMAT_VERSION
    )
    return Draft(empty_metadata(version, new_uuid), now_ms, is_new=True, changed=True)


def empty_metadata(format_version: int, uuid: str) -> Json:
    """Metadata with nothing in it yet, not even a location."""
    if not 1 <= format_version <= MAX_FORMAT_VERSION:
        raise InvalidChange(f"Unsupported format version: v{format_version} (supported: v{MAX_FORMAT_VERSION})")
    return {
        "format-version": format_version,
        "table-uuid": uuid,
        "last-sequence-number": 0,
        "last-column-id": 0,
        "current-schema-id": 0,
        "schemas": [],
        "default-spec-id": 0,
        "partition-specs": [],
        "last-partition-id": schemas.FIRST_PARTITION_ID - 1,
        "default-sort-order-id": 0,
        "sort-orders": [],
        "properties": {},
        "current-snapshot-id": NO_SNAPSHOT,
        "next-row-id": 0,
        "encryption-keys": [],
        "refs": {},
        "snapshots": [],
        "statistics": [],
        "partition-statistics": [],
        "snapshot-log": [],
        "metadata-log": [],
    }


def finish(draft: Draft, base: Json | None, base_location: str | None) -> Json:
    """The draft made whole: checked, its logs extended, its time set."""
    metadata = draft.metadata
    if draft.shape_changed or draft.is_new:
        _check_shape(metadata)
    _check_refs(draft)
    _trim_snapshot_log(draft)
    if base is not None and base_location is not None:
        metadata["metadata-log"] = _extend_metadata_log(metadata, base["last-updated-ms"], base_location)
    logs = (metadata["snapshot-log"], metadata["metadata-log"])
    metadata["last-updated-ms"] = max(draft.now_ms, *(log[-1]["timestamp-ms"] for log in logs if log), 0)
    return metadata


def _check_shape(metadata: Json) -> None:
    """Passes when the default spec and sort order exist and fit the current schema."""
    schema = current_schema(metadata)
    spec = next((s for s in metadata["partition-specs"] if s["spec-id"] == metadata["default-spec-id"]), None)
    order = next((o for o in metadata["sort-orders"] if o["order-id"] == metadata["default-sort-order-id"]), None)
    if spec is None:
        raise InvalidChange("Partition specs cannot be null or empty: the table has no default spec")
    if order is None:
        raise InvalidChange("Sort orders cannot be null or empty: the table has no default sort order")
    schemas.check_terms(schema, spec["fields"], "partition field")
    schemas.check_terms(schema, order["fields"], "sort field")


def _check_refs(draft: Draft) -> None:
    """Passes when no branch or tag points at a snapshot that this commit removes.

    A client that expires snapshots also drops their refs; a ref that is left was created after it looked. Java's
    catalog drops it silently. After a conflict the client looks again: Java's and PyIceberg's expiry keep what a ref
    points at.
    """
    for name, ref in draft.metadata["refs"].items():
        if ref["snapshot-id"] in draft.removed_snapshots:
            raise CommitConflict(
                f"Cannot remove snapshot {ref['snapshot-id']}: {ref['type']} {name} points at it",
                snapshot=ref["snapshot-id"],
            )


def _trim_snapshot_log(draft: Draft) -> None:
    metadata = draft.metadata
    current = metadata["current-snapshot-id"]
    # were current only inside this commit: no reader ever saw them
    passing = {i for i in draft.former_mains if i != current}
    if not passing and not draft.removed_snapshots:
        return
    alive = {s["snapshot-id"] for s in metadata["snapshots"]}
    log: list[Json] = []
    for entry in metadata["snapshot-log"]:
        if entry["snapshot-id"] in alive:
            if entry["snapshot-id"] not in passing:
                log.append(entry)
        elif draft.removed_snapshots:
            log.clear()  # a gap would make time travel answer with the wrong snapshot: history starts after it
    if current in alive and (not log or log[-1]["snapshot-id"] != current):
        raise InvalidChange("Cannot set invalid snapshot log: latest entry is not the current snapshot")
    metadata["snapshot-log"] = log


def _extend_metadata_log(metadata: Json, time_ms: int, location: str) -> list[Json]:
    most = max(1, int_property(metadata, PREVIOUS_VERSIONS_MAX, PREVIOUS_VERSIONS_MAX_DEFAULT))
    entry = {"timestamp-ms": time_ms, "metadata-file": location}
    older = metadata["metadata-log"]
    return [*older[max(0, len(older) - most + 1) :], entry]


def int_property(metadata: Json, key: str, default: int) -> int:
    text = metadata["properties"].get(key)
    try:
        return default if text is None else int(text)
    except ValueError:
        raise InvalidChange(f"Table property {key} must be an integer, got {text!r}", got=text) from None


def new_table(request: Json, *, location: str, now_ms: int, uuid: str) -> Json:
    """The first metadata of a table that is created by a request: fresh field ids, one schema, one spec, one sort
    order.
    """
    where = "Create table"
    properties = fields.properties(request, "properties", where, optional=True)
    version = _requested_version(properties)
    schema = fields.mapping(request, "schema", where)
    schemas.check_schema(schema, f"{where}: schema")
    fresh, ids = schemas.assign_fresh_ids(schema)
    schemas.check_version(fresh, version)
    draft = Draft(empty_metadata(version, uuid), now_ms, is_new=True)
    draft.put(location=location, schemas=[fresh], last_column_id=len(ids), properties=_kept_properties(properties))
    name = Name(("new",), "table")
    spec = _renumber(
        fields.mapping(request, "partition-spec", where) if request.get("partition-spec") else {"fields": []},
        ids,
        spec=True,
    )
    order = _renumber(
        fields.mapping(request, "write-order", where) if request.get("write-order") else {"fields": []}, ids, spec=False
    )
    shape: list[Json] = [
        {"action": "add-spec", "spec": spec},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": order},
        {"action": "set-default-sort-order", "sort-order-id": -1},
    ]
    apply_updates(draft, Change(name, (), shape))
    return finish(draft, None, None)


def _requested_version(properties: dict[str, str]) -> int:
    text = properties.get("format-version", str(DEFAULT_FORMAT_VERSION))
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:10]) <= MAX_FORMAT_VERSION:
        raise InvalidChange(f"Unsupported format version: v{text[:20]} (supported: v{MAX_FORMAT_VERSION})")
    return int(text)


def _kept_properties(properties: dict[str, str]) -> dict[str, str]:
    # Without it Java's writers fall back to gzip, their default for tables made before 1.4.
    return {"write.parquet.compression-codec": "zstd"} | {
        k: v for k, v in properties.items() if k not in RESERVED_PROPERTIES
    }


def _renumber(source: Json, ids: dict[int, int], *, spec: bool) -> Json:
    """The spec or order with the schema's fresh ids; its own field ids are assigned again."""
    terms = (
        schemas.check_spec(source, "Create table: partition-spec")
        if spec
        else schemas.check_order(source, "Create table: write-order")
    )
    for term in terms:
        if term["source-id"] not in ids:
            raise InvalidChange(
                f"Cannot find source column {term['source-id']} of the {'partition spec' if spec else 'write order'}",
                column=term["source-id"],
            )
    return {
        "fields": [{**{k: v for k, v in t.items() if k != "field-id"}, "source-id": ids[t["source-id"]]} for t in terms]
    }
