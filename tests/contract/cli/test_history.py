"""The commands about a table's past: what a person reads, what a program reads, and what is asked before something is
undone.
"""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from frazil.catalog.embedded import running_catalog
from frazil.cli.main import cli
from frazil.client import FrazilCatalog
from frazil.errors import HistoryError, QueryError
from tests.contract.history_lake import Past
from tests.kit.raising import raises


@dataclass
class Shell:
    """`frazil` on a running catalog."""

    uri: str
    past: Past

    def run(self, *arguments: str) -> Result:
        result = CliRunner().invoke(cli, ["--set", f"catalog.uri={self.uri}", *arguments])
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def said(self, *arguments: str) -> str:
        result = self.run(*arguments)
        assert result.exit_code == 0, result.output
        return result.output

    def json(self, *arguments: str) -> Any:
        return json.loads(self.said(*arguments, "--output", "json"))

    def typed(self, *arguments: str, answers: str, cwd: Path) -> str:
        """What is said on a terminal where a user types the answers."""
        ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "frazil", "--set", f"catalog.uri={self.uri}", *arguments]
        with subprocess.Popen(
            command, cwd=cwd, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            os.write(ours, answers.encode())
            output, _ = process.communicate(timeout=120)
        os.close(ours)
        os.close(theirs)
        return output


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, FrazilCatalog]]:
    with running_catalog() as running:
        catalog = FrazilCatalog("lake", **running.properties)
        catalog.create_namespace("lake")
        yield running.uri, catalog


@pytest.fixture
def shell(server: tuple[str, FrazilCatalog]) -> Shell:
    past = Past(server[1])
    past.create()
    return Shell(server[0], past)


def test_log_prints_a_line_a_snapshot(shell: Shell) -> None:
    past = shell.past
    assert shell.said("log", past.name) == f"{past.name} has no snapshots yet\n"
    with past.sink("orders") as sink:
        _, last = past.fill(sink, 3, 5)
    past.table.create_tag("v1")
    newest = [cell.strip() for cell in shell.said("log", past.name).splitlines()[3].split("  ") if cell.strip()]
    assert (newest[0], newest[2:6]) == (str(last), ["append", "+2", "+1", "5"])
    assert newest[6:] == ["2", "orders/part-0 commit 2", "main, tag: v1"]
    (entry,) = shell.json("log", past.name, "-n", "1")
    assert (entry["snapshot_id"], entry["added_rows"], entry["refs"]) == (last, 2, ["main", "tag: v1"])


def test_diff_prints_what_changed_and_the_rows_by_key(shell: Shell) -> None:
    past = shell.past
    first = past.append(1, 2)
    past.live.delete("id = 1")
    past.append(3)
    said = shell.said("diff", past.name, str(first), "main", "--key", "id", "--files").splitlines()
    assert said[0] == f"{past.name}: snapshot {first} -> branch main (snapshot {past.head()})"
    assert [line.split(", ")[0] for line in said[1:3]] == ["  + 2 data files", "  - 1 data file"]
    assert sum(line.startswith("    + file:") for line in said) == 2
    assert said[-4:] == [
        "  rows in data files: 2 -> 2",
        f"rows by key: 1 added, 1 removed, 0 changed ({3} files read)",
        "  - id=1: name=n1",
        "  + id=3: name=n3",
    ]
    document = shell.json("diff", past.name, str(first), "--key", "id", "--limit", "1")
    assert (document["after"]["kind"], document["rows"]["removed"], len(document["rows"]["rows"])) == ("branch", 1, 1)
    assert shell.said("diff", past.name, "main", "main").splitlines()[1] == "no difference"


def test_rollback_shows_what_goes_and_does_it(shell: Shell) -> None:
    past = shell.past
    first, second = past.append(1), past.append(2, 3)
    said = shell.said("rollback", past.name, "--to", str(first), "--yes").splitlines()
    assert said[1:4] == [
        "  1 snapshot undone:",
        said[2],
        "  1 data file (2 rows) go, 0 data files (0 rows) come back; no file is deleted",
    ]
    assert said[2].startswith(f"    {second}  20")
    assert said[-1].endswith(f"to undo this: frazil rollback {past.name} --to {second}")
    assert past.ids() == [1]


