"""Searches with an index of the catalog's, after random histories: always the rows of the searched snapshot, as brute
force finds them. The index is built now and then, and refreshed now and then; the answer never waits for either.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.manifest import ManifestContent
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.types import FloatType, ListType, LongType, NestedField, StringType

from frazil import Lake
from frazil.client import FrazilCatalog
from frazil.lake import LakeTable
from frazil.vector.metric import METRICS, Matrix, Metric
from frazil.write.files.buffer import Buffer, BufferLimits
from frazil.write.files.layout import TableLayout
from tests.conftest import Campaign
from tests.contract.test_vector_nearest import distance, truth
from tests.contract.upkeep_format3 import Kept3
from tests.contract.upkeep_lake import Kept

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "kind", StringType()),
    NestedField(3, "embedding", ListType(4, FloatType(), element_required=False)),
)
DIMENSION, CENTERS, KINDS = 32, 12, ("red", "green", "blue")
K, RECALL = 5, 0.95
Rows = dict[int, tuple[str, Matrix]]


@dataclass
class History:
    """A table with an index, and the rows that each snapshot and each branch must have."""

    kept: Kept
    chance: random.Random
    metric: Metric
    past: dict[int, Rows] = field(default_factory=dict)
    ids: int = 0
    right: int = 0
    expected: int = 0

    def __post_init__(self) -> None:
        version = "3" if isinstance(self.kept, Kept3) else "2"
        self.kept.catalog.create_table(
            self.kept.name, SCHEMA, partition_spec=UNPARTITIONED_PARTITION_SPEC, properties={"format-version": version}
        )
        self.lake = Lake(catalog=self.kept.catalog)
        self.centers = self.numbers().standard_normal((CENTERS, DIMENSION))

    @property
    def table(self) -> LakeTable:
        return self.lake.table(self.kept.name)

    def numbers(self) -> np.random.Generator:
        return np.random.default_rng(self.chance.randrange(1 << 30))

    def rows(self, ref: str = "main") -> Rows:
        return self.past[self.kept.head(ref)]

    def branch(self) -> str:
        return self.chance.choice(sorted(self.table.load().metadata.refs))

    def some(self, rows: Rows) -> list[int]:
        return self.chance.sample(sorted(rows), min(len(rows), self.chance.choice([1, 5, 40])))

    def vectors(self, count: int) -> Matrix:
        """Vectors around a few centers, as embeddings lie."""
        numbers = self.numbers()
        noise = 0.4 * numbers.standard_normal((count, DIMENSION))
        return (self.centers[numbers.integers(0, CENTERS, count)] + noise).astype(np.float32)

    # --- what happens ------------------------------------------------------------------------------------------------

    def append(self, count: int | None = None, branch: str = "main") -> None:
        count = count or self.chance.choice([1, 30, 120])
        vectors = self.vectors(count)
        new = {self.ids + number: (self.chance.choice(KINDS), vectors[number]) for number in range(count)}
        self.ids += count
        before = self.rows(branch) if self.past else {}
        documents = [{"id": key, "kind": kind, "embedding": vector.tolist()} for key, (kind, vector) in new.items()]
        if isinstance(self.kept, Kept3):
            layout = TableLayout.of(self.table.load(), formats=(3,))
            buffer = Buffer(layout, limits=BufferLimits(threads=1))
            buffer.add(pa.Table.from_pylist(documents, schema=layout.arrow))
            self.kept._commit([file.to_data_file() for file in buffer.flush()], ManifestContent.DATA, branch)
        else:
            self.table.append(documents, branch=branch)
        self.past[self.kept.head(branch)] = before | new

    def append_to_a_branch(self) -> None:
        self.append(branch=self.branch())

    def delete_in_place(self) -> None:
        """Copy-on-write: files are written again without the rows."""
        branch = self.branch()
        before = self.rows(branch)
        gone = self.some(before)
        if gone:
            self.table.delete(f"id IN ({', '.join(map(str, gone))})", branch=branch)
            self.keep(before, gone, branch)

    def delete_by_position(self) -> None:
        """Position deletes as Spark writes them; in format 3 deletion vectors."""
        before = self.rows()
        if gone := self.some(before):
            self.kept.delete(*gone)
            self.keep(before, gone)

    def delete_by_value(self) -> None:
        """Equality deletes as Flink writes them."""
        before = self.rows()
        if gone := self.some(before):
            self.kept.delete_equal(*gone, partition=())
            self.keep(before, gone)

    def keep(self, before: Rows, gone: list[int], branch: str = "main") -> None:
        self.past[self.kept.head(branch)] = {key: row for key, row in before.items() if key not in gone}

    def compact(self) -> None:
        before = self.rows()
        self.table.maintain("compact", "deletes", dry_run=False, rewrite_all=True)
        self.past |= {entry.snapshot_id: before for entry in self.table.history() if entry.snapshot_id not in self.past}

    def go_back(self) -> None:
        target = self.chance.choice([entry.snapshot_id for entry in self.table.history()])
        if target != self.kept.head():
            self.table.rollback(target)
            self.past[self.kept.head()] = self.past[target]

    def create_branch(self) -> None:
        self.table.create_branch(f"b{self.chance.randrange(1 << 30)}", at=self.chance.choice(sorted(self.past)))

    def refresh(self) -> None:
        self.table.indexes.refresh("embedding")

    def build(self) -> None:
        if self.table.indexes.records():
            self.table.indexes.drop("embedding")
        self.table.indexes.create("embedding", metric=self.metric, seed=self.chance.randrange(100))

    # --- what is searched --------------------------------------------------------------------------------------------

    def search(self, at: int | str) -> None:
        """A few vectors, at a snapshot or branch: no row that is not there, none missing, the nearest with few
        exceptions.
        """
        kind = self.chance.choice([None, None, *KINDS])
        rows = self.past[at] if isinstance(at, int) else self.rows(at)
        live = {key: row for key, row in rows.items() if kind in (None, row[0])}
        asked = self.vectors(3)
        scan = self.table.scan(f"kind = '{kind}'" if kind else None, columns=["id"], at=at)
        nearest = scan.nearest("embedding", asked, k=K).to_arrow().to_pylist()
        for number, query in enumerate(asked):
            answer = {row["id"]: row["_distance"] for row in nearest if row["_query"] == number}
            assert answer.keys() <= live.keys(), "a row that the snapshot does not have"
            assert len(answer) == min(K, len(live)), "fewer rows than there are"
            true = [distance(live[key][1], query, self.metric) for key in answer]
            assert list(answer.values()) == pytest.approx(true, rel=0.05, abs=0.1)
            self.right += len(answer.keys() & {*truth(live, query, K, self.metric)})
            self.expected += len(answer)

    def run(self, steps: list[Callable[[], None]], count: int) -> None:
        self.append(400)
        self.append(200)
        self.build()
        used = 0
        for _ in range(count):
            self.chance.choice(steps)()
            for at in ("main", self.branch(), self.chance.choice(sorted(self.past))):
                self.search(at)
            used += self.table.scan().nearest("embedding", self.vectors(1)[0]).explain().files_indexed
        assert self.right >= RECALL * self.expected
        assert used, "the index was never used"


def steps_of(history: History) -> list[Callable[[], None]]:
    """What may happen next, the common things more often. PyIceberg rewrites no files of format 3."""
    writes = [history.append, history.append_to_a_branch, history.delete_by_position]
    older = [history.delete_in_place, history.delete_by_value]
    rare = [history.compact, history.go_back, history.create_branch, history.refresh, history.build]
    return [*writes, *rare] if isinstance(history.kept, Kept3) else [*writes, *older, *rare]


@pytest.mark.requirement("flow.vector-history")
@pytest.mark.parametrize("metric", METRICS)
def test_the_answer_follows_the_history_of_the_table(
    catalog: FrazilCatalog, campaign: Campaign, metric: Metric
) -> None:
    history = History(Kept(catalog), campaign.random(), metric)
    history.run(steps_of(history), campaign.size(short=12, full=150))


@pytest.mark.requirement("flow.vector-history")
def test_the_answer_follows_deletion_vectors(catalog: FrazilCatalog, campaign: Campaign) -> None:
    history = History(Kept3(catalog), campaign.random(), "cosine")
    history.run(steps_of(history), campaign.size(short=12, full=150))


def test_the_answer_follows_the_history_on_an_object_store(s3_catalog: FrazilCatalog, campaign: Campaign) -> None:
    history = History(Kept(s3_catalog), campaign.random(), "l2")
    history.run(steps_of(history), campaign.size(short=8, full=100))
