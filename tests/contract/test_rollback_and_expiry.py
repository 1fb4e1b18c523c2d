"""A rollback while another client expires snapshots: the table is never left with files that expiry has deleted."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.update import RemoveSnapshotsUpdate
from pyiceberg.typedef import Identifier

from frazil.client import FrazilCatalog
from frazil.client.changes import Change
from frazil.errors import CommitConflict, SinkError
from frazil.protocol import ROLLBACK_TAG_PREFIX
from frazil.upkeep.policy import DAY_MS
from frazil.write.commit.publish import CommitCatalog, SingleTableCatalog
from frazil.write.commit.rollback import roll_back
from tests.conftest import Campaign
from tests.contract.history_lake import SCHEMA, rows
from tests.contract.upkeep_format3 import Kept3
from tests.contract.upkeep_lake import Kept, as_path
from tests.contract.upkeep_lake import rows as kept_rows
from tests.kit.catalog_writers import run_together
from tests.kit.raising import raises


@dataclass
class Meanwhile:
    """A catalog in which another client does something before the commit of this number, or before the tables are
    loaded again.
    """

    catalog: CommitCatalog
    action: Callable[[], object]
    before: int
    commits: list[Sequence[Change]] = field(default_factory=list)

    def load_table(self, identifier: str | Identifier) -> Table:
        return self.catalog.load_table(identifier)

    def create_table(self, identifier: str | Identifier, schema: Schema, *, properties: dict[str, str]) -> Table:
        return self.catalog.create_table(identifier, schema, properties=properties)

    def commit_changes(self, changes: Sequence[Change]) -> None:
        self.commits.append(changes)
        if len(self.commits) == self.before:
            self.action()
        self.catalog.commit_changes(changes)


@pytest.fixture
def kept(catalog: FrazilCatalog) -> Kept:
    """A table whose first snapshot has files that no later one has."""
    kept = Kept(catalog).create("day")
    kept.append(1, 2)
    kept.live.overwrite(kept.live.scan().to_arrow().slice(0, 1))
    return kept


def first(kept: Kept) -> int:
    return kept.live.metadata.snapshots[0].snapshot_id


def expire(kept: Kept) -> None:
    """Only the current snapshots of branches and tags are kept; other files are deleted."""
    kept.expire(now_ms=int(time.time() * 1000) + DAY_MS // 2, max_snapshot_age_ms=0)


def tags(kept: Kept) -> list[str]:
    return [name for name in kept.live.metadata.refs if name.startswith(ROLLBACK_TAG_PREFIX)]


def test_a_target_that_expires_before_the_rollback_is_refused_and_the_table_is_readable(kept: Kept) -> None:
    target, before = first(kept), kept.ids()
    with raises(SinkError, snapshot=target):
        roll_back(Meanwhile(kept.catalog, lambda: expire(kept), before=1), kept.identifier, target, with_progress=False)
    assert (kept.ids(), tags(kept)) == (before, [])


def test_a_target_cannot_expire_during_the_rollback(kept: Kept) -> None:
    target = first(kept)
    roll_back(Meanwhile(kept.catalog, lambda: expire(kept), before=2), kept.identifier, target, with_progress=False)
    assert (kept.ids(), tags(kept)) == ([1, 2], [])


def test_a_rollback_that_is_overtaken_leaves_no_tag(kept: Kept) -> None:
    with pytest.raises(CommitConflict):
        roll_back(
            Meanwhile(kept.catalog, lambda: kept.append(9), before=2), kept.identifier, first(kept), with_progress=False
        )
    assert (9 in kept.ids(), tags(kept)) == (True, [])


def test_the_tag_of_a_killed_rollback_expires(kept: Kept) -> None:
    target = first(kept)

    def stop() -> None:
        raise KeyboardInterrupt

    holding = Meanwhile(kept.catalog, stop, before=2)
    holding.catalog = _WithoutCleaning(kept.catalog)
    with pytest.raises(KeyboardInterrupt):
        roll_back(holding, kept.identifier, target, with_progress=False)
    assert len(tags(kept)) == 1
    kept.expire(now_ms=int(time.time() * 1000) + 2 * DAY_MS, max_snapshot_age_ms=0)
    assert (tags(kept), first(kept) == target) == ([], False)


@dataclass
class _WithoutCleaning(Meanwhile):
    """A process that dies after its first commit: nothing that it sends later arrives."""

    def __init__(self, catalog: CommitCatalog) -> None:
        super().__init__(catalog, lambda: None, before=0)

    def commit_changes(self, changes: Sequence[Change]) -> None:
        self.commits.append(changes)
        if len(self.commits) > 1:
            raise ConnectionError
        self.catalog.commit_changes(changes)


def test_a_rollback_and_an_expiry_at_the_same_time_leave_a_table_that_can_be_read(
    catalog: FrazilCatalog, campaign: Campaign
) -> None:
    """Each snapshot has files of its own, and expiry deletes those of all but the current one. In odd rounds chance
    decides which of the two is first; in even rounds the expiry comes in the middle of the rollback, which ends well.
    """
    kept, random, ended = Kept(catalog).create("day"), campaign.random(), Counter[str]()
    kept.append(0)

    def check() -> None:
        assert len(kept.ids()) == 1
        for snapshot in kept.live.metadata.snapshots:
            assert set(map(as_path, kept.paths(snapshot.snapshot_id))) <= kept.on_disk()

    for number in range(1, campaign.size(short=15, full=400)):
        kept.live.overwrite(kept_rows([number]))
        metadata = kept.live.metadata
        others = [
            snapshot.snapshot_id
            for snapshot in metadata.snapshots[:-1]
            if snapshot.summary and snapshot.summary["total-records"] == "1"
        ]
        target, together = random.choice(others), threading.Barrier(2)
        if number % 2 == 0:
            in_the_middle = Meanwhile(kept.catalog, lambda: expire(kept), before=2)
            roll_back(in_the_middle, kept.identifier, target, with_progress=False)
            check()
            continue

        def go_back(target: int = target, together: threading.Barrier = together) -> None:
            together.wait(60)
            try:
                roll_back(kept.catalog, kept.identifier, target, with_progress=False)
                ended["done"] += 1
            except (CommitConflict, SinkError):
                ended["refused"] += 1

        def let_go(together: threading.Barrier = together) -> None:
            together.wait(60)
            expire(kept)

        run_together([go_back, let_go])
        check()
    print(f"rollbacks next to an expiry: {dict(ended)}")


# --- a catalog that checks nothing -----------------------------------------------------------------------------------


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[SqlCatalog]:
    """PyIceberg's own catalog: it takes a snapshot whose parent is gone, and drops tags with their snapshots."""
    catalog = SqlCatalog("plain", uri=f"sqlite:///{tmp_path / 'plain.db'}", warehouse=str(tmp_path))
    catalog.create_namespace("lake")
    yield catalog
    catalog.close()


