"""Whether metadata out of a file has the types that the specification gives it.

A metadata file may come from anywhere: it can be registered, and it can be changed in the object store. Commits and
plans rely on the types of what they read, so a file that breaks them is corrupt when it is read, instead of an error in
the middle of a later request.
"""

from __future__ import annotations

from typing import Any

from frazil.catalog.fields import INT_MAX, LONG_MAX, Json

TABLE_NUMBERS = (
    "last-sequence-number", "last-updated-ms", "last-column-id", "current-schema-id", "default-spec-id",
    "last-partition-id",
    "default-sort-order-id", "current-snapshot-id", "next-row-id",
)  # fmt: skip


def check_table(metadata: Json, *, known_snapshots: int = 0) -> None:
    """Passes when normalised table metadata is well-typed, else ValueError; `known_snapshots` at the start were checked
    before.
    """
    for key in TABLE_NUMBERS:
        _number(metadata, key)
    for key in ("table-uuid", "location"):
        _text(metadata, key)
    for schema in _objects(metadata, "schemas"):
        _check_schema(schema)
    for spec in _objects(metadata, "partition-specs"):
        _number(spec, "spec-id")
        _check_terms(spec)
        for field in spec["fields"]:
            _number(field, "field-id", most=INT_MAX)
            _text(field, "name")
    for order in _objects(metadata, "sort-orders"):
        _number(order, "order-id")
        _check_terms(order)
    _check_snapshots(metadata, known_snapshots)
    for name in ("statistics", "partition-statistics"):
        for file in _objects(metadata, name):
            _number(file, "snapshot-id")
            _text(file, "statistics-path")
    for encryption_key in _objects(metadata, "encryption-keys"):
        _text(encryption_key, "key-id")


def _check_snapshots(metadata: Json, known: int) -> None:
    snapshots = metadata["snapshots"]
    if not isinstance(snapshots, list):
        raise ValueError("'snapshots' must be a list")
    for snapshot in snapshots[known:]:
        _check_snapshot(_object(snapshot, "a snapshot"))
    for name, ref in _object(metadata["refs"], "'refs'").items():
        _number(_object(ref, f"ref {name}"), "snapshot-id")
        _text(ref, "type")
    for entry in _objects(metadata, "snapshot-log"):
        _number(entry, "snapshot-id")
        _number(entry, "timestamp-ms")
    for entry in _objects(metadata, "metadata-log"):
        _text(entry, "metadata-file")
        _number(entry, "timestamp-ms")


def _check_snapshot(snapshot: Json) -> None:
    for key in ("snapshot-id", "timestamp-ms"):
        _number(snapshot, key)
    for key in ("parent-snapshot-id", "sequence-number", "schema-id", "first-row-id", "added-rows"):
        if snapshot.get(key) is not None:
            _number(snapshot, key)
    if snapshot.get("manifest-list") is not None:
        _text(snapshot, "manifest-list")
    elif not isinstance(snapshot.get("manifests"), list):
        raise ValueError("a snapshot must have 'manifest-list' or 'manifests'")
    if snapshot.get("summary") is not None:
        _object(snapshot["summary"], "a snapshot's 'summary'")


def _check_terms(holder: Json) -> None:
    """The fields of a partition spec or a sort order. A field of several sources (format 3) has
    `source-ids` instead.
    """
    for field in _objects(holder, "fields"):
        _text(field, "transform")
        if "source-ids" not in field:
            _number(field, "source-id", most=INT_MAX)


def _check_schema(schema: Json) -> None:
    _number(schema, "schema-id", most=INT_MAX)
    if schema.get("identifier-field-ids") is not None and not isinstance(schema["identifier-field-ids"], list):
        raise ValueError("'identifier-field-ids' must be a list")
    if schema.get("type") != "struct":
        raise ValueError("a schema must be a struct")
    _check_type(schema)


def _check_type(kind: Any) -> None:
    if isinstance(kind, str):
        return
    match _object(kind, "a type").get("type"):
        case "struct":
            for field in _objects(kind, "fields"):
                _number(field, "id", most=INT_MAX)
                _text(field, "name")
                _check_type(field.get("type"))
        case "list":
            _number(kind, "element-id", most=INT_MAX)
            _check_type(kind.get("element"))
        case "map":
            for part in ("key", "value"):
                _number(kind, f"{part}-id", most=INT_MAX)
                _check_type(kind.get(part))
        case other:
            raise ValueError(f"unknown type {other!r}")


def check_view(metadata: Json) -> None:
    """Passes when normalised view metadata is well-typed, else ValueError."""
    for key in ("view-uuid", "location"):
        _text(metadata, key)
    _number(metadata, "current-version-id", most=INT_MAX)
    for schema in _objects(metadata, "schemas"):
        _check_schema(schema)
    for version in _objects(metadata, "versions"):
        for key in ("version-id", "schema-id", "timestamp-ms"):
            _number(version, key)
        _object(version.get("summary"), "a version's 'summary'")
        for representation in _objects(version, "representations"):
            for key in ("type", "sql", "dialect"):
                _text(representation, key)
    for entry in _objects(metadata, "version-log"):
        _number(entry, "version-id")
        _number(entry, "timestamp-ms")


def text_properties(stored: Any) -> dict[str, str]:
    """Properties as text; plain values that a careless writer left as they were become text, as PyIceberg reads them.

    >>> text_properties({"a": "b", "write.rows": 5, "on": True})
    {'a': 'b', 'write.rows': '5', 'on': 'true'}
    """
    properties = _object(stored or {}, "'properties'")
    if all(type(value) is str for value in properties.values()):
        return properties
    return {key: _as_text(key, value) for key, value in properties.items()}


def _as_text(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int | float):
        raise ValueError(f"property {key} must be text")
    return str(value)


def _object(value: Any, what: str) -> Json:
    if not isinstance(value, dict):
        raise ValueError(f"{what} must be an object")
    return value


def _objects(source: Json, key: str) -> list[Json]:
    value = source.get(key)
    if not isinstance(value, list) or not all(type(item) is dict for item in value):
        raise ValueError(f"'{key}' must be a list of objects")
    return value


def _number(source: Json, key: str, *, most: int = LONG_MAX) -> None:
    value = source.get(key)
    if type(value) is not int or not -most - 1 <= value <= most:
        raise ValueError(f"'{key}' must be a whole number")


def _text(source: Json, key: str) -> None:
    if not isinstance(source.get(key), str):
        raise ValueError(f"'{key}' must be text")
