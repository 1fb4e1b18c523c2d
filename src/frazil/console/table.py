"""The page of a table: what its metadata says, without the snapshots, which have an answer of their own."""

from __future__ import annotations

from typing import Any

from frazil.catalog import Context, Kept, Request, Response, describe_table, find_kept, load_version
from frazil.console.answers import console_json, refuse_other_sites
from frazil.console.fields import flatten, schema_history
from frazil.console.listing import debt_of_metadata, debt_used, health_of
from frazil.console.summary import count_commits, summarise
from frazil.errors import NoSuchTable
from frazil.properties import safe_properties


def show_table(ctx: Context, request: Request) -> Response:
    """The table of the path: its line on the tables page, columns, schemas, partitions, refs, properties, upkeep."""
    refuse_other_sites(request)
    version = load_version(ctx, request)
    metadata, kept = version.metadata, find_kept(ctx, request, version)
    if kept is None:  # it was dropped a moment ago
        raise NoSuchTable(str(request.name()))
    line: dict[str, Any] = {**summarise(metadata), "debt": debt_of_metadata(metadata, kept)}
    schema = next(each for each in metadata["schemas"] if each.get("schema-id", 0) == metadata["current-schema-id"])
    columns = flatten(schema)
    names = {column["id"]: ".".join(column["path"]) for column in columns}
    properties = safe_properties(metadata["properties"], ctx.files.rule)
    return console_json(
        {
            **{key: value for key, value in line.items() if key != "debt"},
            "warehouse": kept.warehouse,
            "namespace": kept.identifier[:-1],
            "name": kept.name,
            "uuid": kept.uuid,
            "location": metadata["location"],
            "metadata_location": version.location,
            "comment": properties.get("comment"),
            "health": health_of(kept, line),
            "working": kept.holder is not None,
            "activity": count_commits(metadata, now_ms=kept.now_ms, days=30),
            "fields": columns,
            "schemas": schema_history(metadata),
            "partitioning": _fields_of(metadata, "partition-specs", "spec-id", "default-spec-id", names),
            "order": _fields_of(metadata, "sort-orders", "order-id", "default-sort-order-id", names),
            "refs": [_ref(name, ref) for name, ref in metadata["refs"].items()],
            "properties": dict(sorted(properties.items())),
            "upkeep": {"last_run": _last_run(kept)},
            "steps": debt_used(kept, line).get("steps") or {},
        }
    )


def _fields_of(
    metadata: dict[str, Any], many: str, key: str, current: str, names: dict[int, str]
) -> list[dict[str, Any]]:
    """The fields of the current partition spec or sort order."""
    chosen: dict[str, Any] = next((each for each in metadata[many] if each[key] == metadata[current]), {"fields": []})
    return [
        {
            "column": ", ".join(names.get(each, f"field {each}") for each in _sources(field)),
            "transform": field["transform"],
            **{name: field[name] for name in ("name", "direction", "null-order") if name in field},
        }
        for field in chosen["fields"]
    ]


def _sources(field: dict[str, Any]) -> list[int]:
    """The fields that a partition or sort field is made from: several, for transforms with several arguments."""
    return field.get("source-ids") or [field["source-id"]]


def _last_run(kept: Kept) -> dict[str, Any] | None:
    """What the last run of upkeep did, without messages: these may name files, other tables and machines."""
    run = describe_table(kept)["last_run"]
    return {key: run[key] for key in ("outcome", "at_ms", "saved_files")} if run else None


def _ref(name: str, ref: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "type": ref["type"], "snapshot_id": str(ref["snapshot-id"])}