@pytest.mark.parametrize("option", ["--to", "--at"])
def test_rollback_takes_every_kind_of_snapshot_reference(shell: Shell, option: str) -> None:
    past = shell.past
    first = past.append(1)
    shell.said("tag", "create", past.name, "v1")
    shell.said("branch", "create", past.name, "dev")
    time = shell.json("log", past.name)[0]["time"]
    for reference in (str(first), "v1", "dev", time):
        past.append(2, 3)
        shell.said("rollback", past.name, option, reference, "--yes")
        assert past.ids() == [1]
    with raises(HistoryError, table=past.name, ref="nope"):
        shell.run("rollback", past.name, option, "nope", "--yes")


@pytest.mark.parametrize("words", [(), ("--to", "v1", "--at", "v1")])
def test_rollback_needs_one_reference(shell: Shell, words: tuple[str, ...]) -> None:
    shell.past.append(1)
    with raises(HistoryError, option="at"):
        shell.run("rollback", shell.past.name, *words, "--yes")


def test_without_a_terminal_rollback_says_what_to_add_and_changes_nothing(shell: Shell) -> None:
    past = shell.past
    with past.sink() as sink:
        first, last = past.fill(sink, 3, 5)
    with raises(HistoryError, table=past.name, problem="progress-undecided"):
        shell.run("rollback", past.name, "--to", str(first), "--yes")
    with raises(HistoryError, problem="no-terminal"):
        shell.run("rollback", past.name, "--to", str(first), "--with-progress")
    assert past.head() == last


def test_on_a_terminal_rollback_asks_about_progress_and_then_whether(shell: Shell, tmp_path: Path) -> None:
    past = shell.past
    with past.sink() as sink:
        first, last = past.fill(sink, 3, 5)
    refused = shell.typed("rollback", past.name, "--to", str(first), answers="with-progress\nn\n", cwd=tmp_path)
    assert (refused.splitlines()[-1].endswith("nothing was changed"), past.head()) == (True, last)
    assert "sink part s/part-0: now 0=5, then 0=3" in refused
    shell.typed("rollback", past.name, "--to", str(first), answers="with-progress\ny\n", cwd=tmp_path)
    with past.sink() as again:
        assert (past.ids(), again.offset) == ([0, 1, 2], 3)


def test_bringing_rows_back_warns_of_those_that_would_come_twice(shell: Shell) -> None:
    past = shell.past
    with past.sink() as sink:
        first, last = past.fill(sink, 3, 5)
    shell.said("rollback", past.name, "--to", str(first), "--with-progress", "--yes")
    said = shell.said("rollback", past.name, "--to", str(last), "--with-progress", "--yes")
    assert "--keep-progress: they stay where they are; what is brought back is written a second time" in said


def test_branches_and_tags_are_made_listed_published_and_dropped(shell: Shell) -> None:
    past = shell.past
    first = past.append(1)
    assert shell.said(
        "branch", "create", past.name, "dev", "--min-snapshots", "3", "--max-snapshot-age", "7d"
    ).endswith(f"snapshot {first}\n")
    shell.said("tag", "create", past.name, "v1", "--at", "dev", "--max-ref-age", "90m")
    (_, dev) = shell.json("branch", "list", past.name)
    assert dev["retention"] == {"max_ref_age_ms": None, "max_snapshot_age_ms": 604_800_000, "min_snapshots_to_keep": 3}
    assert shell.said("tag", "list", past.name).splitlines()[3].split()[-2:] == ["for", "90m"]
    past.append(2, branch="dev")
    with raises(HistoryError, problem="no-terminal"):
        shell.run("branch", "publish", past.name, "dev")
    assert "1 snapshot of 'dev'" in shell.said("branch", "publish", past.name, "dev", "--yes")
    shell.said("branch", "drop", past.name, "dev", "--yes")
    shell.said("tag", "drop", past.name, "v1", "--yes")
    assert (past.ids(), list(past.live.metadata.refs)) == ([1, 2], ["main"])
    assert shell.said("tag", "list", past.name) == f"{past.name} has no tags\n"


