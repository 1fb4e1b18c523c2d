"""Views: what a request changes in one, and the decision about it. Pure. The rules are the view specification's
(https://iceberg.apache.org/view-spec/) and those of Java's `ViewMetadata.Builder`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import orjson

from frazil.catalog import fields, schemas
from frazil.catalog.commit import Change, int_property
from frazil.catalog.fields import LONG_MAX, Json
from frazil.catalog.locations import parse_location
from frazil.catalog.metadata import Version, etag_of, reply_head
from frazil.catalog.metadata_types import check_view, text_properties
from frazil.catalog.names import check_namespace
from frazil.catalog.requirements import check_view_requirements
from frazil.catalog.updates import LAST_ADDED
from frazil.errors import BadRequest, InvalidChange, MetadataCorrupt
from frazil.properties import STRICT, PropertyRule, safe_properties

HISTORY_SIZE = "version.history.num-entries"
DROP_DIALECT = "replace.drop-dialect.allowed"


@dataclass(slots=True)
class ViewDraft:
    """New view metadata in the making, and what this commit has added so far."""

    metadata: Json
    now_ms: int
    is_new: bool = False
    changed: bool = False
    last_schema_id: int | None = None
    last_version_id: int | None = None
    added_versions: set[int] = field(default_factory=set)
    history_entry: Json | None = None

    def put(self, key: str, value: object) -> None:
        self.metadata[key] = value
        self.changed = True


ViewUpdate = Callable[[ViewDraft, Json, str], None]


def _assign_uuid(draft: ViewDraft, update: Json, where: str) -> None:
    uuid = fields.uuid_text(update, "uuid", where)
    if uuid != draft.metadata["view-uuid"]:
        if not draft.is_new:
            raise InvalidChange("Cannot reassign uuid")
        draft.put("view-uuid", uuid)


def _upgrade_format_version(draft: ViewDraft, update: Json, where: str) -> None:
    version = fields.integer(update, "format-version", where)
    if version != 1:
        raise InvalidChange(f"Unsupported view format version: {version} (supported: 1)")
    assert draft.metadata["format-version"] == 1


def _set_location(draft: ViewDraft, update: Json, where: str) -> None:
    location = fields.text(update, "location", where).rstrip("/")
    if location != draft.metadata.get("location"):
        draft.put("location", location)


def _set_properties(draft: ViewDraft, update: Json, where: str) -> None:
    changes = fields.properties(update, "updates" if "updates" in update else "updated", where)
    if changes:
        draft.put("properties", {**draft.metadata["properties"], **changes})


def _remove_properties(draft: ViewDraft, update: Json, where: str) -> None:
    gone = set(fields.texts(update, "removals" if "removals" in update else "removed", where))
    if gone:
        draft.put("properties", {k: v for k, v in draft.metadata["properties"].items() if k not in gone})


def _add_schema(draft: ViewDraft, update: Json, where: str) -> None:
    schema = fields.mapping(update, "schema", where)
    schemas.check_schema(schema, where)
    known: list[Json] = draft.metadata["schemas"]
    same = next((s for s in known if schemas.same_schema(s, schema)), None)
    if same is not None:
        draft.last_schema_id = same["schema-id"]
        return
    draft.last_schema_id = max((s["schema-id"] for s in known), default=-1) + 1
    draft.put("schemas", [*known, {**schema, "schema-id": draft.last_schema_id}])


def _add_version(draft: ViewDraft, update: Json, where: str) -> None:
    version = dict(fields.mapping(update, "view-version", where))
    _check_version(version, where)
    if version["schema-id"] == LAST_ADDED:
        if draft.last_schema_id is None:
            raise InvalidChange("Cannot set last added schema: no schema has been added")
        version["schema-id"] = draft.last_schema_id
    known: list[Json] = draft.metadata["versions"]
    same = next((v for v in known if _same_version(v, version)), None)
    if same is not None:
        draft.last_version_id = same["version-id"]
        return
    if not any(s["schema-id"] == version["schema-id"] for s in draft.metadata["schemas"]):
        raise InvalidChange(f"Cannot add version with unknown schema: {version['schema-id']}")
    version["version-id"] = max([version["version-id"], *(v["version-id"] + 1 for v in known)])
    draft.put("versions", [*known, version])
    draft.last_version_id = version["version-id"]
    draft.added_versions.add(version["version-id"])


def _check_version(version: Json, where: str) -> None:
    fields.integer(version, "version-id", where)
    fields.integer(version, "schema-id", where)
    fields.integer(version, "timestamp-ms", where, most=LONG_MAX)
    fields.properties(version, "summary", where)
    fields.text_or_none(version, "default-catalog", where)
    if not isinstance(version.get("default-namespace"), list):
        raise BadRequest(f"{where}: 'default-namespace' must be a list of text")
    if version["default-namespace"]:
        check_namespace(version["default-namespace"], "default-namespace")
    _dialects(fields.objects(version, "representations", where), where)


def _dialects(representations: Sequence[Json], where: str) -> set[str]:
    dialects: set[str] = set()
    for representation in representations:
        if representation.get("type") != "sql":
            raise BadRequest(
                f"{where}: a representation's 'type' must be sql, got {representation.get('type')!r}",
                got=representation.get("type"),
            )
        fields.text(representation, "sql", where)
        dialect = fields.text(representation, "dialect", where).lower()
        if dialect in dialects:
            raise InvalidChange(f"Invalid view version: Cannot add multiple queries for dialect {dialect}")
        dialects.add(dialect)
    return dialects


def _same_version(first: Json, two: Json) -> bool:
    """Whether two versions behave alike, whenever they were made."""
    return all(
        first.get(k) == two.get(k)
        for k in ("summary", "representations", "default-catalog", "default-namespace", "schema-id")
    )


def _set_current_version(draft: ViewDraft, update: Json, where: str) -> None:
    wanted = fields.integer(update, "view-version-id", where)
    if wanted == LAST_ADDED:
        if draft.last_version_id is None:
            raise InvalidChange("Cannot set last version id: no current version id has been set")
        wanted = draft.last_version_id
    if wanted == draft.metadata["current-version-id"]:
        return
    version = next((v for v in draft.metadata["versions"] if v["version-id"] == wanted), None)
    if version is None:
        raise InvalidChange(f"Cannot set current version to unknown version: {wanted}")
    time_ms = version["timestamp-ms"] if wanted in draft.added_versions else draft.now_ms
    draft.history_entry = {"version-id": wanted, "timestamp-ms": time_ms}
    draft.put("current-version-id", wanted)


VIEW_UPDATES: dict[str, ViewUpdate] = {
    "assign-uuid": _assign_uuid,
    "upgrade-format-version": _upgrade_format_version,
    "add-schema": _add_schema,
    "set-location": _set_location,
    "set-properties": _set_properties,
    "remove-properties": _remove_properties,
    "add-view-version": _add_version,
    "set-current-view-version": _set_current_version,
}


def decide_view(base: Json, change: Change, *, now_ms: int) -> Json | None:
    """The view's new metadata, or None when the updates change nothing."""
    check_view_requirements(base, change.requirements, view=str(change.name))
    draft = ViewDraft(dict(base), now_ms)
    _apply(draft, change)
    return _finish(draft, base) if draft.changed else None


