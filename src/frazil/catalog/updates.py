"""What a commit changes in a table: one small function an update, pure.

A draft starts as a shallow copy of the base. An update replaces lists and objects inside it and never changes one in
place, because the base stays in the cache. The rules, and how ids are assigned and reused, are those of the table
specification and of Java's `TableMetadata.Builder`, which is what other catalogs run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from operator import itemgetter

from frazil.catalog import fields, schemas
from frazil.catalog.fields import LONG_MAX, Json
from frazil.errors import CommitConflict, InvalidChange
from frazil.protocol import BLOB_PREFIX

_SNAPSHOT_ID = itemgetter("snapshot-id")
LAST_ADDED = -1
NO_SNAPSHOT = -1
MAX_FORMAT_VERSION = 3


@dataclass(slots=True)
class Draft:
    """New metadata in the making, and what this commit has added so far."""

    metadata: Json
    now_ms: int
    is_new: bool = False
    changed: bool = False
    shape_changed: bool = False  # a schema, spec or sort order: then they must fit each other again
    removed_snapshots: set[int] = field(default_factory=set)
    last_schema_id: int | None = None
    last_spec_id: int | None = None
    last_order_id: int | None = None
    added_snapshots: set[int] = field(default_factory=set)
    former_mains: list[int] = field(default_factory=list)  # snapshots of this commit that main pointed to, in turn

    def put(self, **values: object) -> None:
        for key, value in values.items():
            self.metadata[key.replace("_", "-")] = value
        self.changed = True


Update = Callable[[Draft, Json, str], None]


def _assign_uuid(draft: Draft, update: Json, where: str) -> None:
    uuid = fields.uuid_text(update, "uuid", where)
    if uuid == draft.metadata["table-uuid"]:
        return
    if not draft.is_new:
        raise InvalidChange(
            f"{where}: the table already has the UUID {draft.metadata['table-uuid']}; it cannot be assigned again"
        )
    draft.put(table_uuid=uuid)


def _upgrade_format_version(draft: Draft, update: Json, where: str) -> None:
    new, old = fields.integer(update, "format-version", where), draft.metadata["format-version"]
    if new > MAX_FORMAT_VERSION or new < 1:
        raise InvalidChange(
            f"Cannot upgrade table to unsupported format version: v{new} (supported: v{MAX_FORMAT_VERSION})"
        )
    if new < old:
        raise InvalidChange(f"Cannot downgrade v{old} table to v{new}")
    if new == old:
        return
    draft.put(format_version=new)
    if new >= 3:
        draft.metadata.setdefault("next-row-id", 0)


# --- schemas, specs, sort orders -------------------------------------------------------------------------------------


def _add_schema(draft: Draft, update: Json, where: str) -> None:
    schema = fields.mapping(update, "schema", where)
    schemas.check_schema(schema, where)
    schemas.check_version(schema, draft.metadata["format-version"])
    known: list[Json] = draft.metadata["schemas"]
    same = next((s for s in known if schemas.same_schema(s, schema)), None)
    if same is not None:
        draft.last_schema_id = same["schema-id"]
        return
    new_id = max([draft.metadata["current-schema-id"] - 1, *(s["schema-id"] for s in known)]) + 1
    last_column_id = max(draft.metadata["last-column-id"], schemas.highest_id(schema))
    draft.put(schemas=[*known, {**schema, "schema-id": new_id}], last_column_id=last_column_id)
    draft.last_schema_id = new_id
    draft.shape_changed = True


def _set_current_schema(draft: Draft, update: Json, where: str) -> None:
    schema_id = _last_or_given(update, "schema-id", draft.last_schema_id, "schema", where)
    if schema_id == draft.metadata["current-schema-id"]:
        return
    if not any(s["schema-id"] == schema_id for s in draft.metadata["schemas"]):
        raise InvalidChange(f"Cannot set current schema to unknown schema: {schema_id}")
    draft.put(current_schema_id=schema_id)
    draft.shape_changed = True


def _add_spec(draft: Draft, update: Json, where: str) -> None:
    wanted = schemas.check_spec(fields.mapping(update, "spec", where), where)
    known: list[Json] = draft.metadata["partition-specs"]
    same = next((s for s in known if schemas.same_spec(s["fields"], wanted)), None)
    if same is not None:
        draft.last_spec_id = same["spec-id"]
        return
    _check_partition_names(draft, wanted)
    schemas.check_terms(current_schema(draft.metadata), wanted, "partition field")
    new_id = max((s["spec-id"] for s in known), default=-1) + 1
    new_fields = _partition_field_ids(draft, wanted)
    ids = [f["field-id"] for f in new_fields]
    if len(set(ids)) != len(ids):
        raise InvalidChange(f"{where}: a partition field id is used twice: {ids}")
    if draft.metadata["format-version"] == 1 and ids != list(
        range(schemas.FIRST_PARTITION_ID, schemas.FIRST_PARTITION_ID + len(ids))
    ):
        raise InvalidChange(f"Spec does not use sequential IDs that are required in v1: {ids}")
    draft.put(
        partition_specs=[*known, {"spec-id": new_id, "fields": new_fields}],
        last_partition_id=max([draft.metadata["last-partition-id"], schemas.FIRST_PARTITION_ID - 1, *ids]),
    )
    draft.last_spec_id = new_id
    draft.shape_changed = True


def _partition_field_ids(draft: Draft, wanted: list[Json]) -> list[Json]:
    """The fields with their ids: the client's own, else that of the same field in an older spec, else the next free
    one.
    """
    older = {
        (f["source-id"], f["transform"]): f["field-id"] for s in draft.metadata["partition-specs"] for f in s["fields"]
    }
    next_id = (
        max(
            draft.metadata["last-partition-id"],
            schemas.FIRST_PARTITION_ID - 1,
            *(f.get("field-id") or 0 for f in wanted),
            0,
        )
        + 1
    )
    result = []
    for wanted_field in wanted:
        field_id = wanted_field.get("field-id") or older.get((wanted_field["source-id"], wanted_field["transform"]))
        if field_id is None:
            field_id, next_id = next_id, next_id + 1
        plain = {k: wanted_field[k] for k in ("source-id", "name", "transform")}
        result.append({**plain, "field-id": field_id})
    return result


def _check_partition_names(draft: Draft, wanted: list[Json]) -> None:
    columns = {f["name"]: f["id"] for f in current_schema(draft.metadata)["fields"]}
    for wanted_field in wanted:
        column_id = columns.get(wanted_field["name"])
        if column_id is not None and column_id != wanted_field["source-id"]:
            raise InvalidChange(
                f"Cannot create partition field '{wanted_field['name']}': a column of the schema has this name",
                column=wanted_field["name"],
            )


def _set_default_spec(draft: Draft, update: Json, where: str) -> None:
    spec_id = _last_or_given(update, "spec-id", draft.last_spec_id, "spec", where)
    if not any(s["spec-id"] == spec_id for s in draft.metadata["partition-specs"]):
        raise InvalidChange(f"Cannot set default partition spec to unknown spec: {spec_id}")
    if spec_id != draft.metadata["default-spec-id"]:
        draft.put(default_spec_id=spec_id)
        draft.shape_changed = True


def _add_sort_order(draft: Draft, update: Json, where: str) -> None:
    wanted = schemas.check_order(fields.mapping(update, "sort-order", where), where)
    known: list[Json] = draft.metadata["sort-orders"]
    same = next((o for o in known if schemas.same_order(o["fields"], wanted)), None)
    if same is not None:
        draft.last_order_id = same["order-id"]
        return
    schemas.check_terms(current_schema(draft.metadata), wanted, "sort field")
    # 0 is always the unsorted order.
    new_id = max([0, *(o["order-id"] for o in known)]) + 1 if wanted else 0
    draft.put(sort_orders=[*known, {"order-id": new_id, "fields": wanted}])
    draft.last_order_id = new_id
    draft.shape_changed = True


def _set_default_sort_order(draft: Draft, update: Json, where: str) -> None:
    order_id = _last_or_given(update, "sort-order-id", draft.last_order_id, "sort order", where)
    if not any(o["order-id"] == order_id for o in draft.metadata["sort-orders"]):
        raise InvalidChange(f"Cannot set default sort order to unknown sort order: {order_id}")
    if order_id != draft.metadata["default-sort-order-id"]:
        draft.put(default_sort_order_id=order_id)
        draft.shape_changed = True


def _last_or_given(update: Json, name: str, last: int | None, what: str, where: str) -> int:
    schema_id = fields.integer(update, name, where)
    if schema_id != LAST_ADDED:
        return schema_id
    if last is None:
        raise InvalidChange(f"Cannot set last added {what}: no {what} has been added")
    return last


def _remove_specs(draft: Draft, update: Json, where: str) -> None:
    ids = set(fields.integers(update, "spec-ids", where))
    if draft.metadata["default-spec-id"] in ids:
        raise InvalidChange("Cannot remove the default partition spec")
    if ids:
        draft.put(partition_specs=[s for s in draft.metadata["partition-specs"] if s["spec-id"] not in ids])


def _remove_schemas(draft: Draft, update: Json, where: str) -> None:
    ids = set(fields.integers(update, "schema-ids", where))
    if draft.metadata["current-schema-id"] in ids:
        raise InvalidChange("Cannot remove the current schema")
    if ids:
        draft.put(schemas=[s for s in draft.metadata["schemas"] if s["schema-id"] not in ids])


def current_schema(metadata: Json) -> Json:
    wanted = metadata["current-schema-id"]
    schema: Json | None = next((s for s in metadata["schemas"] if s["schema-id"] == wanted), None)
    if schema is None:
        raise InvalidChange(f"The table has no schema {wanted}: add one and set it as current first")
    return schema


# --- snapshots and refs ----------------------------------------------------------------------------------------------


def _add_snapshot(draft: Draft, update: Json, where: str) -> None:
    snapshot, metadata = fields.mapping(update, "snapshot", where), draft.metadata
    for needed in ("schemas", "partition-specs", "sort-orders"):
        if not metadata[needed]:
            raise InvalidChange(f"Attempting to add a snapshot before {needed} are added")
    snapshot_id = _check_snapshot(snapshot, where)
    if snapshot_id in map(_SNAPSHOT_ID, metadata["snapshots"]):
        raise InvalidChange(f"Snapshot already exists for id: {snapshot_id}", snapshot=snapshot_id)
    version = metadata["format-version"]
    sequence, last = snapshot.get("sequence-number") or 0, metadata["last-sequence-number"]
    if version > 1:
        if sequence <= last and snapshot.get("parent-snapshot-id") is not None:
            # Stale, not wrong: the client refreshes and tries again.
            raise CommitConflict(
                "Validation failed, please retry: Cannot add snapshot with sequence number "
                f"{sequence} older than last sequence number {last}"
            )
        metadata["last-sequence-number"] = max(sequence, last)
    _check_parent(draft, snapshot)
    if version >= 3:
        _count_rows(metadata, snapshot)
    draft.put(snapshots=[*metadata["snapshots"], snapshot])
    draft.added_snapshots.add(snapshot_id)


def _check_parent(draft: Draft, snapshot: Json) -> None:
    """Refuses a snapshot whose parent has expired since the client looked: the files that it shares with the parent may
    be deleted.
    """
    parent = snapshot.get("parent-snapshot-id")
    if parent == snapshot["snapshot-id"]:
        raise InvalidChange(f"Cannot add snapshot {parent}: it is its own parent", snapshot=parent)
    # removed by this very commit: its files are still there
    if parent in (None, NO_SNAPSHOT) or parent in draft.removed_snapshots:
        return
    if not any(known["snapshot-id"] == parent for known in reversed(draft.metadata["snapshots"])):
        raise CommitConflict(
            f"Validation failed, please retry: Cannot add snapshot {snapshot['snapshot-id']}: its parent {parent} is "
            f"not in the table; "
            "it may have expired",
            snapshot=snapshot["snapshot-id"],
            problem="expired",
        )


def _check_snapshot(snapshot: Json, where: str) -> int:
    for name in ("parent-snapshot-id", "sequence-number", "first-row-id", "added-rows"):
        fields.integer_or_none(snapshot, name, where, most=LONG_MAX)
    fields.integer(snapshot, "timestamp-ms", where, most=LONG_MAX)
    fields.integer_or_none(snapshot, "schema-id", where)
    if "manifests" not in snapshot:
        fields.text(snapshot, "manifest-list", where)
    if snapshot.get("summary") is not None:
        fields.text(fields.properties(snapshot, "summary", where), "operation", where)
    return fields.integer(snapshot, "snapshot-id", where, most=LONG_MAX)


def _count_rows(metadata: Json, snapshot: Json) -> None:
    first, rows, following = snapshot.get("first-row-id"), snapshot.get("added-rows"), metadata.get("next-row-id", 0)
    if first is None:
        raise InvalidChange("Cannot add a snapshot: first-row-id is null")
    if first < following:
        raise CommitConflict(
            f"Validation failed, please retry: Cannot add a snapshot, first-row-id is behind table next-row-id: "
            f"{first} < {following}"
        )
    if rows is None or rows < 0:
        raise InvalidChange(
            f"Cannot add a snapshot: added-rows must be a number that is not negative, got {rows}", got=rows
        )
    metadata["next-row-id"] = following + rows


_REF_AGES = (("min-snapshots-to-keep", fields.INT_MAX), ("max-snapshot-age-ms", LONG_MAX), ("max-ref-age-ms", LONG_MAX))


def _set_snapshot_ref(draft: Draft, update: Json, where: str) -> None:
    name, kind = fields.text(update, "ref-name", where), update.get("type")
    if kind not in ("branch", "tag"):
        raise InvalidChange(f"{where}: 'type' must be branch or tag, got {kind!r}", got=kind)
    snapshot_id = fields.integer(update, "snapshot-id", where, most=LONG_MAX)
    ref: Json = {"snapshot-id": snapshot_id, "type": kind}
    for key, most in _REF_AGES:
        if (value := fields.integer_or_none(update, key, where, most=most)) is not None:
            if value <= 0 or (kind == "tag" and key != "max-ref-age-ms"):
                raise InvalidChange(f"{where}: '{key}' must be positive, and tags take max-ref-age-ms only")
            ref[key] = value
    metadata = draft.metadata
    if metadata["refs"].get(name) == ref:
        return
    snapshot = next((s for s in reversed(metadata["snapshots"]) if s["snapshot-id"] == snapshot_id), None)
    if snapshot is None:
        raise InvalidChange(f"Cannot set {name} to unknown snapshot: {snapshot_id}", snapshot=snapshot_id)
    if name == "main":
        _move_main(draft, snapshot, kind)
    draft.put(refs={**metadata["refs"], name: ref})


def _move_main(draft: Draft, snapshot: Json, kind: str) -> None:
    if kind != "branch":
        raise InvalidChange("Cannot set main to a tag, it must be a branch")
    snapshot_id, log = snapshot["snapshot-id"], draft.metadata["snapshot-log"]
    is_added = snapshot_id in draft.added_snapshots
    # Readers refuse a log that goes back in time, as a client with a slow clock would make it.
    time_ms = max(snapshot["timestamp-ms"] if is_added else draft.now_ms, log[-1]["timestamp-ms"] if log else 0)
    draft.metadata["current-snapshot-id"] = snapshot_id
    draft.metadata["snapshot-log"] = [*log, {"timestamp-ms": time_ms, "snapshot-id": snapshot_id}]
    if is_added:
        draft.former_mains.append(snapshot_id)


def _remove_snapshot_ref(draft: Draft, update: Json, where: str) -> None:
    _drop_ref(draft, fields.text(update, "ref-name", where))


def _drop_ref(draft: Draft, name: str) -> None:
    if name == "main":
        draft.metadata["current-snapshot-id"] = NO_SNAPSHOT
    if name in draft.metadata["refs"]:
        draft.put(refs={k: v for k, v in draft.metadata["refs"].items() if k != name})


def _remove_snapshots(draft: Draft, update: Json, where: str) -> None:
    ids = set(fields.integers(update, "snapshot-ids", where, most=LONG_MAX))
    kept = [s for s in draft.metadata["snapshots"] if s["snapshot-id"] not in ids]
    if len(kept) == len(draft.metadata["snapshots"]):
        return
    draft.removed_snapshots |= {s["snapshot-id"] for s in draft.metadata["snapshots"] if s["snapshot-id"] in ids}
    draft.put(snapshots=kept)
    for key in ("statistics", "partition-statistics"):
        draft.metadata[key] = [f for f in draft.metadata[key] if f["snapshot-id"] not in ids]


# --- properties, location, statistics, keys --------------------------------------------------------------------------


def _set_properties(draft: Draft, update: Json, where: str) -> None:
    # Early clients say "updated"; the specification says "updates".
    changes = fields.properties(update, "updates" if "updates" in update else "updated", where)
    if changes:
        draft.put(properties={**draft.metadata["properties"], **changes})


def _remove_properties(draft: Draft, update: Json, where: str) -> None:
    gone = set(fields.texts(update, "removals" if "removals" in update else "removed", where))
    if gone:
        draft.put(properties={k: v for k, v in draft.metadata["properties"].items() if k not in gone})


def _set_location(draft: Draft, update: Json, where: str) -> None:
    location = fields.text(update, "location", where).rstrip("/")
    if location != draft.metadata.get("location"):
        draft.put(location=location)


def _set_statistics(draft: Draft, update: Json, where: str) -> None:
    file = fields.mapping(update, "statistics", where)
    _check_file(file, where, "file-size-in-bytes", "file-footer-size-in-bytes")
    # Engines that copy our blobs name them here. PyIceberg 0.12 cannot load a table whose metadata names a type that it
    # does not know; we find them by the footer of the file.
    blobs = fields.objects(file, "blob-metadata", where)
    others = [blob for blob in blobs if not str(blob.get("type")).startswith(BLOB_PREFIX)]
    _replace_file(draft, "statistics", {**file, "blob-metadata": others})


def _set_partition_statistics(draft: Draft, update: Json, where: str) -> None:
    file = fields.mapping(update, "partition-statistics", where)
    _check_file(file, where, "file-size-in-bytes")
    _replace_file(draft, "partition-statistics", file)


def _check_file(file: Json, where: str, *sizes: str) -> None:
    path = fields.text(file, "statistics-path", where)
    # what a table names is kept for it: old metadata files of another table would stay for ever
    if path.endswith(".metadata.json"):
        raise InvalidChange(f"{where}: statistics-path names a metadata file: {path[:200]}")
    for size in ("snapshot-id", *sizes):
        fields.integer(file, size, where, most=LONG_MAX)


def _replace_file(draft: Draft, key: str, file: Json) -> None:
    others = [f for f in draft.metadata[key] if f["snapshot-id"] != file["snapshot-id"]]
    draft.put(**{key.replace("-", "_"): [*others, file]})


def _remove_file(key: str) -> Update:
    def remove(draft: Draft, update: Json, where: str) -> None:
        snapshot_id = fields.integer(update, "snapshot-id", where, most=LONG_MAX)
        others = [f for f in draft.metadata[key] if f["snapshot-id"] != snapshot_id]
        if len(others) != len(draft.metadata[key]):
            draft.put(**{key.replace("-", "_"): others})

    return remove


def _add_encryption_key(draft: Draft, update: Json, where: str) -> None:
    key = fields.mapping(update, "encryption-key", where)
    key_id = fields.text(key, "key-id", where)
    fields.text(key, "encrypted-key-metadata", where)
    known = draft.metadata["encryption-keys"]
    if not any(k["key-id"] == key_id for k in known):
        draft.put(encryption_keys=[*known, key])


def _remove_encryption_key(draft: Draft, update: Json, where: str) -> None:
    key_id = fields.text(update, "key-id", where)
    others = [k for k in draft.metadata["encryption-keys"] if k["key-id"] != key_id]
    if len(others) != len(draft.metadata["encryption-keys"]):
        draft.put(encryption_keys=others)


TABLE_UPDATES: dict[str, Update] = {
    "assign-uuid": _assign_uuid,
    "upgrade-format-version": _upgrade_format_version,
    "add-schema": _add_schema,
    "set-current-schema": _set_current_schema,
    "add-spec": _add_spec,
    "set-default-spec": _set_default_spec,
    "add-sort-order": _add_sort_order,
    "set-default-sort-order": _set_default_sort_order,
    "add-snapshot": _add_snapshot,
    "set-snapshot-ref": _set_snapshot_ref,
    "remove-snapshots": _remove_snapshots,
    "remove-snapshot-ref": _remove_snapshot_ref,
    "set-location": _set_location,
    "set-properties": _set_properties,
    "remove-properties": _remove_properties,
    "set-statistics": _set_statistics,
    "remove-statistics": _remove_file("statistics"),
    "set-partition-statistics": _set_partition_statistics,
    "remove-partition-statistics": _remove_file("partition-statistics"),
    "remove-partition-specs": _remove_specs,
    "remove-schemas": _remove_schemas,
    "add-encryption-key": _add_encryption_key,
    "remove-encryption-key": _remove_encryption_key,
}
