"""The metadata of a table as a tree, one level per request: the metadata file and its snapshots, the manifests of a
snapshot, the files of a manifest, the columns of a file with their bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from frazil.catalog import Context, Request, Response, load_version
from frazil.console.answers import console_json, refuse_other_sites
from frazil.console.manifests import Walk, reading_slot
from frazil.console.rows import whole_number
from frazil.errors import BadRequest

if TYPE_CHECKING:
    from frazil.scan.manifests import Manifest
    from frazil.scan.planning import Unit

Json = Mapping[str, Any]
PAGE = 100  # entries of a level in an answer
MOST_LOGGED = 20  # earlier metadata files
MOST_COLUMNS = 500
CONTENTS = ("data", "position deletes", "equality deletes")
STATUS = ("existing", "added")


def show_tree(ctx: Context, request: Request) -> Response:
    """The level below what the query names: `snapshot`, `manifest` and `file`, the last two by their place in the level
    above. `after` is the place of the first entry.
    """
    refuse_other_sites(request)
    snapshot, manifest, file = (whole_number(request, name) for name in ("snapshot", "manifest", "file"))
    after = whole_number(request, "after") or 0
    if snapshot is None:
        return console_json(list_snapshots(load_version(ctx, request).metadata, after))
    with reading_slot(request):
        walk = Walk.of(ctx, request)
        if manifest is None:
            return console_json(list_manifests(walk, after))
        unit = _pick(walk.listed(), manifest, "manifest")
        if file is None:
            return console_json(list_files(walk, unit, after))
        return console_json(list_columns(walk, unit, file))


def list_snapshots(metadata: Json, after: int) -> dict[str, Any]:
    """The snapshots in the metadata file, the newest first, and the other files that it names."""
    snapshots = sorted(metadata["snapshots"], key=lambda snapshot: -int(snapshot["timestamp-ms"]))
    refs: dict[int, list[str]] = {}
    for name, ref in metadata["refs"].items():
        refs.setdefault(ref["snapshot-id"], []).append(name)
    shown = [
        {
            "id": str(snapshot["snapshot-id"]),
            "time_ms": snapshot["timestamp-ms"],
            "operation": (snapshot.get("summary") or {}).get("operation", ""),
            "sequence": snapshot.get("sequence-number"),
            "path": snapshot.get("manifest-list"),
            "refs": refs.get(snapshot["snapshot-id"], []),
        }
        for snapshot in snapshots[after : after + PAGE]
    ]
    statistics = [
        {"path": file["statistics-path"], "bytes": file.get("file-size-in-bytes")}
        for file in metadata.get("statistics") or []
    ]
    return {
        **_page(shown, after, len(snapshots)),
        "earlier": [entry["metadata-file"] for entry in (metadata.get("metadata-log") or [])[: -MOST_LOGGED - 1 : -1]],
        "statistics": statistics[:PAGE],
    }


def list_manifests(walk: Walk, after: int) -> dict[str, Any]:
    """The manifests of a snapshot in the order of its manifest list, with what the list says about their partitions."""
    units = walk.listed()
    shown = [_describe_manifest(walk, unit, at) for at, unit in enumerate(units[after : after + PAGE], after)]
    return _page(shown, after, len(units))


def _describe_manifest(walk: Walk, unit: Unit, at: int) -> dict[str, Any]:
    names = ("path", "length", "spec_id", "sequence", "added", "existing", "deleted", "added_rows", "existing_rows")
    return {
        "at": at,
        **{name: unit.fact(name) for name in names},
        "content": "deletes" if unit.fact("content") else "data",
        "snapshot_id": str(unit.fact("snapshot_id")),
        "partitions": _partition_bounds(walk, unit),
    }


def _partition_bounds(walk: Walk, unit: Unit) -> list[dict[str, Any]]:
    from frazil.console.stored_values import PartitionTexts
    from frazil.scan.manifests import stored_type

    spec_id = unit.fact("spec_id")
    fields, texts = walk.planner.fields(spec_id), PartitionTexts(walk.planner.spec(spec_id), walk.planner.schema)
    row = unit.listed.of_spec(spec_id).index(unit.at)
    lower, upper = list[Any](), list[Any]()
    for position, field in enumerate(fields):
        known = stored_type(field.field_type) is not None
        bounds = unit.listed.partition_range(spec_id, position, field.field_type) if known else None
        lower.append(bounds.lower[row].as_py() if bounds is not None else None)
        upper.append(bounds.upper[row].as_py() if bounds is not None else None)
    return [
        {"name": field.name, "lower": low, "upper": high}
        for field, low, high in zip(fields, texts.show(lower), texts.show(upper), strict=True)
    ]


def list_files(walk: Walk, unit: Unit, after: int) -> dict[str, Any]:
    """The live files of a manifest in its order."""
    from frazil.console.stored_values import PartitionTexts
    from frazil.scan.planning import Group, partition_rows

    manifest, spec_id = walk.manifest(unit), unit.fact("spec_id")
    rows = _rows(after, min(after + PAGE, len(manifest)))
    group, texts = (
        Group(unit, manifest, rows),
        PartitionTexts(walk.planner.spec(spec_id), walk.planner.schema),
    )
    partitions = partition_rows(manifest, walk.planner.fields(spec_id), rows)
    names = ("path", "format", "records", "bytes", "content", "status", "snapshot_id", "equality_ids", "referenced")
    columns = {name: group.column(name).to_pylist() for name in names} | {"sequence": group.sequences().to_pylist()}
    entries = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    shown = [
        {
            **entry,
            "at": after + number,
            "snapshot_id": str(entry["snapshot_id"] or unit.fact("snapshot_id")),
            "content": CONTENTS[entry["content"]] if entry["content"] < len(CONTENTS) else "unknown",
            "status": STATUS[entry["status"]] if entry["status"] < len(STATUS) else "unknown",
            "partition": texts.line(partition),
        }
        for number, (entry, partition) in enumerate(zip(entries, partitions, strict=True))
    ]
    return _page(shown, after, len(manifest))


def list_columns(walk: Walk, unit: Unit, file: int) -> dict[str, Any]:
    """The columns of a file with the counts and bounds that its manifest has, bounds as values."""
    from frazil.console.stored_values import show_bound
    from frazil.pyiceberg_compat import fields_by_id
    from frazil.scan.manifests import read_bounds

    manifest = walk.manifest(unit)
    _pick(range(len(manifest)), file, "file")
    lower, upper = (next(iter(read_bounds(manifest.columns[name].slice(file, 1)))) for name in ("lower", "upper"))
    counts = {name: _counts(manifest, name, file) for name in ("value_counts", "null_counts", "nan_counts")}
    known = fields_by_id(walk.planner.schema)
    ids = sorted(set(lower) | set(upper) | set().union(*counts.values()))
    shown = []
    for field_id in ids[:MOST_COLUMNS]:
        field = known.get(field_id)
        bounds = (lower.get(field_id), upper.get(field_id))
        texts = [
            raw.hex() if raw and field is None else show_bound(raw, field.field_type) if field else None
            for raw in bounds
        ]
        shown.append(
            {
                "id": field_id,
                "name": walk.planner.schema.find_column_name(field_id) if field is not None else None,
                "type": str(field.field_type) if field is not None else None,
                "values": counts["value_counts"].get(field_id),
                "nulls": counts["null_counts"].get(field_id),
                "nans": counts["nan_counts"].get(field_id),
                "lower": texts[0],
                "upper": texts[1],
            }
        )
    return {"columns": shown, "total": len(ids)}


def _counts(manifest: Manifest, name: str, row: int) -> dict[int, int]:
    entries = manifest.columns[name][row].as_py() or []
    return {entry["key"]: entry["value"] for entry in entries}


def _rows(start: int, stop: int) -> Any:
    import pyarrow as pa

    return pa.array(range(start, max(start, stop)), pa.int64())


def _page(entries: list[dict[str, Any]], after: int, total: int) -> dict[str, Any]:
    until = after + len(entries)
    return {"entries": entries, "total": total, "next": until if until < total else None}


def _pick(entries: Any, at: int, what: str) -> Any:
    if at >= len(entries):
        raise BadRequest(f"{what}: there are {len(entries):,}, numbered from 0; got {at}", option=what)
    return entries[at]
