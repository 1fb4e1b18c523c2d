"""Rows that are replaced, of some partitions or of all: what was there goes, the new files come, in one snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table.snapshots import Operation

from frazil.client import Change
from frazil.errors import SinkError
from frazil.write.commit.builder import count_dropped, count_written
from frazil.write.commit.manifests import drop_files, split_by_content
from frazil.write.commit.snapshots import Append
from frazil.write.files import canonical_value

if TYPE_CHECKING:
    from pyiceberg.table import Table


@dataclass
class Replace(Append):
    """New files, and the end of all other files of the partitions that these lie in. Partitions without a new file stay
    as they are.

    Which files go is decided again at each attempt, on the table as it is then: rows that another writer appended to
    such a partition in the meantime go, too. Delete files stay: they speak of files that are gone, or of lower sequence
    numbers than the new ones have. `emptied` are further partitions, by their spec, whose files go.
    """

    emptied: Mapping[int, frozenset[tuple[Any, ...]]] = field(default_factory=dict, kw_only=True)

    def build(self, table: Table, *, attempt: int, summary: Mapping[str, str], properties: Mapping[str, str]) -> Change:
        """The change that replaces the partitions, if the ref still is where `table` saw it."""
        draft, added = self.begin(table, attempt)
        data, deletes = split_by_content(draft.manifests)
        kept, dropped = drop_files(table, data, partial(self._covers, table), snapshot_id=draft.snapshot_id)
        counts = count_written(self.files) + count_dropped(dropped)
        snapshot = draft.write(Operation.OVERWRITE, [*added, *kept, *deletes], counts, summary)
        return draft.change(self.identifier, snapshot, properties)

    def _covers(self, table: Table, file: DataFile) -> bool:
        """Whether a file lies in a partition that is replaced; where that is not certain, nothing is replaced
        at all.
        """
        values, spec_id = _values(file), file.spec_id
        specs = table.metadata.specs()
        covered = False
        for new_spec, partitions in self._replaced.items():
            if new_spec == spec_id:
                covered = covered or values in partitions
            elif any(_may_share(specs[spec_id], values, specs[new_spec], partition) for partition in partitions):
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
        replaced: dict[int, set[tuple[Any, ...]]] = {spec_id: set(values) for spec_id, values in self.emptied.items()}
        for file in self.files:
            replaced.setdefault(file.spec_id, set()).add(tuple(canonical_value(value) for value in file.partition))
        return replaced


@dataclass
class Overwrite(Append):
    """New files in place of all rows that the ref has."""

    def build(self, table: Table, *, attempt: int, summary: Mapping[str, str], properties: Mapping[str, str]) -> Change:
        """The change that replaces all files, if the ref still is where `table` saw it."""
        draft, added = self.begin(table, attempt)
        gone, dropped = drop_files(table, draft.manifests, lambda _: True, snapshot_id=draft.snapshot_id)
        counts = count_written(self.files) + count_dropped(dropped)
        snapshot = draft.write(Operation.OVERWRITE, [*added, *gone], counts, summary)
        return draft.change(self.identifier, snapshot, properties)


def _values(file: DataFile) -> tuple[Any, ...]:
    return tuple(canonical_value(file.partition[position]) for position in range(len(file.partition)))


def _may_share(
    old: PartitionSpec, old_values: tuple[Any, ...], new: PartitionSpec, new_values: tuple[Any, ...]
) -> bool:
    """Whether a row can lie in both partitions: not, if one transform of one column has different values in the two."""
    known = {(pair.source_id, str(pair.transform)): value for pair, value in zip(old.fields, old_values, strict=True)}
    shared = [
        ((pair.source_id, str(pair.transform)), value) for pair, value in zip(new.fields, new_values, strict=True)
    ]
    return all(known.get(term, value) in (value,) for term, value in shared)  # `in` knows NaN as itself
