"""Completion of tables, pipelines, branches and tags: from the catalog and the project, or nothing at all."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.cli import complete
from frazil.cli.main import cli
from frazil.client import FrazilCatalog
from tests.contract.history_lake import SCHEMA, rows

PROJECT = """
import frazil, helpers
from frazil import pipeline

raise SystemExit("completion must not execute the project")

@pipeline(source=None, target=None)
def daily(frame): ...

@frazil.pipeline(source=None, target=None, name="hourly")
def other(frame): ...

@helpers.decorated
def plain(frame): ...
"""


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedCatalog]:
    with running_catalog() as running:
        catalog = FrazilCatalog("lake", **running.properties)
        for namespace in ("shop", ("shop", "eu"), "other"):
            catalog.create_namespace(namespace)
        for name in ("shop.orders", "shop.orders__quarantine", "shop.eu.sales", "other.t"):
            catalog.create_table(name, SCHEMA)
        table = catalog.load_table("shop.orders")
        table.append(rows(1))
        snapshot = table.current_snapshot()
        assert snapshot is not None
        table.manage_snapshots().create_branch(snapshot.snapshot_id, "audit").commit()
        table.manage_snapshots().create_tag(snapshot.snapshot_id, "v1").commit()
        yield running


def completions(uri: str, *words: str) -> list[str]:
    *before, incomplete = words
    shell = ShellComplete(cli, {}, "frazil", "_FRAZIL_COMPLETE")
    return [item.value for item in shell.get_completions(["--set", f"catalog.uri={uri}", *before], incomplete)]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("log", ""), ["other.t", "shop.eu.sales", "shop.orders"]),
        (("log", "shop."), ["shop.eu.sales", "shop.orders"]),
        (("log", "shop.eu.s"), ["shop.eu.sales"]),
        (("quarantine", "show", "shop.orders__"), ["shop.orders__quarantine"]),
        (("maintain", "other.t", "shop.o"), ["shop.orders"]),
        (("tables", "shop"), ["shop", "shop.eu"]),
        (("log", "shop.orders", "--ref", ""), ["audit", "main", "v1"]),
        (("branch", "drop", "shop.orders", "a"), ["audit"]),
        (("tag", "drop", "shop.orders", ""), ["v1"]),
        (("rollback", "shop.orders", "--ref", ""), ["audit", "main"]),
        (("diff", "shop.orders", "v"), ["v1"]),
        (("diff", "shop.orders", "v1", "ma"), ["main"]),
        (("log", "nowhere."), []),
        (("log", "shop.missing", "--ref", ""), []),
    ],
)
def test_the_catalog_completes(server: EmbeddedCatalog, words: tuple[str, ...], expected: list[str]) -> None:
    assert completions(server.uri, *words) == expected


def test_pipelines_are_found_without_running_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lakehouse.py").write_text(PROJECT)
    (tmp_path / "helpers.py").write_text("import lakehouse\n@pipeline(source=None)\ndef weekly(frame): ...\n")
    monkeypatch.chdir(tmp_path)
    for command in ("run", "stream", "submit"):
        assert completions("http://127.0.0.1:1", command, "") == ["daily", "hourly", "weekly"]
    assert completions("http://127.0.0.1:1", "runs", "d") == ["daily"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["helpers.py", "lakehouse.py"]


@pytest.mark.parametrize("broken", ["def", "\0"])
def test_a_project_that_cannot_be_parsed_completes_nothing(
    broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lakehouse.py").write_text(broken)
    monkeypatch.chdir(tmp_path)
    assert completions("http://127.0.0.1:1", "run", "") == []


@pytest.mark.parametrize("uri", ["http://127.0.0.1:1", "not a url", "ftp://x", ""])
def test_without_a_catalog_nothing_is_completed_and_nothing_printed(uri: str, tmp_path: Path) -> None:
    environ = {**os.environ, "_FRAZIL_COMPLETE": "bash_complete", "COMP_CWORD": "2", "FRAZIL_CATALOG__URI": uri}
    command = [str(Path(sys.executable).parent / "frazil")]
    done = subprocess.run(
        command, env={**environ, "COMP_WORDS": "frazil log "}, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert (done.stdout.strip(), done.stderr) == ("", "")
    assert list(tmp_path.iterdir()) == []


def test_a_catalog_that_does_not_answer_is_left_after_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(complete, "DEADLINE_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        start = time.monotonic()
        assert completions(f"http://127.0.0.1:{silent.getsockname()[1]}", "log", "") == []
        assert time.monotonic() - start < 60


# --- in a shell ------------------------------------------------------------------------------------------------------

PRESS_TAB = """
eval "$(_FRAZIL_COMPLETE=bash_source frazil)" || exit 1
complete -p frazil
COMP_WORDS=(frazil "$@") COMP_CWORD=$#
_frazil_completion frazil
printf '%s\\n' "${COMPREPLY[@]}"
"""


def shell_environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": path, **more}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("rollb",), ["rollback"]),
        (("table", "rec"), ["recover"]),
        (("log", "--ou"), ["--output"]),
        (("log", "shop."), ["shop.eu.sales", "shop.orders"]),
    ],
)
def test_the_line_of_the_docs_completes_in_bash(
    server: EmbeddedCatalog, tmp_path: Path, words: tuple[str, ...], expected: list[str]
) -> None:
    done = subprocess.run(
        ["bash", "--norc", "-c", PRESS_TAB, "bash", *words],
        env=shell_environment(FRAZIL_CATALOG__URI=server.uri),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["complete -o nosort -F _frazil_completion frazil", *expected]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_shells_get_a_script_that_they_can_read(shell: str, tmp_path: Path) -> None:
    variables = shell_environment(_FRAZIL_COMPLETE=f"{shell}_source")
    done = subprocess.run(["frazil"], env=variables, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (f"_FRAZIL_COMPLETE={shell}_complete" in done.stdout, done.stderr) == (True, "")
    if program := shutil.which(shell):
        subprocess.run([program, "--no-execute"], input=done.stdout, text=True, check=True)
