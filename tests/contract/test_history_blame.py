"""Where rows came from, on a real catalog: through compaction, upserts and deletes, to runs, offsets, other tables."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from frazil.client import FrazilCatalog
from frazil.errors import ArgumentError, CheckError, HistoryError, ScanError
from frazil.history import InputTable, LandingFile, OffsetRange, Origins, RowBlame, Run
from frazil.lake import Lake
from tests.contract.history_lake import Past, rows
from tests.contract.upkeep_format3 import Kept3
from tests.kit.raising import raises


def compact(past: Past) -> int:
    past.table.maintain("compact", dry_run=False, rewrite_all=True)
    return past.head()


def only(past: Past, where: str) -> RowBlame:
    (row,) = past.table.blame(where).rows
    return row


def sources(row: RowBlame) -> list[int | None]:
    return [source.snapshot_id for source in row.sources]


def rewritten_by(row: RowBlame) -> list[int]:
    return [entry.snapshot_id for entry in row.rewritten_by]


def test_a_row_is_blamed_on_the_append_that_brought_it(past: Past) -> None:
    first, second = past.append(1, 2), past.append(3)
    result = past.table.blame("id >= 2")
    assert sorted((row.values["id"], row.position, *sources(row)) for row in result.rows) == [
        (2, 1, first),
        (3, 0, second),
    ]
    assert (result.more, result.snapshot_id, only(past, "id = 2").rewritten_by) == (False, second, ())


def test_compaction_is_followed_to_where_the_row_came_in(past: Past) -> None:
    adders = {number: past.append(number) for number in range(3)}
    once = compact(past)
    adders[3] = past.append(3)
    twice = compact(past)
    rows = {row.values["id"]: row for row in past.table.blame("id >= 0").rows}
    assert {number: sources(row) for number, row in rows.items()} == {number: [at] for number, at in adders.items()}
    assert (rewritten_by(rows[0]), rewritten_by(rows[3])) == ([twice, once], [twice])
    assert {source.doubt for row in rows.values() for source in row.sources} == {""}


def test_an_upsert_is_blamed_for_the_rows_that_it_changed_and_not_for_those_it_rewrote(past: Past) -> None:
    first = past.append(1, 2)
    past.table.upsert(rows(2, 3, name="new"), key="id")
    upserted = past.head()
    past.live.delete("id = 3")
    deleted = past.head()
    assert {row.values["id"]: sources(row) for row in past.table.blame("id > 0").rows} == {1: [first], 2: [upserted]}
    assert rewritten_by(only(past, "id = 1"))[-1] == upserted
    assert sources(only(past, "id = 2")) == [upserted]
    assert sources(past.table.blame("id = 3", at=upserted).rows[0]) == [upserted]
    assert past.table.blame("id = 3", at=deleted).rows == ()


def test_identical_rows_are_not_distinguished(past: Past) -> None:
    first, second = past.append(7), past.append(7)
    past.append(8)
    compact(past)
    blamed = past.table.blame("id = 7").rows
    assert [sources(row) for row in blamed] == [[second, first]] * 2
    assert sources(only(past, "id = 8")) == [past.table.history()[1].snapshot_id]


def test_a_rollback_brings_rows_back_that_keep_their_origin(past: Past) -> None:
    first = past.append(1)
    past.live.overwrite(rows(2))
    past.table.rollback(first)
    assert sources(only(past, "id = 1")) == [first]


def test_expired_history_is_reported_with_what_is_still_known(past: Past) -> None:
    first = past.append(1)
    runs = pa.table({"run_id": ["r1"], "pipeline": ["daily"], "snapshot_id": [first]})
    past.catalog.create_table(f"{past.name}__runs", runs.schema).append(runs)
    past.append(2)
    compacted = compact(past)
    past.append(3)
    past.expire([first])
    (source,) = only(past, "id = 1").sources
    assert (source.snapshot_id, source.entry, source.origins) == (first, None, Origins(run=Run("daily", "r1")))
    assert "expired" in source.doubt
    past.expire(
        [entry.snapshot_id for entry in past.table.history() if entry.snapshot_id not in (compacted, past.head())]
    )
    (source,) = only(past, "id = 1").sources
    assert (source.snapshot_id, bool(source.doubt)) == (compacted, True)
    assert only(past, "id = 3").sources[0].doubt == ""


def test_a_run_is_named_with_its_landing_files(past: Past) -> None:
    snapshot_id = past.append(1)
    runs = pa.table(
        {"run_id": ["r1", "r2"], "pipeline": ["daily"] * 2, "snapshot_id": [snapshot_id, 5], "files": [2, 1]}
    )
    past.catalog.create_table(f"{past.name}__runs", runs.schema).append(runs)
    files = {"path": ["b.csv", "a.csv", "c.csv"], "size": [2, 1, 3], "run_id": ["r1", "r1", "r2"]}
    ledger = pa.table({"pipeline": ["daily"] * 3, **files})
    past.catalog.create_table(f"{past.name}__ledger", ledger.schema).append(ledger)
    (source,) = only(past, "id = 1").sources
    assert source.origins == Origins(
        run=Run("daily", "r1", None, 2), files=(LandingFile("a.csv", 1), LandingFile("b.csv", 2))
    )


def test_the_line_of_a_landing_file_is_the_one_that_has_the_rows_values(past: Past, tmp_path: Path) -> None:
    """`name` was changed by the pipeline: no line has it. An empty line is no row, but it is a line."""
    snapshot_id = past.append(1, 2, 7)
    runs = pa.table({"run_id": ["r1"], "pipeline": ["daily"], "snapshot_id": [snapshot_id], "files": [2]})
    past.catalog.create_table(f"{past.name}__runs", runs.schema).append(runs)
    landed = {"a.csv": "id,name\n1,A\n\n2,B\n", "b.json": '{"id": 7, "name": "C"}\n{"id": 1, "name": "A"}\n'}
    for name, text in landed.items():
        (tmp_path / name).write_text(text)
    ledger = pa.table({"path": [*landed], "size": [len(text) for text in landed.values()], "run_id": ["r1"] * 2})
    past.catalog.create_table(f"{past.name}__ledger", ledger.schema).append(ledger)

    def lines() -> dict[int, list[tuple[str, tuple[int, ...]]]]:
        blamed = past.table.blame("id > 0", project=tmp_path).rows
        return {r.values["id"]: [(f.path, f.lines) for f in r.sources[0].origins.files] for r in blamed}

    assert lines() == {
        1: [("a.csv", (2,)), ("b.json", (2,))],
        2: [("a.csv", (4,)), ("b.json", ())],
        7: [("a.csv", ()), ("b.json", (1,))],
    }
    (tmp_path / "a.csv").write_text("id,name\n1,A\n2,B\n")
    assert lines()[7] == [("a.csv", ()), ("b.json", ())]  # it is not what was loaded


def test_rows_that_were_staged_came_with_the_commit_that_published_them(past: Past) -> None:
    past.append(1)
    past.live.append(rows(2), snapshot_properties={"frazil.staged-by": "daily"})
    staged = past.head()
    claim = {"part": "daily", "commit": 4, "from": {"uplink@Xf3k9aQ2/0": 3}, "to": {"uplink@Xf3k9aQ2/0": 9}}
    past.live.append(rows(), snapshot_properties={"frazil.commit": json.dumps(claim)})
    (source,) = only(past, "id = 2").sources
    assert (source.snapshot_id, source.origins) == (
        staged,
        Origins(part="daily", commit=4, offsets=(OffsetRange("uplink@Xf3k9aQ2/0", 3, 9),)),
    )
    assert source.origins.offsets[0].partition == "uplink/0"


def test_a_table_that_was_made_from_others_leads_to_their_sources(past: Past) -> None:
    orders = Past(past.catalog)
    orders.create()
    with orders.sink("kafka") as sink:
        first, second = orders.fill(sink, 2, 4)
    for commit, read in ((1, first), (2, second)):
        claim = {"part": "model", "commit": commit, "from": {}, "to": {}, "inputs": {orders.name: read, "lake.gone": 5}}
        past.live.append(rows(commit), snapshot_properties={"frazil.commit": json.dumps(claim)})
    (source,) = only(past, "id = 2").sources
    gone, upstream = sorted(source.upstream, key=lambda table: table.input.table == orders.name)
    assert upstream.input == InputTable(orders.name, second, first)
    assert [(new.snapshot_id, new.origins.offsets) for new in upstream.snapshots] == [
        (second, (OffsetRange("0", 2, 4),))
    ]
    assert (gone.input, gone.snapshots, gone.problem) == (
        InputTable("lake.gone", 5, 5),
        (),
        "the table does not exist any more",
    )
    (earlier,) = only(past, "id = 1").sources
    assert [[new.snapshot_id for new in table.snapshots] for table in earlier.upstream if table.snapshots] == [[first]]


def test_row_lineage_of_format_3_leads_to_the_last_change(catalog: FrazilCatalog) -> None:
    kept = Kept3(catalog).create()
    adders = {number: kept.append(number) for number in range(3)}
    kept.delete(1)
    assert kept.compact().files_after == 1
    compacted = kept.head()
    blamed = Lake(catalog=catalog).table(kept.name).blame("id <> 1").rows
    assert {row.values["id"]: (row.row_id, sources(row), rewritten_by(row)) for row in blamed} == {
        number: (number, [adders[number]], [compacted]) for number in (0, 2)
    }


def test_the_limit_and_the_columns_say_what_is_shown(past: Past) -> None:
    past.append(*range(5))
    result = past.table.blame("id < 4", limit=2, columns="name")
    assert ([row.values for row in result.rows], result.more) == ([{"name": "n0"}, {"name": "n1"}], True)
    assert past.table.blame("id < 4", limit=4).more is False


def test_blame_refuses_what_it_cannot_answer(past: Past) -> None:
    with raises(HistoryError, table=past.name):
        past.table.blame("id = 1")
    past.append(1)
    with raises(CheckError, column="nope"):
        past.table.blame("nope = 1")
    with raises(CheckError, problem="always-null"):
        past.table.blame("id = NULL")
    with raises(ScanError, column="nope"):
        past.table.blame("id = 1", columns=["nope"])
    with raises(HistoryError, snapshot=17):
        past.table.blame("id = 1", at=17)
    with raises(ArgumentError, option="limit"):
        past.table.blame("id = 1", limit=0)
