"""`frazil quarantine` and `frazil audit`: what they print, ask and end with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from deltalake import DeltaTable
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, LongType, NestedField

import frazil.sinks
from frazil.catalog.embedded import EmbeddedCatalog
from frazil.cli.main import cli
from frazil.client import FrazilCatalog
from frazil.errors import FrazilError
from frazil.sinks.delta.target import create_delta_table

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "amount", DecimalType(12, 2)))
ROWS = [{"id": 1, "amount": 5}, {"id": 2, "amount": -5}, {"id": 3, "amount": "x"}, {"id": 4, "amount": -7}]


@pytest.fixture
def table(lake_server: EmbeddedCatalog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """A table with one row in it and three in quarantine; the settings lead to its catalog."""
    monkeypatch.setenv("FRAZIL_CATALOG__URI", lake_server.uri)
    monkeypatch.chdir(tmp_path)
    catalog = FrazilCatalog("lake", **lake_server.properties)
    catalog.create_table("lake.sales", SCHEMA)
    fill(frazil.sinks.open("lake.sales", name="s", catalog=catalog, bad_rows="quarantine", checks=["amount >= 0"]))
    yield "lake.sales"
    for name in ("lake.sales", "lake.sales__quarantine"):
        catalog.drop_table(name)


@pytest.fixture
def delta(tmp_path: Path) -> str:
    uri = str(tmp_path / "sales")
    create_delta_table(uri, SCHEMA)
    fill(frazil.sinks.open(uri, name="s", bad_rows="quarantine", checks=["amount >= 0"]))
    return uri


def fill(sink: Any) -> None:
    with sink:
        sink.write_with_offsets(ROWS, source="events", offsets=[10, 11, 12, 13])


def run(*arguments: str, answer: str | None = None) -> Result:
    return CliRunner().invoke(cli, list(arguments), input=answer)


def ids(lake_server: EmbeddedCatalog) -> list[int]:
    return sorted(
        FrazilCatalog("lake", **lake_server.properties).load_table("lake.sales").scan().to_arrow()["id"].to_pylist()
    )


def test_list_says_how_much_and_why(table: str) -> None:
    for arguments in ([], ["lake"], [table], [f"{table}__quarantine"]):
        printed = run("quarantine", "list", *arguments).output
        assert "lake.sales" in printed
        assert "2 x check 'amount >= 0' failed" in printed
        assert "1 x field 'amount': expected decimal(12, 2)" in printed
    (result,) = json.loads(run("quarantine", "list", "--output", "json").output)
    assert (result["table"], result["rows"], result["oldest"]) == ("lake.sales", 3, result["newest"])


def test_a_table_without_quarantine_says_that_nothing_was_ever_quarantined(
    table: str, lake_server: EmbeddedCatalog
) -> None:
    FrazilCatalog("lake", **lake_server.properties).create_table_if_not_exists("lake.calm", SCHEMA)
    result = run("quarantine", "list", "lake.calm")
    assert (result.exit_code, result.output) == (0, "nothing was ever quarantined in lake.calm\n")
    assert run("quarantine", "show", "lake.calm").output == "lake.calm: 0 rows in quarantine\n"


def test_a_table_that_is_not_there_is_reported_with_similar_names(table: str) -> None:
    for command in (["quarantine", "list"], ["quarantine", "show"], ["quarantine", "replay"], ["audit"]):
        result = run(*command, "lake.sails")
        assert isinstance(result.exception, FrazilError)
        assert (result.exception.message, "lake.sales" in str(result.exception.hint)) == (
            "Table does not exist: lake.sails",
            True,
        )


def test_show_prints_the_row_its_reason_and_its_place(table: str) -> None:
    printed = run("quarantine", "show", table, "--reason", "expected").output.splitlines()
    assert printed[0].endswith('s/part-0  {"source":"events","offset":12}')
    assert printed[1:] == [
        "  field 'amount': expected decimal(12, 2), got 'x'",
        '  {"id": 3, "amount": "x"}',
        "",
        "lake.sales: 1 row in quarantine",
    ]
    assert run("quarantine", "show", table, "--limit", "2").output.endswith(
        "lake.sales: 3 rows in quarantine; --limit shows more than 2\n"
    )
    assert run("quarantine", "show", table, "--part", "s/part-7").output == "lake.sales: 0 rows in quarantine\n"


def test_replay_brings_in_what_passes_and_says_what_does_not(table: str, lake_server: EmbeddedCatalog) -> None:
    dry = run("quarantine", "replay", table, "--check", "amount > -6", "--dry-run").output
    assert dry.splitlines()[0] == "lake.sales: 1 row would come in; 2 rows would stay in quarantine"
    printed = run("quarantine", "replay", table, "--check", "amount > -6").output
    assert "1 row is in the table now, snapshot" in printed
    assert "       1 x check 'amount > -6' failed" in printed
    assert ids(lake_server) == [1, 2]


def test_replay_holds_the_checks_of_lakehouse_py(table: str, lake_server: EmbeddedCatalog, tmp_path: Path) -> None:
    assert "0 rows are in the table now; 3 rows stay" in run("quarantine", "replay", table).output
    declared = (
        'from frazil import Table, column\nt = Table("lake.sales", column("id", "long", required=True), '
        'column("amount", "decimal(12,2)")'
    )
    (tmp_path / "lakehouse.py").write_text(declared + ', checks=["amount > -6"])\n')
    assert json.loads(run("quarantine", "replay", table, "--output", "json").output)["replayed"] == 1
    (tmp_path / "lakehouse.py").write_text(declared + ")\n")
    assert json.loads(run("quarantine", "replay", table, "--output", "json").output)["replayed"] == 1
    assert ids(lake_server) == [1, 2, 4]


def test_rows_are_edited_in_a_file(table: str, lake_server: EmbeddedCatalog, tmp_path: Path) -> None:
    shown = json.loads(run("quarantine", "show", table, "--reason", "expected", "--output", "json").output)
    shown[0]["raw"]["amount"] = "3.50"
    (tmp_path / "edited.json").write_text(json.dumps([*shown, {"id": "none", "raw": {}}]))
    printed = run("quarantine", "replay", table, "--from", "edited.json").output
    assert "1 row is in the table now" in printed
    assert "1 edited row not in quarantine any more: none" in printed
    assert ids(lake_server) == [1, 3]
    (tmp_path / "edited.json").write_text("{}")
    assert "is no list of quarantined rows" in str(
        run("quarantine", "replay", table, "--from", "edited.json").exception
    )


def test_drop_shows_asks_and_drops(table: str) -> None:
    refused = run("quarantine", "drop", table, "--reason", ">= 0", answer="n\n")
    assert "lake.sales: 2 rows would be dropped\n       2 x check 'amount >= 0' failed" in refused.output
    assert run("quarantine", "show", table).output.endswith("3 rows in quarantine\n")
    done = run("quarantine", "drop", table, "--reason", ">= 0", answer="y\n")
    assert "lake.sales: 2 rows dropped; older snapshots hold them until they expire" in done.output
    assert json.loads(run("quarantine", "drop", table, "--all", "--yes", "--output", "json").stdout) == {
        "table": table,
        "dropped": 1,
    }


def test_drop_wants_to_know_which(table: str) -> None:
    for arguments in ([], ["--all", "--reason", "x"]):
        result = run("quarantine", "drop", table, *arguments)
        assert (result.exit_code, "say which rows: --reason TEXT, --part PART, or --all" in result.output) == (2, True)


def test_a_delta_table_is_known_by_its_path(delta: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (delta, f"{delta}__quarantine"):
        assert "2 x check 'amount >= 0' failed" in run("quarantine", "list", name).output
    assert run("quarantine", "show", "sales", "--delta").output.endswith("sales: 3 rows in quarantine\n")
    assert (
        "1 row is in the table now; 2 rows stay in quarantine"
        in run("quarantine", "replay", delta, "--check", "amount > -6").output
    )
    assert "2 rows dropped; older versions hold them" in run("quarantine", "drop", delta, "--all", "--yes").output
    assert sorted(DeltaTable(delta).to_pyarrow_table()["id"].to_pylist()) == [1, 2]
    assert "is not there" in str(run("quarantine", "list", f"{delta}_not").exception)


def test_audit_prints_its_proof(table: str) -> None:
    run("quarantine", "replay", table, "--check", "amount > -6")
    result = run("audit", table)
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[:5] == [
        "lake.sales: every range follows the one before; none overlap",
        "3 commits of sinks and 0 others were looked at, from the first one on",
        "  s/part-0: 1 commit that consumed",
        "    events: its beginning -> 14",
        "notes:",
    ]
    assert lines[5].endswith(": 1 row came out of quarantine")


def test_audit_ends_with_1_when_something_speaks_against_it(table: str, lake_server: EmbeddedCatalog) -> None:
    catalog = FrazilCatalog("lake", **lake_server.properties)
    with catalog.load_table(table).transaction() as change:
        change.set_properties({"frazil.progress.main": '{"v":1,"parts":{}}'})
    result = run("audit", table, "--output", "json")
    document = json.loads(result.output)
    assert (result.exit_code, document["clean"], len(document["problems"])) == (1, False, 1)
    assert run("audit", table).output.startswith("lake.sales: 1 problem\n")


def test_audit_of_what_is_not_there_or_has_no_sink(table: str, delta: str, lake_server: EmbeddedCatalog) -> None:
    assert "there is no branch or tag 'x'" in str(run("audit", table, "--ref", "x").exception)
    assert run("audit", delta, "--ref", "x").exit_code == 2
    assert run("audit", delta).output.startswith(f"{delta}: every range follows the one before")
    FrazilCatalog("lake", **lake_server.properties).create_table_if_not_exists("lake.calm", SCHEMA)
    assert run("audit", "lake.calm").output == "lake.calm: no sink has written to it; there is nothing to prove\n"
