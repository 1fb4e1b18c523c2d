"""Pages of a plan in the REST specification's JSON.

Bounds travel as the hexadecimal digits of their binary form: that is what the reference implementation sends and reads,
whatever the specification's example shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import orjson
import pyarrow as pa
from pyiceberg.conversions import to_json
from pyiceberg.expressions import BooleanExpression
from pyiceberg.types import NestedField, PrimitiveType, TimestampNanoType, TimestamptzNanoType, UnknownType, UUIDType

from frazil.scan.manifests import Manifest, read_bounds
from frazil.scan.planning import DeleteFile, Group, Planner, filter_to_json, partition_rows

CONTENTS = ("data", "position-deletes", "equality-deletes")
COUNTS = {"value-counts": "value_counts", "null-value-counts": "null_counts", "nan-value-counts": "nan_counts"}
BOUNDS = {"lower-bounds": "lower", "upper-bounds": "upper"}
Json = dict[str, Any]


def tasks_to_json(
    planner: Planner, groups: Sequence[Group], *, stats: frozenset[int] = frozenset(), residual: Any = None
) -> Json:
    """The tasks of a page and the delete files that they name. `residual` is what all of them have, if it cannot be
    narrowed.
    """
    known: dict[tuple[int, int], int] = {}
    deletes: list[DeleteFile] = []
    texts: dict[int, orjson.Fragment] = {}
    tasks: list[Json] = []
    for group in groups:
        files = files_to_json(planner, group, stats=stats)
        for file, parts, left in zip(
            files, planner.deletes_of(group), _residuals(planner, group, residual, texts), strict=True
        ):
            task: Json = {"data-file": file, "residual-filter": left}
            if parts:
                task["delete-file-references"] = [_number(delete, known, deletes) for delete in parts]
            tasks.append(task)
    result: Json = {"file-scan-tasks": tasks}
    if deletes:
        result["delete-files"] = [_delete_to_json(planner, file) for file in deletes]
    return result


def _number(file: DeleteFile, known: dict[tuple[int, int], int], deletes: list[DeleteFile]) -> int:
    """The delete file's place in the answer, where it stands once."""
    key = (id(file.manifest), file.row)
    if key not in known:
        known[key] = len(deletes)
        deletes.append(file)
    return known[key]


def _residuals(planner: Planner, group: Group, fixed: Any, texts: dict[int, orjson.Fragment]) -> list[Any]:
    if fixed is not None:
        return [fixed] * len(group)
    spec_id = group.unit.fact("spec_id")
    residuals = planner.residuals.of(planner.spec(spec_id), planner.fields(spec_id), group.manifest, group.rows)
    each = [residuals] * len(group) if isinstance(residuals, BooleanExpression) else residuals
    for expression in {
        id(expression): expression for expression in each
    }.values():  # written once, however many files have it
        texts.setdefault(id(expression), orjson.Fragment(orjson.dumps(filter_to_json(expression))))
    return [texts[id(expression)] for expression in each]


def files_to_json(planner: Planner, group: Group, *, stats: frozenset[int] = frozenset()) -> list[Json]:
    """The data files of a group."""
    manifest, rows = group.manifest, group.rows
    fields = planner.fields(group.unit.fact("spec_id"))
    names = ("content", "path", "format", "bytes", "records", "splits", "key_metadata", "sort_order_id")
    columns = [group.column(name).to_pylist() for name in names]
    partitions = _partitions(manifest, fields, rows)
    extras = [group.first_rows(), group.sequences().to_pylist()]
    spec_id = group.unit.fact("spec_id")
    json = []
    for content, path, kind, size, records, splits, key, order, partition, first_row, sequence in zip(
        *columns, partitions, *extras, strict=True
    ):
        file: Json = {"content": CONTENTS[content], "file-path": path, "file-format": kind.lower(), "spec-id": spec_id}
        file |= {"partition": partition, "file-size-in-bytes": size, "record-count": records}
        optional = {
            "key-metadata": None if key is None else key.hex().upper(),
            "split-offsets": splits,
            "sort-order-id": order,
        }
        if first_row is not None:
            optional |= {"first-row-id": first_row, "data-sequence-number": sequence}
        json.append(file | {name: value for name, value in optional.items() if value is not None})
    if stats:
        _add_stats(json, group, stats)
    return json


def _add_stats(files: list[Json], group: Group, stats: frozenset[int]) -> None:
    for name, column in COUNTS.items():
        for file, pairs in zip(files, group.column(column).to_pylist(), strict=True):
            _add_map(file, name, {pair["key"]: pair["value"] for pair in pairs or [] if pair["key"] in stats})
    for name, column in BOUNDS.items():
        for file, bounds in zip(files, read_bounds(group.column(column)), strict=True):
            _add_map(file, name, {key: value.hex().upper() for key, value in bounds.items() if key in stats})


def _add_map(file: Json, name: str, values: dict[int, Any]) -> None:
    if values:
        file[name] = {"keys": list(values), "values": list(values.values())}


def _partitions(manifest: Manifest, fields: Sequence[NestedField], rows: pa.Array | None) -> list[list[Any]]:
    texts: dict[tuple[object, ...], list[Any]] = {}
    partitions = partition_rows(manifest, fields, rows)
    for partition in set(partitions):
        texts[partition] = [_value_to_json(value, field) for value, field in zip(partition, fields, strict=True)]
    return [texts[partition] for partition in partitions]


def _value_to_json(value: Any, field: NestedField) -> Any:
    kind = field.field_type
    if value is None or isinstance(kind, UnknownType):
        return value if isinstance(value, bool | int | float | str) else None
    if isinstance(kind, UUIDType):
        return str(UUID(bytes=value)) if isinstance(value, bytes) else str(value)
    if isinstance(kind, TimestampNanoType | TimestamptzNanoType):
        return value
    assert isinstance(kind, PrimitiveType)
    return to_json(kind, value)


def _delete_to_json(planner: Planner, file: DeleteFile) -> Json:
    row = pa.array([file.row], pa.int64())
    fields = planner.fields(file.spec_id)
    facts = {
        name: file.manifest.columns[name][file.row].as_py()
        for name in ("format", "bytes", "records", "splits", "sort_order_id")
    }
    known = {
        name: file.manifest.columns[name][file.row].as_py()
        for name in ("equality_ids", "content_offset", "content_bytes", "key_metadata")
    }
    json: Json = {
        "content": CONTENTS[file.content],
        "file-path": file.path,
        "file-format": facts["format"].lower(),
        "spec-id": file.spec_id,
    }
    json |= {"partition": _partitions(file.manifest, fields, row)[0]}
    json |= {"file-size-in-bytes": facts["bytes"], "record-count": facts["records"]}
    optional = {
        "split-offsets": facts["splits"],
        "sort-order-id": facts["sort_order_id"],
        "equality-ids": known["equality_ids"],
    }
    optional |= {"content-offset": known["content_offset"], "content-size-in-bytes": known["content_bytes"]}
    optional |= {
        "referenced-data-file": file.target,
        "key-metadata": known["key_metadata"] and known["key_metadata"].hex().upper(),
    }
    return json | {name: value for name, value in optional.items() if value is not None}
