"""Partitions that are replaced: what they held goes, the new files come, in one snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from pyiceberg.manifest import DataFile, ManifestContent, ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.table.update import AddSnapshotUpdate
from pyiceberg.typedef import Identifier

from frazil.client import Change
from frazil.errors import SinkError
from frazil.write.commit.manifests import rewrite_without, write_added, write_list
from frazil.write.commit.progress import MAIN
from frazil.write.commit.snapshots import (
    check_required,
    count_files,
    head,
    move_ref,
    next_snapshot,
    set_properties,
    write_guards,
)
from frazil.write.commit.totals import totals_before
from frazil.write.files import WrittenFile, canonical_value

if TYPE_CHECKING:
    from pyiceberg.table import Table


@dataclass
class Replace:
    """New files, and the end of all other files of the partitions that these lie in. Partitions without a new file stay
    as they are.

    Which files go is decided anew at each attempt, on the table as it is then: rows that another writer appended to
    such a partition in the meantime go, too. Delete files stay: they speak of files that are gone, or of lower sequence
    numbers than the new ones have.
    """

    identifier: Identifier
    files: Sequence[WrittenFile]
    ref: str = MAIN
    snapshot_id: int | None = None
    _added: list[ManifestFile] | None = field(default=None, repr=False)

    def build(self, table: Table, *, attempt: int, summary: Mapping[str, str], properties: Mapping[str, str]) -> Change:
        """The change that replaces the partitions, if the ref still is where `table` saw it."""
        metadata = table.metadata
        check_required(table, self.files)
        if self.snapshot_id is None:
            self.snapshot_id = metadata.new_snapshot_id()
        if self._added is None:
            self._added = write_added(table, self.files, snapshot_id=self.snapshot_id)
        parent = head(metadata, self.ref)
        carried, dropped = self._without_replaced(table, parent)
        parent_id = parent.snapshot_id if parent else None
        location = write_list(
            table, [*self._added, *carried], snapshot_id=self.snapshot_id, parent_id=parent_id, attempt=attempt
        )
        counted = count_files(
            self.files, Operation.OVERWRITE, totals_before(table.io, parent), summary, dropped=dropped
        )
        snapshot = next_snapshot(
            metadata, parent, snapshot_id=self.snapshot_id, manifest_list=location, summary=counted
        )
        updates = (
            AddSnapshotUpdate(snapshot=snapshot),
            move_ref(metadata, self.ref, self.snapshot_id),
            *set_properties(properties),
        )
        return Change(self.identifier, write_guards(metadata, self.ref, parent_id), updates)

    def _without_replaced(self, table: Table, parent: Snapshot | None) -> tuple[list[ManifestFile], list[DataFile]]:
        kept: list[ManifestFile] = []
        dropped: list[DataFile] = []
        assert self.snapshot_id is not None
        for manifest in parent.manifests(table.io) if parent else []:
            if manifest.content != ManifestContent.DATA:
                kept.append(manifest)
                continue
            covers = partial(self._covers, table, manifest.partition_spec_id)
            rest, gone = rewrite_without(table, manifest, covers, snapshot_id=self.snapshot_id)
            kept.append(rest)
            dropped += gone
        return kept, dropped

    def _covers(self, table: Table, spec_id: int, file: DataFile) -> bool:
        """Whether a file lies in a partition that is replaced; where that is not certain, nothing is replaced
        at all.
        """
        values = _values(file)
        specs = table.metadata.specs()
        covered = False
        for new_spec, partitions in self._replaced.items():
            if new_spec == spec_id:
                covered = covered or values in partitions
            elif any(_may_share(specs[spec_id], values, specs[new_spec], one) for one in partitions):
                raise SinkError(
                    f"{'.'.join(self.identifier)}: partitions cannot be replaced: {file.file_path} was written under "
                    f"another partitioning "
                    f"(spec {spec_id}), and holds rows that may belong to them",
                    hint="rewrite the old files first (frazil maintain TABLE --only compact --rewrite-all), or load "
                    "with mode='append'",
                    table=".".join(self.identifier),
                    problem="other-spec",
                )
        return covered

    @cached_property
    def _replaced(self) -> dict[int, set[tuple[Any, ...]]]:
        found: dict[int, set[tuple[Any, ...]]] = {}
        for file in self.files:
            found.setdefault(file.spec_id, set()).add(tuple(canonical_value(value) for value in file.partition))
        return found


def _values(file: DataFile) -> tuple[Any, ...]:
    return tuple(canonical_value(file.partition[position]) for position in range(len(file.partition)))


def _may_share(
    old: PartitionSpec, old_values: tuple[Any, ...], new: PartitionSpec, new_values: tuple[Any, ...]
) -> bool:
    """Whether a row can lie in both partitions: not, if one transform of one column has different values in the two."""
    known = {(one.source_id, str(one.transform)): value for one, value in zip(old.fields, old_values, strict=True)}
    shared = [((one.source_id, str(one.transform)), value) for one, value in zip(new.fields, new_values, strict=True)]
    return all(known.get(term, value) in (value,) for term, value in shared)  # `in` knows NaN as itself
