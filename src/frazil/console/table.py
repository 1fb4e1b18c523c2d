"""The page of a table: what its metadata says, without the snapshots, which have an answer of their own."""

from __future__ import annotations

from typing import Any

from frazil.catalog import Context, Request, Response, describe_table, find_kept, json_response, load_version
from frazil.console.fields import flatten, schema_history
from frazil.console.listing import debt_of_metadata, health_of
from frazil.console.summary import count_commits, summarise
from frazil.errors import NoSuchTable


def show_table(ctx: Context, request: Request) -> Response:
    """The table of the path: its line on the tables page, columns, schemas, partitions, refs, properties, upkeep."""
    version = load_version(ctx, request)
    metadata, kept = version.metadata, find_kept(ctx, request, version)
    if kept is None:  # it was dropped a moment ago
        raise NoSuchTable(str(request.name()))
    line: dict[str, Any] = {**summarise(metadata), "debt": debt_of_metadata(metadata, kept)}
    schema = next(each for each in metadata["schemas"] if each.get("schema-id", 0) == metadata["current-schema-id"])
    columns = flatten(schema)
    names = {column["id"]: ".".join(column["path"]) for column in columns}
    status = describe_table(kept)
    return json_response(
        {
            **{key: value for key, value in line.items() if key != "debt"},
            "warehouse": kept.warehouse,
            "namespace": kept.identifier[:-1],
            "name": kept.name,
            "uuid": kept.uuid,
            "location": metadata["location"],
            "metadata_location": version.location,
            "comment": metadata["properties"].get("comment"),
            "health": health_of(kept, line),
            "working": kept.holder is not None,
            "activity": count_commits(metadata, now_ms=kept.now_ms, days=30),
            "fields": columns,
            "schemas": schema_history(metadata),
            "partitioning": _fields_of(metadata, "partition-specs", "spec-id", "default-spec-id", names),
            "order": _fields_of(metadata, "sort-orders", "order-id", "default-sort-order-id", names),
            "refs": [_ref(name, ref) for name, ref in metadata["refs"].items()],
            "properties": dict(sorted(metadata["properties"].items())),
            "upkeep": {key: status[key] for key in ("state", "score", "last_run", "lease", "error", "next_seconds")},
            "steps": line["debt"].get("steps") or {},
        }
    )


def _fields_of(
    metadata: dict[str, Any], many: str, key: str, current: str, names: dict[int, str]
) -> list[dict[str, Any]]:
    """The fields of the current partition spec or sort order."""
    chosen: dict[str, Any] = next((each for each in metadata[many] if each[key] == metadata[current]), {"fields": []})
    return [
        {
            "column": names.get(field["source-id"], f"field {field['source-id']}"),
            "transform": field["transform"],
            **{name: field[name] for name in ("name", "direction", "null-order") if name in field},
        }
        for field in chosen["fields"]
    ]


def _ref(name: str, ref: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "type": ref["type"], "snapshot_id": str(ref["snapshot-id"])}
