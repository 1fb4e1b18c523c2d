"""The steps together on a real catalog: policies that were declared, companion tables, and a table that is rolled
back later.
"""

from __future__ import annotations

import time

import frazil.sinks
from frazil import Lake, Table, Upkeep, column
from frazil.client import FrazilCatalog
from frazil.sinks.audit import audit
from frazil.tables.apply import apply_steps, plan
from frazil.tables.codegen import write_module
from frazil.upkeep.policy import DAY_MS, STEPS, Policy
from frazil.upkeep.steps import Keeper, now_ms
from tests.contract.upkeep_lake import Kept, rows


def keep(kept: Kept, *, days: float = 10) -> None:
    keeper = Keeper(kept.catalog, kept.identifier, clock_ms=lambda: int(now_ms() + days * DAY_MS))
    for step in STEPS:
        assert keeper.perform(keeper.plan(step)).problems == ()


def test_a_declared_policy_is_applied_imported_and_honoured(catalog: FrazilCatalog) -> None:
    declared = Table(
        "lake.declared", column("id", "long"), upkeep=Upkeep(keep_snapshots=3, keep_days=0.5, orphans_older_than="2h")
    )
    list(apply_steps(plan(declared, catalog), catalog))
    live = catalog.load_table("lake.declared")
    assert Policy.of(live.properties, table="t").min_snapshots == 3
    assert '"history.expire.min-snapshots-to-keep": "3"' in write_module([live])
    changed = Table(
        "lake.declared", column("id", "long"), upkeep=Upkeep(keep_snapshots=4, keep_days=0.5, orphans_older_than="2h")
    )
    assert "history.expire.min-snapshots-to-keep" in str(plan(changed, catalog)[0])
    kept = Kept(catalog, "lake.declared")
    for number in range(6):
        live.refresh().append(rows([number]).select(["id"]))
    keep(kept)
    assert len(kept.live.metadata.snapshots) == 3


def test_a_second_round_finds_nothing_to_do(catalog: FrazilCatalog) -> None:
    kept = Kept(catalog).create("day")
    for number in range(6):
        kept.append(number, number + 10)
    kept.delete(3)
    keep(kept)
    before = kept.on_disk()
    keeper = Keeper(catalog, kept.identifier, clock_ms=lambda: now_ms() + 10 * DAY_MS)
    assert [keeper.plan(step).detail for step in STEPS] == [None] * len(STEPS)
    assert kept.on_disk() == before


def test_a_quarantine_tells_of_its_table_as_long_as_that_can_be_rolled_back(catalog: FrazilCatalog) -> None:
    """The table keeps a month, its quarantine has no policy of its own, and would forget after five days."""
    kept = Kept(catalog).create(properties={"history.expire.max-snapshot-age-ms": str(30 * DAY_MS)})
    with frazil.sinks.open(kept.name, name="s", catalog=catalog, bad_rows="quarantine", checks=["id < 100"]) as sink:
        for number in (1, 2, 3):
            sink.write(rows([number, 100 + number]), position=number)
            sink.commit()
            time.sleep(0.01)
    quarantine = Kept(catalog, f"{kept.name}__quarantine")
    wanted = [entry.snapshot_id for entry in kept.live.history()][2]
    keep(kept)
    keep(quarantine)
    held = Lake(catalog=catalog).table(kept.name)
    assert held.plan_rollback(wanted).progress_known
    held.rollback(wanted, with_progress=True)
    assert (kept.ids(), quarantine.live.scan().to_arrow().num_rows) == ([1, 2], 2)


def test_after_upkeep_a_table_can_be_rolled_back_with_its_progress(catalog: FrazilCatalog) -> None:
    kept = Kept(catalog).create("day")
    with frazil.sinks.open(kept.name, name="s", catalog=catalog) as sink:
        for number in range(6):
            sink.write(rows([number]), position=number + 1)
            sink.commit()
    keep(kept)  # one snapshot is left, upkeep's own: it says what the progress is
    compacted = kept.head()
    with frazil.sinks.open(kept.name, name="s", catalog=catalog) as sink:
        sink.write(rows([6]), position=7)
    Lake(catalog=catalog).table(kept.name).rollback(compacted, with_progress=True)
    with frazil.sinks.open(kept.name, name="s", catalog=catalog) as sink:
        assert sink.offset == 6
    assert (kept.ids(), audit(kept.live.metadata).problems) == (list(range(6)), ())