def new_view(request: Json, *, location: str, now_ms: int, uuid: str) -> Json:
    """The first metadata of a view that is created by a request."""
    where = "Create view"
    metadata: Json = {
        "view-uuid": uuid,
        "format-version": 1,
        "location": location,
        "schemas": [],
        "current-version-id": 0,
        "versions": [],
        "version-log": [],
        "properties": fields.properties(request, "properties", where, optional=True),
    }
    version = {**fields.mapping(request, "view-version", where), "schema-id": LAST_ADDED, "version-id": 1}
    updates: list[Json] = [
        {"action": "add-schema", "schema": fields.mapping(request, "schema", where)},
        {"action": "add-view-version", "view-version": version},
        {"action": "set-current-view-version", "view-version-id": LAST_ADDED},
    ]
    draft = ViewDraft(metadata, now_ms, is_new=True)
    for update in updates:
        VIEW_UPDATES[update["action"]](draft, update, where)
    return _finish(draft, None)


def _apply(draft: ViewDraft, change: Change) -> None:
    for position, update in enumerate(change.updates):
        action = update.get("action")
        apply = VIEW_UPDATES.get(action.lower()) if isinstance(action, str) else None
        if apply is None:
            raise BadRequest(f"Commit of view {change.name}: update {position} has an unknown action {action!r}")
        apply(draft, update, f"Commit of view {change.name}: update {position} ({action})")


