"""What differs between two points of a table: schema, partitioning, files and rows. Only manifests that differ are
read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frazil.errors import HistoryError
from frazil.scan.planning import Point, schema_at

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile, ManifestFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.types import NestedField


@dataclass(frozen=True)
class Change:
    """Something that was added (`+`), removed (`-`) or changed (`~`)."""

    sign: str
    what: str

    def __str__(self) -> str:
        return f"{self.sign} {self.what}"


@dataclass(frozen=True)
class FileChange:
    """A file that only one of the two points has. Of a delete file, `rows` are the rows that it deletes."""

    sign: str
    path: str
    rows: int
    bytes: int
    partition: str
    deletes: bool


@dataclass(frozen=True)
class Sum:
    """Files of one kind, taken together."""

    files: int
    rows: int
    bytes: int


@dataclass(frozen=True, repr=False)
class TableDiff:
    """The way from one point to another; the rows are those that the snapshots' summaries tell, without
    delete files.
    """

    before: Point
    after: Point
    schema: tuple[Change, ...]
    partitioning: tuple[Change, ...]
    files: tuple[FileChange, ...]
    rows_before: int | None
    rows_after: int | None

    def __repr__(self) -> str:
        """The two snapshots, and how many files and rows came and went."""
        added, removed = self.sum("+"), self.sum("-")
        files = f"+{added.files:,} -{removed.files:,} data files, +{added.rows:,} -{removed.rows:,} rows"
        schema = [str(change) for change in (*self.schema, *self.partitioning)]
        return f"<TableDiff {self.before} -> {self.after}: {'; '.join([files, *schema])}>"

    def sum(self, sign: str, *, deletes: bool = False) -> Sum:
        """The files that were added (`+`) or removed (`-`)."""
        some = [file for file in self.files if (file.sign, file.deletes) == (sign, deletes)]
        return Sum(len(some), sum(file.rows for file in some), sum(file.bytes for file in some))

    @property
    def is_empty(self) -> bool:
        return not (self.schema or self.partitioning or self.files)


def diff_points(table: Table, before: Point, after: Point) -> TableDiff:
    """What changed between two points of a table."""
    metadata, points = table.metadata, (before, after)
    old, new = (read_manifests(table, point) for point in points)
    specs = [{manifest.partition_spec_id for manifest in some} for some in (old, new)]
    for used, point in zip(specs, points, strict=True):
        if point.kind == "branch":
            used.add(metadata.default_spec_id)  # what the next write will use
    return TableDiff(
        before,
        after,
        schema=tuple(compare_schemas(schema_at(metadata, before), schema_at(metadata, after))),
        partitioning=tuple(_compare_specs(*specs, specs=metadata.specs(), schema=metadata.schema())),
        files=tuple(_compare_files(table.io, old, new, specs=metadata.specs(), schema=metadata.schema())),
        rows_before=count_rows(before),
        rows_after=count_rows(after),
    )


def read_manifests(table: Table, point: Point) -> list[ManifestFile]:
    """The manifests of a point; an error that names the file when it is gone."""
    try:
        return point.snapshot.manifests(table.io)
    except FileNotFoundError as exc:
        raise HistoryError(
            f"{'.'.join(table.name())}: {point} cannot be read: {point.snapshot.manifest_list} is gone",
            hint="another program has deleted it; choose another snapshot",
            table=".".join(table.name()),
        ) from exc


def count_rows(point: Point) -> int | None:
    """The rows in a point's data files, if its summary tells."""
    known = point.snapshot.summary.get("total-records") if point.snapshot.summary else None
    return int(known) if known is not None else None


# --- schema ----------------------------------------------------------------------------------------------------------


