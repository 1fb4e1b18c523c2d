"""Upkeep with writers, deletes and rollbacks at random moments in the middle of it: the rows are always those of a
simple model.

In format 3 every row id, once it was seen, belongs to the same row for ever.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from frazil import Lake
from frazil.client import FrazilCatalog
from frazil.upkeep.deletes import DeleteRewrite, plan_deletes
from frazil.upkeep.manifests import ManifestRewrite, plan_manifests
from frazil.upkeep.policy import Policy
from frazil.write.commit.publish import RetryPolicy
from tests.conftest import Campaign
from tests.contract.upkeep_format3 import Kept3
from tests.contract.upkeep_lake import HURRIED, Kept, during

STEPS = ("before load", "files written", "before commit")
Rows = Counter[tuple[int, int]]  # id and day


@dataclass
class World:
    """A table, and what it must hold at each snapshot."""

    kept: Kept
    chance: random.Random
    rows: Rows = field(default_factory=Counter)
    past: dict[int, Rows] = field(default_factory=dict)
    known: dict[int, dict[str, int]] = field(default_factory=dict)  # rows by their ids

    def check(self, *, may_add: bool = True) -> None:
        """The rows are those of the model; and those that upkeep has moved are known by their ids."""
        columns = ["id", "day", *(["_row_id", "_last_updated_sequence_number"] if isinstance(self.kept, Kept3) else [])]
        result = Lake(catalog=self.kept.catalog).table(self.kept.name).scan(columns=columns).to_arrow().to_pylist()
        assert Counter((row["id"], row["day"]) for row in result) == self.rows
        self.past[self.kept.head()] = self.rows.copy()
        if isinstance(self.kept, Kept3):
            assert len({row["_row_id"] for row in result}) == len(result)
            assert may_add or self.known.keys() >= {row["_row_id"] for row in result}
            for row in result:
                assert self.known.setdefault(row["_row_id"], row) == row

    # --- writers -----------------------------------------------------------------------------------------------------

    def write(self) -> None:
        """Whatever a writer may do; it is seen by the table and by the model."""
        self.chance.choice(
            [self.append, self.append, self.delete_equal, self.delete_equal, self.delete_positions, self.go_back]
        )()
        self.check()

    def append(self) -> None:
        day, ids = self.chance.choice((1, 2)), [self.chance.randrange(12) for _ in range(self.chance.randint(1, 3))]
        self.kept.append(*ids, day=day)
        self.rows += Counter((item, day) for item in ids)

    def delete_equal(self) -> None:
        day, ids = self.chance.choice((1, 2)), self.chance.sample(range(12), 3)
        self.kept.delete_equal(*ids, partition=(day,))
        self.rows = Counter({row: count for row, count in self.rows.items() if row[1] != day or row[0] not in ids})

    def delete_positions(self) -> None:
        ids = self.chance.sample(range(12), 2)
        if any(row[0] in ids for row in self.rows):
            self.kept.delete(*ids)
            self.rows = Counter({row: count for row, count in self.rows.items() if row[0] not in ids})

    def go_back(self) -> None:
        snapshot_id = self.chance.choice(list(self.past))
        self.kept.live.manage_snapshots().set_current_snapshot(snapshot_id).commit()
        self.rows = self.past[snapshot_id].copy()

    # --- upkeep ------------------------------------------------------------------------------------------------------

    def keep(self) -> None:
        """One step of upkeep. In the middle of it, or between plan and work, a writer comes."""
        self.chance.choice([self.compact, self.compact, self.drop_deletes, self.merge_manifests])()
        self.check(may_add=False)

    def retry(self) -> RetryPolicy:
        return during(self.write, self.chance.choice(STEPS)) if self.chance.random() < 0.7 else HURRIED

    def maybe(self, action: Callable[[], None]) -> None:
        if self.chance.random() < 0.3:
            action()

    def compact(self) -> None:
        plan = self.kept.plan(everything=self.chance.random() < 0.5)
        self.maybe(self.write)
        assert self.kept.compact(plan, retry=self.retry()).problems == ()

    def drop_deletes(self) -> None:
        plan = plan_deletes(self.kept.live, self.kept.policy)
        self.maybe(self.write)
        DeleteRewrite(self.kept.catalog, self.kept.identifier, self.retry()).run(self.kept.live, plan)

    def merge_manifests(self) -> None:
        plan = plan_manifests(self.kept.live, self.kept.policy)
        self.maybe(self.write)
        ManifestRewrite(self.kept.catalog, self.kept.identifier, self.retry()).run(plan, policy=self.kept.policy)


@pytest.mark.parametrize("kind", [Kept, Kept3])
def test_concurrent_readers_find_the_right_rows(catalog: FrazilCatalog, campaign: Campaign, kind: type[Kept]) -> None:
    chance = campaign.random()
    for _ in range(campaign.size(short=3, full=150)):
        world = World(kind(catalog, policy=Policy(min_input_files=2)).create("day"), chance)
        world.append()
        world.check()
        for _ in range(10):
            world.write()
            world.keep()
