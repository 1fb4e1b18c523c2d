"""Orphans on a real catalog: what nothing leads to goes when it is old, and nothing else ever does."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from frazil.client import FrazilCatalog
from frazil.errors import UpkeepError
from frazil.upkeep.orphans import Locations, OrphanPlan, plan_orphans, remove_orphans
from frazil.upkeep.policy import DAY_MS, HOUR_MS
from frazil.write.commit.publish import RetryPolicy
from frazil.write.commit.snapshots import Append
from frazil.write.files.buffer import Buffer
from frazil.write.files.layout import TableLayout
from tests.contract.upkeep_lake import Kept, as_path, rows
from tests.kit.lake import lake_catalog
from tests.kit.raising import raises


@pytest.fixture(scope="module")
def overlapping_catalog() -> Iterator[FrazilCatalog]:
    """A catalog in which tables may overlap, as in lakes from before that was refused."""
    with lake_catalog(allow_overlap=True) as result:
        yield result


@pytest.fixture
def kept(overlapping_catalog: FrazilCatalog) -> Kept:
    """A table with a past: files of old snapshots, of a branch, and deletes."""
    kept = Kept(overlapping_catalog).create("day")
    for number in range(6):
        kept.append(number)
    kept.delete(2)
    kept.compact()
    kept.live.manage_snapshots().create_branch(kept.head(), "side").commit()
    kept.append(50, branch="side")
    return kept


def find(kept: Kept, *, in_days: float = 10, older_than_ms: int = 3 * DAY_MS) -> OrphanPlan:
    now = int(time.time() * 1000 + in_days * DAY_MS)
    return plan_orphans(lambda: kept.live, now_ms=now, older_than_ms=older_than_ms, locations=Locations(kept.catalog))


def leave(kept: Kept, *names: str) -> set[str]:
    """Files that nothing leads to."""
    for name in names:
        path = kept.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"left")
    return {str(kept.folder / name) for name in names}


def test_a_healthy_table_has_none(kept: Kept) -> None:
    before = kept.on_disk()
    plan = find(kept)
    assert (plan.orphans, plan.listed) == ((), len(before))


def test_what_nothing_leads_to_is_removed_and_nothing_else(kept: Kept) -> None:
    before = kept.on_disk()
    left = leave(
        kept,
        "data/day=1/a.parquet",
        "data/b c.parquet",
        "metadata/x-m0.avro",
        "metadata/00009-x.metadata.json",
        "data/d%3A1/f.parquet",
    )
    plan = find(kept)
    assert {as_path(orphan.path) for orphan in plan.orphans} == left
    assert remove_orphans(kept.live, plan).files == 5
    assert kept.on_disk() == before
    assert (kept.ids(), kept.ids(kept.head("side"))) == ([0, 1, 3, 4, 5], [0, 1, 3, 4, 5, 50])


def test_young_files_may_belong_to_a_commit_under_way(kept: Kept) -> None:
    (old, young) = sorted(leave(kept, "data/a.parquet", "data/b.parquet"))
    hours_ago = time.time() - 5 * 3600
    os.utime(old, (hours_ago, hours_ago))
    assert [as_path(orphan.path) for orphan in find(kept, in_days=0, older_than_ms=4 * HOUR_MS).orphans] == [old]
    assert Path(young).exists()


def test_less_than_an_hour_is_refused(kept: Kept) -> None:
    with raises(UpkeepError, problem="too-young"):
        find(kept, older_than_ms=HOUR_MS - 1)


def test_what_is_committed_after_the_listing_is_the_tables(kept: Kept) -> None:
    now = int(time.time() * 1000 + 10 * DAY_MS)
    steps: list[str] = []

    def append(step: str) -> None:
        steps.append(step)
        kept.append(99)

    plan = plan_orphans(
        lambda: kept.live, now_ms=now, older_than_ms=3 * DAY_MS, locations=Locations(kept.catalog), on_step=append
    )
    assert (plan.orphans, steps) == ((), ["listed"])


def test_what_a_writer_commits_after_the_plan_stays(kept: Kept) -> None:
    """It slept for days between its file and its commit, and woke while the user was asked whether the orphans
    may go.
    """
    layout = TableLayout.of(kept.live)
    buffer = Buffer(layout)
    buffer.add(rows([70]).cast(layout.arrow))
    late = Append(kept.identifier, buffer.flush())
    plan = find(kept)
    assert len(plan.orphans) == 1
    kept.catalog.commit_changes([late.build(kept.live, attempt=1, summary={}, properties={})])
    assert remove_orphans(kept.live, plan).files == 0
    assert 70 in kept.ids()


def test_a_folder_that_two_tables_share_is_left_alone(kept: Kept, overlapping_catalog: FrazilCatalog) -> None:
    inner = Kept(overlapping_catalog)
    overlapping_catalog.create_table(inner.name, kept.live.schema(), location=f"{kept.live.location()}/inner")
    with raises(UpkeepError, table=kept.name, problem="shared-folder", got=(inner.name,)):
        find(kept)
    with raises(UpkeepError, table=inner.name, problem="shared-folder", got=(kept.name,)):
        find(inner)
    overlapping_catalog.drop_table(inner.name)


def test_a_table_whose_metadata_is_lost_may_share_the_folder(kept: Kept, overlapping_catalog: FrazilCatalog) -> None:
    inner = Kept(overlapping_catalog)
    table = overlapping_catalog.create_table(inner.name, kept.live.schema(), location=f"{kept.live.location()}/inner")
    Path(as_path(table.metadata_location)).unlink()
    with raises(UpkeepError, table=inner.name, problem="not-loadable"):
        find(kept)
    overlapping_catalog.drop_table(inner.name)


def test_somebodys_own_hidden_files_stay(kept: Kept) -> None:
    leave(kept, "data/_temporary/0/x.parquet", "metadata/.v1.json.crc")
    assert find(kept).orphans == ()


def test_what_a_killed_compaction_and_a_killed_expiry_left_is_found(kept: Kept) -> None:
    def stop(at: str) -> RetryPolicy:
        def on_step(step: str) -> None:
            if step == at:
                raise KeyboardInterrupt

        return RetryPolicy(on_step=on_step)

    for number in range(10, 16):
        kept.append(number)
    before = kept.on_disk()
    with pytest.raises(KeyboardInterrupt):
        kept.compact(retry=stop("before commit"))
    killed = {as_path(orphan.path) for orphan in find(kept).orphans}
    assert killed == kept.on_disk() - before  # a data file, manifests and their list
    kept.compact()
    with pytest.raises(KeyboardInterrupt):
        kept.expire(now_ms=int(time.time() * 1000 + 10 * DAY_MS), retry=stop("expired, files not removed"))
    plan = find(kept)
    assert len(plan.orphans) > len(killed)
    remove_orphans(kept.live, plan)
    assert (find(kept).orphans, kept.ids()) == ((), [0, 1, 3, 4, 5, *range(10, 16)])