def test_an_age_that_is_none_is_refused(shell: Shell) -> None:
    result = shell.run("tag", "create", shell.past.name, "v1", "--max-ref-age", "soon")
    assert (result.exit_code, "'soon' is not an age: 30m, 24h or 7d" in result.output) == (2, True)


def test_query_prints_tables_json_and_csv(shell: Shell) -> None:
    past = shell.past
    first = past.append(1, 2)
    past.append(3)
    sql = f"SELECT id, name FROM {past.name} ORDER BY id"
    assert shell.said("query", sql, "--output", "csv", "--snapshot", str(first)) == "id,name\n1,n1\n2,n2\n"
    assert shell.json("query", sql, "--limit", "2") == [{"id": 1, "name": "n1"}, {"id": 2, "name": "n2"}]
    assert shell.json("query", sql)[-1] == {"id": 3, "name": "n3"}
    assert [line.split() for line in shell.said("query", sql, "--ref", "main").splitlines()[3:6]] == [
        ["1", "n1"],
        ["2", "n2"],
        ["3", "n3"],
    ]
    with raises(QueryError, problem="exclusive-options"):
        shell.run("query", sql, "--ref", "main", "--at", "2024-01-18")


# --- bisect and blame ------------------------------------------------------------------------------------------------


def test_bisect_names_the_snapshot_its_rows_and_what_to_run_next(shell: Shell) -> None:
    past = shell.past
    good, bad = past.append(1), past.append(2, 200, 201)
    past.append(3)
    result = shell.run("bisect", past.name, "--check", "id < 100", "--samples", "1")
    assert (result.exit_code, result.stderr.splitlines()[0]) == (0, f"snapshot {bad} (2 of 3) fails")
    lines = result.stdout.splitlines()
    assert lines[0] == f"{past.name}: snapshot {bad} is the first that fails: id < 100"
    assert [line.strip().partition("  (")[0] for line in lines[2:5]] == [
        "2 rows fail:",
        "id=200, name=n200",
        "... and 1 more (--samples)",
    ]
    assert lines[5].startswith("  checked 2 of 3 snapshots: ")
    assert lines[-3:] == [
        f"    frazil diff {past.name} {good} {bad}",
        f"    frazil rollback {past.name} --at {good}",
        f"    frazil blame {past.name} --at {bad} --where 'NOT (id < 100)'",
    ]


def test_bisect_exits_with_3_if_there_is_no_first_snapshot_that_fails(shell: Shell) -> None:
    past = shell.past
    first, second = past.append(200), past.append(1)
    past.append(2)
    passes = shell.run("bisect", past.name, "--check", "id < 300")
    assert (passes.exit_code, "--all" in passes.stdout) == (3, True)
    past.expire([first])
    older = shell.run("bisect", past.name, "--check", "id < 100", "--all", "--output", "json")
    document = json.loads(older.stdout)
    assert (older.exit_code, document["outcome"]) == (3, "older")
    assert [(flip["snapshot"]["snapshot_id"], flip["fails"]) for flip in document["flips"]] == [(second, True)]
    text = shell.run("bisect", past.name, "--check", "id < 100").stdout
    assert f"rows that fail are in files that were added by snapshot {first} (expired)" in text


def test_blame_draws_the_way_of_a_row_to_its_source(shell: Shell) -> None:
    past = shell.past
    with past.sink("orders") as sink:
        (added,) = past.fill(sink, 2)
    past.table.maintain("compact", dry_run=False, rewrite_all=True)
    tree = shell.said("blame", past.name, "--where", "id = 1", "--columns", "id").splitlines()
    assert tree[:2] == [f"{past.name} at snapshot {past.head()}: 1 row where id = 1", "id=1"]
    assert [line.partition(" of 2")[0] for line in tree[3:]] == [
        f"├─ rewritten by snapshot {past.head()}",
        f"└─ came with snapshot {added}",
        "   ├─ sink part orders/part-0, commit 1",
        "   └─ source partition 0, offsets up to 1",
    ]
    assert "no row where id = 9" in shell.said("blame", past.name, "--where", "id = 9")
    assert (
        shell.said("blame", past.name, "--where", "id >= 0", "--limit", "1").splitlines()[-1]
        == "... and more (--limit)"
    )
