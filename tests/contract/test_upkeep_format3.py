"""Tables of format 3: rows keep their ids whatever is rewritten, and deletion vectors go with the files that they are
about.
"""

from __future__ import annotations

import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.update import AssertTableUUID, UpgradeFormatVersionUpdate
from pyiceberg.types import LongType, NestedField, TimestampNanoType

from frazil.client import FrazilCatalog
from frazil.client.changes import Change
from frazil.upkeep.deletes import DeleteRewrite, plan_deletes
from frazil.upkeep.manifests import ManifestRewrite, plan_manifests
from frazil.upkeep.policy import DAY_MS, STEPS
from frazil.upkeep.steps import Keeper, now_ms
from frazil.write.commit.totals import TOTALS, count_totals
from tests.contract.upkeep_format3 import Kept3, Lineage
from tests.contract.upkeep_lake import HURRIED, Kept, during


@pytest.fixture
def kept(catalog: FrazilCatalog) -> Kept3:
    """Six files on day 1 and one on day 2, with one deleted row each; all deletion vectors lie in one file."""
    kept = Kept3(catalog).create("day")
    for number in range(6):
        kept.append(number, number + 10)
    kept.append(*range(100, 104), day=2)
    kept.delete(*range(10, 16), 100)
    return kept


LEFT = [*range(6), 101, 102, 103]


def without(lineage: Lineage, *ids: int) -> Lineage:
    return {id: row for id, row in lineage.items() if id not in ids}


def move_main(kept: Kept3, snapshot_id: int) -> None:
    kept.live.manage_snapshots().set_current_snapshot(snapshot_id).commit()


def test_rows_keep_their_ids_and_the_vectors_of_rewritten_files_go(kept: Kept3) -> None:
    before = kept.lineage()
    assert (before[1], before[101]) == ((2, 2), (13, 7))
    result = kept.compact()
    assert (result.groups, result.files_before, result.files_after, result.problems) == (1, 6, 1, ())
    assert kept.lineage() == without(before, *range(10, 16))
    assert (kept.scanned(), kept.vectors()) == (LEFT, 1)  # day 2 is as it was
    summary = kept.summary()
    assert [summary[name] for name in ("removed-dvs", "removed-delete-files", "removed-position-deletes")] == [
        "6",
        "6",
        "6",
    ]


def test_the_size_of_a_deletion_vector_is_that_of_its_blob(kept: Kept3) -> None:
    kept.compact()
    head = kept.live.current_snapshot()
    assert head is not None
    assert {name: kept.summary()[name] for name in TOTALS} == count_totals(kept.live.io, head)


def test_rows_that_were_moved_before_keep_their_ids_again(kept: Kept3) -> None:
    kept.compact()
    before = kept.lineage()
    for number in range(20, 25):
        kept.append(number)
    grown = kept.lineage()
    assert without(grown, *range(20, 25)) == before
    kept.compact()
    assert (kept.lineage(), len(kept.files())) == (grown, 2)


def test_no_row_id_is_given_out_twice(kept: Kept3) -> None:
    kept.compact()
    ManifestRewrite(kept.catalog, kept.identifier, HURRIED).run(
        plan_manifests(kept.live, kept.policy), policy=kept.policy
    )
    kept.append(200, 201)
    numbers = [row_id for row_id, _ in kept.lineage().values()]
    assert len(numbers) == len(set(numbers))


def test_merged_manifests_keep_row_ids_and_vectors(kept: Kept3) -> None:
    before = kept.lineage()
    result = ManifestRewrite(kept.catalog, kept.identifier, HURRIED).run(
        plan_manifests(kept.live, kept.policy), policy=kept.policy
    )
    assert (result.before, result.after) == (7, 1)
    assert (kept.lineage(), kept.scanned(), kept.vectors()) == (before, LEFT, 7)


def test_a_vector_that_comes_meanwhile_makes_it_plan_anew(catalog: FrazilCatalog) -> None:
    kept = Kept3(catalog).create("day")
    for number in range(6):
        kept.append(number, number + 10)
    before = kept.lineage()
    result = kept.compact(retry=during(lambda: kept.delete(3)))
    assert (result.groups, result.overtaken, kept.vectors()) == (1, 0, 0)
    assert kept.lineage() == without(before, 3)


def test_an_append_meanwhile_is_carried_over_with_its_ids(kept: Kept3) -> None:
    before = kept.lineage()
    kept.compact(retry=during(lambda: kept.append(500), "before commit"))
    after = kept.lineage()
    assert without(after, 500) == without(before, *range(10, 16))
    assert after[500][0] not in {row_id for row_id, _ in before.values()}


def test_an_equality_delete_that_comes_meanwhile_holds(kept: Kept3) -> None:
    before = kept.lineage()
    kept.compact(retry=during(lambda: kept.delete_equal(4)))
    assert kept.scanned() == [item for item in LEFT if item != 4]
    assert kept.lineage() == without(before, *range(10, 16))  # 4 is deleted by its value, and still in the file


