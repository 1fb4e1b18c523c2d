"""A table of format 3 for the tests of its upkeep. PyIceberg writes none: rows and deletion vectors are committed by
hand.

`lineage` tells the ids of the rows by the specification, row by row; tests/engines asks Spark for them.
"""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Sequence

import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import AddSnapshotUpdate
from pyroaring import BitMap64

from frazil.client.changes import Change
from frazil.write.commit import format3
from frazil.write.commit.builder import guards, move_ref, next_snapshot
from frazil.write.commit.entries import as_added, as_existing, write_entries
from frazil.write.files.buffer import Buffer, BufferLimits
from frazil.write.files.layout import TableLayout
from tests.contract.upkeep_lake import Kept, rows

Lineage = dict[int, tuple[int, int]]


class Kept3(Kept):
    """A table of format 3 under maintenance."""

    def create(self, *partition_by: str, **options: object) -> Kept3:
        super().create(*partition_by, properties={"format-version": "3"}, **options)
        return self

    def append(self, *ids: int, day: int = 1, branch: str = "main") -> int:
        layout = TableLayout.of(self.live, formats=(3,))
        buffer = Buffer(layout, limits=BufferLimits(threads=1))
        buffer.add(rows(ids, day).cast(layout.arrow))
        return self._commit([file.to_data_file() for file in buffer.flush()], ManifestContent.DATA, branch)

    def delete(self, *ids: int) -> int:
        """A deletion vector for each file with such rows, all in one Puffin file; it holds what an older one held, and
        takes its place.
        """
        older = {
            entry.data_file[format3.REFERENCED]: entry.data_file for entry in self.entries(ManifestContent.DELETES)
        }
        result = list[tuple[str, list[int], DataFile]]()
        for file in self.files():
            if positions := self._positions(self.live, file, ids):
                before = self._read_vector(older[file.file_path]) if file.file_path in older else []
                result.append((file.file_path, sorted({*positions, *before}), file))
        return self.add_vectors(result)

    def _read_vector(self, file: DataFile) -> list[int]:
        with self.live.io.new_input(file.file_path).open() as stream:
            blob = stream.read()[file[format3.OFFSET] :][: file[format3.OFFSET + 1]]
        return list(BitMap64.deserialize(blob[8:-4]))

    def add_vectors(self, vectors: Sequence[tuple[str, list[int], DataFile]]) -> int:
        """Deletion vectors in one Puffin file: about which file, which rows, and in whose partition."""
        table, path = self.live, f"{self.live.location()}/data/{uuid.uuid4()}-deletes.puffin"
        content, result = b"PFA1", list[DataFile]()
        blobs = [vector_blob(positions) for _, positions, _ in vectors]
        size = len(content) + sum(len(blob) for blob in blobs)  # of the whole file, which they share
        for (target, positions, like), blob in zip(vectors, blobs, strict=True):
            facts = {"file_path": path, "file_format": FileFormat.PUFFIN, "content": DataFileContent.POSITION_DELETES}
            facts |= {"record_count": len(positions), "partition": like.partition, "referenced_data_file": target}
            facts |= {"content_offset": len(content), "content_size_in_bytes": len(blob), "file_size_in_bytes": size}
            result.append(DataFile.from_args(_table_format_version=3, **facts))
            result[-1].spec_id = like.spec_id
            content += blob
        with table.io.new_output(path).create() as out:
            out.write(content)
        return self.add_deletes(result)

    def add_deletes(self, files: Sequence[DataFile]) -> int:
        return self._commit(files, ManifestContent.DELETES, "main")

    def _commit(self, files: Sequence[DataFile], content: ManifestContent, branch: str) -> int:
        table = self.live
        metadata, parent = table.metadata, table.snapshot_by_name(branch)
        snapshot_id = metadata.new_snapshot_id()
        entries = [as_added(file, snapshot_id) for file in files]
        carried = list[ManifestFile]()
        replaced = {file[format3.REFERENCED] for file in files if len(file) > format3.REFERENCED} - {None}
        for item in format3.read_list_v3(table.io, parent.manifest_list) if parent else []:
            old = format3.read_entries(table.io, item) if replaced and item.content == ManifestContent.DELETES else []
            if any(entry.data_file[format3.REFERENCED] in replaced for entry in old):
                entries += [as_existing(entry) for entry in old if entry.data_file[format3.REFERENCED] not in replaced]
            else:
                carried.append(item)
        manifest = write_entries(table, entries, spec_id=files[0].spec_id, content=content, snapshot_id=snapshot_id)
        parent_id = parent.snapshot_id if parent else None
        listed = format3.write_list_v3(
            table, [*carried, manifest], snapshot_id=snapshot_id, parent_id=parent_id, attempt=1
        )
        summary = Summary(Operation.APPEND if content == ManifestContent.DATA else Operation.DELETE)
        snapshot = next_snapshot(
            metadata, parent, snapshot_id=snapshot_id, manifest_list=listed.location, summary=summary
        )
        snapshot = snapshot.model_copy(update={"first_row_id": listed.first_row_id, "added_rows": listed.added_rows})
        updates = (AddSnapshotUpdate(snapshot=snapshot), move_ref(metadata, branch, snapshot_id))
        self.catalog.commit_changes([Change(self.identifier, guards(metadata, branch, parent_id), updates)])
        return snapshot_id

    def entries(self, content: ManifestContent = ManifestContent.DATA) -> list[ManifestEntry]:
        table, head = self.live, self.live.current_snapshot()
        assert head is not None
        manifests = [item for item in format3.read_list_v3(table.io, head.manifest_list) if item.content == content]
        return [entry for manifest in manifests for entry in format3.read_entries(table.io, manifest)]

    def vectors(self) -> int:
        return len(self.entries(ManifestContent.DELETES))

    def lineage(self) -> Lineage:
        """The row id of each id, and the sequence number of its last change; deleted rows are among them."""
        result: Lineage = {}
        for entry in self.entries():
            first = entry.data_file[format3.FILE_FIRST_ROW]
            with self.live.io.new_input(entry.data_file.file_path).open() as stream:
                content = pq.read_table(stream).to_pylist()
            for at, row in enumerate(content):
                inherited = (first + at, entry.sequence_number)
                own = (row.get("_row_id"), row.get("_last_updated_sequence_number"))
                result[row["id"]] = tuple(
                    item if item is not None else other for item, other in zip(own, inherited, strict=True)
                )  # type: ignore[assignment]
        return result


def vector_blob(positions: Sequence[int]) -> bytes:
    """A deletion vector as it lies in a Puffin file."""
    body = b"\xd1\xd3\x39\x64" + BitMap64(positions).serialize()
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))