def _finish(draft: ViewDraft, base: Json | None) -> Json:
    metadata = draft.metadata
    if draft.history_entry is not None:
        metadata["version-log"] = [*metadata["version-log"], draft.history_entry]
    if base is not None and metadata["properties"].get(DROP_DIALECT, "false").lower() != "true":
        _check_dialects(current_version(base), current_version(metadata))
    size = int_property(metadata, HISTORY_SIZE, 10)
    if size <= 0:
        raise InvalidChange(f"{HISTORY_SIZE} must be positive but was {size}")
    _expire(metadata, max(size, len(draft.added_versions | {metadata["current-version-id"]})))
    return metadata


def _check_dialects(before: Json, after: Json) -> None:
    old, new = (_dialects(version["representations"], "view") for version in (before, after))
    if not old <= new:
        raise InvalidChange(
            f"Cannot replace view due to loss of view dialects ({DROP_DIALECT}=false):\n"
            f"Previous dialects: {sorted(old)}\nNew dialects: {sorted(new)}"
        )


def _expire(metadata: Json, keep: int) -> None:
    """Keeps the current version and the newest of the others; the log starts after the last version that is gone."""
    versions: list[Json] = metadata["versions"]
    if len(versions) <= keep:
        return
    current = metadata["current-version-id"]
    newest = sorted((v["version-id"] for v in versions if v["version-id"] != current), reverse=True)[: keep - 1]
    kept = {current, *newest}
    metadata["versions"] = [v for v in versions if v["version-id"] in kept]
    log: list[Json] = []
    for entry in metadata["version-log"]:
        if entry["version-id"] in kept:
            log.append(entry)
        else:
            log.clear()
    metadata["version-log"] = log


def current_version(metadata: Json) -> Json:
    version: Json = next(v for v in metadata["versions"] if v["version-id"] == metadata["current-version-id"])
    return version


# --- files -----------------------------------------------------------------------------------------------------------


def view_version(location: str, metadata: Json, *, rule: PropertyRule = STRICT) -> Version:
    """The view's metadata file, parsed and as the bytes of a reply. Properties that the rule refuses are not served."""
    head = reply_head(location)
    served = safe_properties(metadata["properties"], rule)
    hides = served is not metadata["properties"]
    reply = head + orjson.dumps({**metadata, "properties": served} if hides else metadata) + b"}"
    stored = orjson.dumps(metadata) if hides else None
    return Version(
        location, metadata, reply, len(head), -1, etag_of(location, hides=hides), parse_location(location), stored
    )


def normalise_view(document: Json, location: str) -> Json:
    """View metadata as commits work on it."""
    try:
        out = {
            **document,
            "properties": document.get("properties") or {},
            "location": str(document["location"]).rstrip("/"),
        }
        if (
            document["format-version"] != 1
            or not isinstance(document["view-uuid"], str)
            or not isinstance(document["schemas"], list)
        ):
            raise ValueError("it is not view metadata of version 1")
        out["version-log"] = list(document["version-log"])
        out["properties"] = text_properties(out["properties"])
        check_view(out)
        current_version(out)
    except RecursionError as exc:
        raise MetadataCorrupt(location, "it is nested too deeply") from exc
    except (KeyError, TypeError, ValueError, AttributeError, StopIteration) as exc:
        raise MetadataCorrupt(location, f"it is not view metadata ({type(exc).__name__}: {exc})") from exc
    return out