def test_a_rollback_meanwhile_is_not_undone(kept: Kept3) -> None:
    good = kept.head()
    kept.append(666)
    kept.compact(retry=during(lambda: move_main(kept, good), "before commit"))
    assert kept.scanned() == LEFT


def test_a_vector_whose_file_is_gone_goes_and_its_neighbour_stays(kept: Kept3) -> None:
    kept.append(300, 301, day=2)
    file = next(file for file in kept.files() if kept._positions(kept.live, file, [300]))
    kept.add_vectors([(f"{kept.live.location()}/data/gone.parquet", [0], file), (file.file_path, [0], file)])
    plan = plan_deletes(kept.live, kept.policy)
    assert (len(plan.dangling), plan.merges) == (1, ())
    DeleteRewrite(kept.catalog, kept.identifier, HURRIED).run(kept.live, plan)
    assert (kept.scanned(), kept.vectors()) == ([*LEFT, 301], 8)


@pytest.mark.parametrize("step", ["files written", "before commit", "after commit"])
def test_killed_between_two_steps_the_rows_are_the_same(kept: Kept3, step: str) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    before = without(kept.lineage(), *range(10, 16))
    with pytest.raises(KeyboardInterrupt):
        kept.compact(retry=during(stop, step))
    assert kept.scanned() == LEFT
    kept.compact()
    assert (kept.lineage(), kept.scanned(), kept.plan().groups) == (before, LEFT, ())


def test_all_steps_leave_what_the_table_leads_to_and_nothing_else(kept: Kept3) -> None:
    before = without(kept.lineage(), *range(10, 16))
    (kept.folder / "data" / "left.parquet").write_bytes(b"left")
    keeper = Keeper(kept.catalog, kept.identifier, clock_ms=lambda: now_ms() + 10 * DAY_MS)
    assert [keeper.perform(keeper.plan(step)).problems for step in STEPS] == [()] * len(STEPS)
    assert (kept.lineage(), kept.scanned(), len(kept.live.metadata.snapshots)) == (before, LEFT, 1)
    names = sorted(path.rsplit(".", 1)[1] for path in kept.on_disk() if "/data/" in path)
    assert names == ["parquet", "parquet", "puffin"]
    assert [keeper.plan(step).detail for step in STEPS] == [None] * len(STEPS)


@pytest.fixture
def upgraded(catalog: FrazilCatalog) -> Kept3:
    """Six files of format 2, in a table that has format 3 now: their rows have no ids yet."""
    old = Kept(catalog).create("day")
    for number in range(6):
        old.append(number)
    old.live.manage_snapshots().create_branch(old.head(), "side").commit()
    upgrade = UpgradeFormatVersionUpdate.model_validate({"format-version": 3})
    catalog.commit_changes([Change(old.identifier, (AssertTableUUID(uuid=old.live.metadata.table_uuid),), (upgrade,))])
    return Kept3(catalog, old.name)


def test_rows_without_ids_wait_for_a_writer_to_give_them(upgraded: Kept3) -> None:
    keeper = Keeper(upgraded.catalog, upgraded.identifier)
    assert "leave 6 files as found: each has no row ids" in keeper.plan("compact").lines[0]
    assert keeper.plan("manifests").detail is None
    upgraded.append(6)
    before = upgraded.lineage()
    keeper.perform(keeper.plan("compact"))
    assert (upgraded.lineage(), len(upgraded.files())) == (before, 1)


@pytest.mark.parametrize(
    ("work", "step"), [("compact", "files written"), ("compact", "before commit"), ("manifests", "before commit")]
)
def test_a_branch_that_is_published_meanwhile_keeps_the_ids_that_it_gave(upgraded: Kept3, work: str, step: str) -> None:
    """Main and the branch have given ids to the same files after the upgrade, and not the same ones."""
    upgraded.append(200, day=2, branch="side")
    upgraded.delete_equal(99, partition=(2,))
    ours, published = upgraded.head(), upgraded.head("side")
    move_main(upgraded, published)
    wanted = upgraded.lineage()
    move_main(upgraded, ours)
    assert upgraded.lineage()[3] != wanted[3]
    keeper = Keeper(upgraded.catalog, upgraded.identifier, retry=during(lambda: move_main(upgraded, published), step))
    keeper.perform(keeper.plan(work))
    assert upgraded.lineage() == wanted


def test_columns_that_are_not_written_here_are_named(catalog: FrazilCatalog) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "at", TimestampNanoType()))
    catalog.create_table("lake.nanos", schema, properties={"format-version": "3"})
    keeper = Keeper(catalog, ("lake", "nanos"))
    assert "timestamp_ns" in keeper.plan("compact").lines[0]