def test_the_commit_itself_is_guarded_in_catalogs_that_do_not_know_parents(plain: SqlCatalog) -> None:
    plain.create_table("lake.t", SCHEMA)
    for number in (1, 2):
        plain.load_table("lake.t").append(rows(number))
    target = plain.load_table("lake.t").metadata.snapshots[0].snapshot_id

    def remove_target() -> None:
        update = RemoveSnapshotsUpdate.model_validate({"snapshot-ids": [target]})
        plain.commit_table(plain.load_table("lake.t"), (), (update,))

    meanwhile = Meanwhile(SingleTableCatalog(plain), remove_target, before=2)
    with pytest.raises(CommitConflict):
        roll_back(meanwhile, ("lake", "t"), target, with_progress=False)
    assert sorted(plain.load_table("lake.t").scan().to_arrow()["id"].to_pylist()) == [1, 2]


def test_a_table_of_format_3_goes_back_to_nothing_with_another(catalog: FrazilCatalog) -> None:
    kept, companion = Kept(catalog).create(), Kept3(catalog).create()
    first = kept.append(1)
    kept.append(2)
    companion.append(1, 2)
    roll_back(catalog, kept.identifier, first, with_progress=False, also=[(companion.live, None)])
    assert (kept.scanned(), companion.scanned(), companion.summary()["total-records"]) == ([1], [], "0")
    companion.append(3)
    assert companion.scanned() == [3]
