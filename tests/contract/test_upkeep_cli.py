"""`frazil maintain` on a real catalog: it says first, asks before it removes, and does what it said."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from frazil.catalog.embedded import EmbeddedCatalog
from frazil.cli.main import cli
from frazil.client import FrazilCatalog
from tests.contract.upkeep_lake import Kept
from tests.kit.raising import raises


@pytest.fixture
def kept(lake_server: EmbeddedCatalog) -> Kept:
    """Six small files; all snapshots but the newest may go."""
    kept = Kept(FrazilCatalog("lake", **lake_server.properties))
    kept.create("day", properties={"history.expire.max-snapshot-age-ms": "0"})
    for number in range(6):
        kept.append(number)
    return kept


def maintain(lake_server: EmbeddedCatalog, *words: str) -> Result:
    return CliRunner().invoke(
        cli, ["--set", f"catalog.uri={lake_server.uri}", "maintain", *words], catch_exceptions=False
    )


def test_a_dry_run_says_what_it_would_do_and_does_nothing(lake_server: EmbeddedCatalog, kept: Kept) -> None:
    before = kept.on_disk()
    result = maintain(lake_server, kept.name, "--dry-run")
    assert result.exit_code == 0
    assert "rewrite 6 data files" in result.output
    assert "into about 1" in result.output
    assert "expire 5 snapshots older than 0 minutes, keep 1" in result.output
    assert (kept.on_disk(), len(kept.live.history())) == (before, 6)


def test_all_steps_leave_a_healthy_table(lake_server: EmbeddedCatalog, kept: Kept) -> None:
    result = maintain(lake_server, kept.name, "--yes")
    assert result.exit_code == 0, result.output
    assert (kept.ids(), len(kept.paths()), len(kept.live.metadata.snapshots)) == (list(range(6)), 1, 1)
    assert "done: rewrote 6 data files" in result.output
    again = maintain(lake_server, kept.name, "--yes")
    assert again.stdout.splitlines()[0] == f"{kept.name}  nothing to do"


def test_some_steps_alone(lake_server: EmbeddedCatalog, kept: Kept) -> None:
    assert maintain(lake_server, kept.name, "--only", "compact").exit_code == 0
    assert (len(kept.paths()), len(kept.live.history())) == (1, 7)


def test_nothing_is_removed_without_a_terminal(lake_server: EmbeddedCatalog, kept: Kept) -> None:
    from frazil.errors import UpkeepError

    with raises(UpkeepError, problem="no-terminal"):
        maintain(lake_server, kept.name)
    assert len(kept.live.history()) == 6


@pytest.mark.parametrize(("answer", "left"), [(b"n\n", 6), (b"y\n", 1)])
def test_it_asks_before_it_removes(lake_server: EmbeddedCatalog, kept: Kept, answer: bytes, left: int) -> None:
    terminal, stdin = pty.openpty()
    os.write(terminal, answer)
    words = [
        sys.executable,
        "-m",
        "frazil",
        "--set",
        f"catalog.uri={lake_server.uri}",
        "maintain",
        kept.name,
        "--only",
        "expire",
    ]
    done = subprocess.run(words, stdin=stdin, capture_output=True, text=True, check=True)
    for end in (terminal, stdin):
        os.close(end)
    assert f"expire {kept.name}? [y/N]" in done.stderr
    assert ("left as it is" in done.stdout) == (left == 6)
    assert len(kept.live.metadata.snapshots) == left


def test_programs_get_json(lake_server: EmbeddedCatalog, kept: Kept) -> None:
    document = json.loads(maintain(lake_server, kept.name, "--yes", "--output", "json").stdout)
    assert [entry["step"] for entry in document] == ["compact", "deletes", "manifests", "indexes", "expire", "orphans"]
    assert [(entry["done"], entry["snapshots"]) for entry in document if entry["step"] == "expire"] == [(True, 6)]


def test_without_a_name_the_projects_tables_are_meant(
    lake_server: EmbeddedCatalog, kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quarantine = Kept(kept.catalog, f"{kept.name}__quarantine").create()
    Kept(kept.catalog).create()
    (tmp_path / "lakehouse.py").write_text(
        f'from frazil import Table, column\nt = Table("{kept.name}", column("id", "long"))\n'
    )
    monkeypatch.chdir(tmp_path)
    document = json.loads(maintain(lake_server, "--dry-run", "--only", "compact", "--output", "json").stdout)
    assert [entry["table"] for entry in document] == [kept.name, quarantine.name]


def test_a_table_that_fails_does_not_stop_the_others(lake_server: EmbeddedCatalog, kept: Kept) -> None:
    bad = Kept(kept.catalog).create(properties={"history.expire.min-snapshots-to-keep": "none"})
    result = maintain(lake_server, bad.name, kept.name, "--yes")
    assert (result.exit_code, len(kept.paths())) == (1, 1)
    assert "min-snapshots-to-keep" in result.output


def test_a_name_that_is_no_step_is_refused(lake_server: EmbeddedCatalog) -> None:
    result = maintain(lake_server, "--only", "compact,vacuum")
    assert result.exit_code == 2
    assert "'vacuum' is no step" in result.output