def compare_schemas(before: Schema, after: Schema) -> Iterator[Change]:
    """The columns that were added, dropped, renamed, moved or given another type, by field id; nested ones by their
    full name.
    """
    from pyiceberg.schema import index_by_id

    old, new = index_by_id(before), index_by_id(after)
    for number, field in new.items():
        name = after.find_column_name(number)
        if number not in old:
            yield Change("+", f"column {name} {field.field_type}{' required' if field.required else ''}")
        elif changed := list(_compare_fields(old[number], field, was=before.find_column_name(number))):
            yield Change("~", f"column {name}: {', '.join(changed)}")
    for number in old:
        if number not in new:
            yield Change("-", f"column {before.find_column_name(number)} {old[number].field_type}")
    order = [
        [field.field_id for field in schema.fields if field.field_id in old and field.field_id in new]
        for schema in (before, after)
    ]
    if order[0] != order[1]:
        yield Change("~", f"order of columns: {', '.join(field.name for field in after.fields)}")


def _compare_fields(old: NestedField, new: NestedField, *, was: str | None) -> Iterator[str]:
    if old.name != new.name:
        yield f"renamed from {was}"
    # a change inside a struct is reported for its own fields
    if old.field_type != new.field_type and old.field_type.is_primitive:
        yield f"{old.field_type} -> {new.field_type}"
    if old.required != new.required:
        yield "now required" if new.required else "now optional"
    if old.doc != new.doc:
        yield f"doc {new.doc!r}"


# --- partitioning ----------------------------------------------------------------------------------------------------


def _compare_specs(
    old: set[int], new: set[int], *, specs: Mapping[int, PartitionSpec], schema: Schema
) -> Iterator[Change]:
    for sign, ids in (("+", new - old), ("-", old - new)):
        for number in sorted(ids):
            yield Change(sign, f"partition spec {number}: {describe_spec(specs[number], schema)}")


def describe_spec(spec: PartitionSpec, schema: Schema) -> str:
    """`day(ts), country`, or `unpartitioned`."""
    parts = []
    for field in spec.fields:
        source = schema.find_column_name(field.source_id) or field.name
        parts.append(source if str(field.transform) == "identity" else f"{field.transform}({source})")
    return ", ".join(parts) or "unpartitioned"


# --- files -----------------------------------------------------------------------------------------------------------


def _compare_files(
    io: FileIO,
    old: Sequence[ManifestFile],
    new: Sequence[ManifestFile],
    *,
    specs: Mapping[int, PartitionSpec],
    schema: Schema,
) -> Iterator[FileChange]:
    """Files of manifests that both have are in both; the others are compared one by one, for a manifest may only have
    been rewritten.
    """
    shared = {manifest.manifest_path for manifest in old} & {manifest.manifest_path for manifest in new}
    before = _live_files(io, (file for file in old if file.manifest_path not in shared))
    after = _live_files(io, (file for file in new if file.manifest_path not in shared))
    for sign, files, others in (("+", after, before), ("-", before, after)):
        for key in sorted(files.keys() - others.keys()):
            file = files[key]
            partition = _show_partition(file, specs[file.spec_id], schema)
            yield FileChange(
                sign, file.file_path, file.record_count, file.file_size_in_bytes, partition, file.content != 0
            )


def _live_files(io: FileIO, manifests: Iterable[ManifestFile]) -> dict[tuple[str, int], DataFile]:
    """The files by path; deletion vectors, of which many share a Puffin file, by their number in it as well."""
    from frazil.write.commit import read_files

    files: dict[tuple[str, int], DataFile] = {}
    seen: Counter[str] = Counter()
    for manifest in manifests:
        for entry in read_files(io, manifest):
            path = entry.data_file.file_path
            files[path, seen[path]] = entry.data_file
            seen[path] += 1
    return files


def _show_partition(file: DataFile, spec: PartitionSpec, schema: Schema) -> str:
    if spec.is_unpartitioned():
        return ""
    try:
        return spec.partition_to_path(file.partition, schema)
    except (ValueError, KeyError):  # a source column that was dropped since
        return "/".join(f"{field.name}={file.partition[position]}" for position, field in enumerate(spec.fields))
