"""Columns of a table by field id, and what each schema changed. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]
MOST_SCHEMAS = 50  # the newest


def flatten(schema: Json) -> list[dict[str, Any]]:
    """Every field of a schema, nested ones after their parent, with the path of its names."""
    return list(_fields(schema["fields"], ()))


def _fields(fields: Sequence[Json], path: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    for field in fields:
        own = (*path, field["name"])
        yield {
            "id": field["id"],
            "path": list(own),
            "type": type_text(field["type"]),
            "required": bool(field.get("required")),
            "doc": field.get("doc"),
            "default": field.get("write-default"),
        }
        yield from _nested(field["type"], own)


def _nested(kind: Any, path: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    if not isinstance(kind, Mapping):
        return
    if kind["type"] == "struct":
        yield from _fields(kind["fields"], path)
    elif kind["type"] == "list":
        yield from _element(kind, "element", path)
    elif kind["type"] == "map":
        yield from _element(kind, "key", path)
        yield from _element(kind, "value", path)


def _element(kind: Json, name: str, path: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """The element of a list, or the key or value of a map, where it has fields of its own."""
    if isinstance(kind[name], Mapping):
        required = bool(kind.get(f"{name}-required", name == "key"))
        field = {"id": kind[f"{name}-id"], "name": name, "type": kind[name], "required": required}
        yield from _fields([field], path)


def type_text(kind: Any) -> str:
    """A type on one line.

    >>> type_text({"type": "list", "element": "string", "element-id": 2}), type_text({"type": "struct", "fields": []})
    ('list<string>', 'struct')
    """
    if not isinstance(kind, Mapping):
        return str(kind)
    if kind["type"] == "list":
        return f"list<{type_text(kind['element'])}>"
    if kind["type"] == "map":
        return f"map<{type_text(kind['key'])}, {type_text(kind['value'])}>"
    return str(kind["type"])


def schema_history(metadata: Json) -> list[dict[str, Any]]:
    """The schemas, the newest first, with what it changed and the time of the first snapshot that was made with it."""
    first: dict[int, int] = {}
    for snapshot in metadata["snapshots"]:
        schema_id = snapshot.get("schema-id")
        if schema_id is not None:
            first[schema_id] = min(snapshot["timestamp-ms"], first.get(schema_id, snapshot["timestamp-ms"]))
    history: list[dict[str, Any]] = []
    before: list[dict[str, Any]] | None = None
    for schema in sorted(metadata["schemas"], key=lambda schema: int(schema.get("schema-id", 0)))[-MOST_SCHEMAS:]:
        schema_id, after = schema.get("schema-id", 0), flatten(schema)
        changes: list[dict[str, Any]] = [] if before is None else list(compare(before, after))
        facts = {"fields": len(after), "used_ms": first.get(schema_id), "changes": changes}
        history.append({"schema_id": schema_id, "current": schema_id == metadata["current-schema-id"], **facts})
        before = after
    return history[::-1]


def compare(before: Sequence[Json], after: Sequence[Json]) -> Iterator[dict[str, Any]]:
    """What became of each field, by its id.

    >>> old = {"id": 1, "path": ["a"], "type": "int", "required": True, "doc": None}
    >>> [change["what"] for change in compare([old], [old | {"path": ["b"], "type": "long"}])]
    ['renamed', 'type']
    """
    old, new = ({field["id"]: field for field in fields} for fields in (before, after))
    for field_id, field in new.items():
        if field_id not in old:
            yield _change("added", field, None, field["type"])
            continue
        was = old[field_id]
        if was["path"][-1] != field["path"][-1]:
            yield _change("renamed", field, was["path"][-1], field["path"][-1])
        for what in ("type", "required", "doc"):
            if was[what] != field[what]:
                yield _change(what, field, was[what], field[what])
    for field_id, field in old.items():
        if field_id not in new:
            yield _change("dropped", field, field["type"], None)


def _change(what: str, field: Json, before: Any, after: Any) -> dict[str, Any]:
    return {"what": what, "id": field["id"], "path": field["path"], "before": before, "after": after}
