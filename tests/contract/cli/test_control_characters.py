"""Control characters in data do not reach the terminal: they are written out, in results, errors and logs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

import frazil.sinks
from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.cli.main import cli
from frazil.client import FrazilCatalog
from frazil.lake import Lake

EVIL = "\x1b[31m\x1b]0;title\x07 \x9b2J \u202egnp.exe\r\x7f"
SEEN = r"\x1b[31m\x1b]0;title\x07 \x9b2J \u202egnp.exe\x0d\x7f"
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, f"na{EVIL}me", StringType()))


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedCatalog]:
    """`lake.t` has the characters in a value, the name of a column, a snapshot's summary, a branch and quarantine."""
    with running_catalog() as running:
        catalog = FrazilCatalog("lake", **running.properties)
        catalog.create_namespace("lake")
        table = catalog.create_table("lake.t", SCHEMA)
        rows = pa.table({"id": [1], f"na{EVIL}me": [EVIL]}, schema=SCHEMA.as_arrow())
        table.append(rows, snapshot_properties={"spark.app.id": EVIL, "app-id": EVIL})
        snapshot = table.refresh().current_snapshot()
        assert snapshot is not None
        table.manage_snapshots().create_branch(snapshot.snapshot_id, f"b{EVIL}").commit()
        with frazil.sinks.open("lake.t", name="s", catalog=catalog, bad_rows="quarantine", checks=["id > 0"]) as sink:
            sink.write([{"id": -1, f"na{EVIL}me": EVIL}], position=1)
        yield running


@pytest.mark.parametrize(
    "words",
    [
        ("query", "SELECT * FROM lake.t"),
        ("query", "SELECT * FROM lake.t", "--output", "json"),
        ("tables",),
        ("log", "lake.t"),
        ("log", "lake.t", "--output", "json"),
        ("branch", "list", "lake.t"),
        ("quarantine", "list"),
        ("quarantine", "show", "lake.t"),
        ("quarantine", "show", "lake.t", "--output", "json"),
        ("diff", "lake.t", f"b{EVIL}"),
        ("explain", "lake.t"),
        ("audit", "lake.t"),
    ],
)
def test_a_command_prints_no_control_characters(server: EmbeddedCatalog, words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(cli, ["--set", f"catalog.uri={server.uri}", *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert not CONTROLS.search(result.output), repr(result.output)


def test_what_is_printed_says_which_characters_they_are(server: EmbeddedCatalog) -> None:
    words = ["--set", f"catalog.uri={server.uri}", "query", "SELECT * FROM lake.t"]
    result = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert SEEN in result.output
    as_json = CliRunner().invoke(cli, [*words, "--output", "json"], catch_exceptions=False)
    assert json.loads(as_json.output) == [{"id": 1, f"na{EVIL}me": EVIL}]
    as_csv = CliRunner().invoke(cli, [*words, "--output", "csv"], catch_exceptions=False)
    assert EVIL.rstrip("\r\x7f") in as_csv.output  # a file has the values as they are


def test_show_prints_no_control_characters(
    server: EmbeddedCatalog, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    lake = Lake(catalog=FrazilCatalog("lake", **server.properties))
    result = lake.sql("SELECT * FROM lake.t")
    result.show()
    printed = capsys.readouterr().out
    assert (SEEN in printed, CONTROLS.search(printed), CONTROLS.search(repr(result))) == (True, None, None)
    assert not CONTROLS.search(repr(lake.table("lake.t").history()))


@pytest.mark.parametrize(
    "words",
    [
        ("log", f"lake.{EVIL}"),
        ("query", f"SELECT * FROM lake.t AT (VERSION => '{EVIL}')"),
        ("rollback", "lake.t", "--at", EVIL, "--yes"),
        ("-vv", "log", f"lake.{EVIL}"),
    ],
)
def test_an_error_prints_no_control_characters(server: EmbeddedCatalog, words: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "frazil", "--set", f"catalog.uri={server.uri}", *words]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 1
    assert b"error: " in done.stderr
    assert not CONTROLS.search(done.stderr.decode()), done.stderr
