"""A project and its catalog: commands use the one that was started in the folder, say so, and ask before they write to
another's tables.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from frazil import sinks
from frazil.catalog.embedded import running_catalog
from frazil.cli.main import cli
from frazil.client import FrazilCatalog, connect
from frazil.client.changes import Change
from frazil.config import load_settings
from frazil.errors import JavaMissing, OtherProject, SourceChanged, Unavailable
from frazil.local_stack import make_secrets
from frazil.ownership import check_pipeline
from frazil.pipelines import sources
from frazil.pipelines.batch.run import run_pipeline
from frazil.pipelines.ledger import ledger_of, ledger_rows, open_companion
from frazil.pipelines.runs import RunResult, note_run, runs_of
from frazil.pipelines.sources import SourceFile
from frazil.pipelines.stream.run import StreamOptions, run_stream
from frazil.project import load_project
from frazil.protocol import PROPERTY_PROJECT
from frazil.served import Served, forget_served, read_served, record_served
from frazil.write.commit.quarantine_table import SCHEMA as QUARANTINE_SCHEMA

PROJECT = """
from frazil import Table, column, pipeline, sources

sales = Table("lakehouse.sales", column("id", "long"){columns})


@pipeline(source=sources.csv("landing/*.csv"), target=sales)
def daily(rows):
    return rows
"""


def frazil(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def enter(folder: Path, monkeypatch: pytest.MonkeyPatch, columns: str = "") -> None:
    """Makes a project in the folder, and the folder the current one."""
    folder.mkdir(exist_ok=True)
    (folder / "lakehouse.py").write_text(PROJECT.format(columns=columns))
    monkeypatch.chdir(folder)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[FrazilCatalog]:
    with running_catalog(tmp_path / "catalog") as server:
        yield FrazilCatalog("lake", **server.properties)


@pytest.fixture
def project(tmp_path: Path, lake: FrazilCatalog, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose catalog was started in its folder."""
    enter(tmp_path / "sales", monkeypatch)
    record_served(tmp_path / "sales/.frazil", Served("serve", lake.uri, os.getpid(), {"default": "/lake"}))
    return tmp_path / "sales"


def test_serve_records_its_address_and_commands_of_the_folder_use_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter(tmp_path / "sales", monkeypatch)
    record_served(tmp_path / "sales/.frazil", Served("up", "http://127.0.0.1:1", os.getpid()))
    command = [sys.executable, "-m", "frazil", "serve", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            note, said = server.stderr.readline(), server.stderr.readline()
            assert note.startswith("note: 'frazil up' has a catalog of its own here, which runs at http://127.0.0.1:1")
            uri = said.removeprefix("Iceberg REST catalog on ").strip()
            settings = load_settings(environ={})
            assert (settings.catalog.uri, settings.source_of("catalog.uri")) == (uri, ".frazil/catalog.json")
            assert connect(settings).list_namespaces() == []
        finally:
            server.terminate()


def test_a_server_that_has_ended_is_named_with_the_command_that_starts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter(tmp_path / "sales", monkeypatch)
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    record_served(tmp_path / "sales/.frazil", Served("serve", "http://127.0.0.1:27181", ended.pid))
    error = frazil("apply").exception
    assert isinstance(error, Unavailable)
    assert "'frazil serve' at http://127.0.0.1:27181" in error.message
    assert "frazil serve --port 27181" in str(error.hint)


def test_flags_environment_and_file_win_over_what_was_started_here(project: Path) -> None:
    (project / "frazil.toml").write_text('[catalog]\nuri = "http://file:1"\n')
    env, flags = {"FRAZIL_CATALOG__URI": "http://env:1"}, {"catalog.uri": "http://flag:1"}
    result = [load_settings(environ={}), load_settings(environ=env), load_settings(environ=env, flags=flags)]
    assert [settings.catalog.uri for settings in result] == ["http://file:1", "http://env:1", "http://flag:1"]


def test_of_serve_and_up_the_one_that_runs_is_used_then_the_later_one(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    record_served(tmp_path, Served("up", "http://up", os.getpid(), at=1))
    record_served(tmp_path, Served("serve", "http://serve", ended.pid, at=2))
    running = read_served(tmp_path)
    record_served(tmp_path, Served("serve", "http://serve", os.getpid(), at=2))
    later = read_served(tmp_path)
    forget_served(tmp_path, "serve")
    left = read_served(tmp_path)
    forget_served(tmp_path, "up")
    assert list(tmp_path.iterdir()) == []
    assert [served and served.uri for served in (running, later, left)] == ["http://up", "http://serve", "http://up"]


def test_commands_use_the_keys_of_the_stack_that_was_started_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    secret = make_secrets(tmp_path / ".frazil")["secret_access_key"]
    before = load_settings(environ={}).s3
    record_served(tmp_path / ".frazil", Served("up", "http://127.0.0.1:8181", os.getpid()))
    settings = load_settings(environ={})
    assert (before.endpoint, settings.s3.endpoint) == (None, "http://127.0.0.1:8333")
    assert [key and key.get_secret_value() for key in (settings.s3.access_key_id, settings.s3.secret_access_key)] == [
        "frazil",
        secret,
    ]
    elsewhere = load_settings(environ={}, flags={"catalog.uri": "http://prod"})
    assert elsewhere.s3 == before  # the stack's keys are for the stack alone


@pytest.mark.parametrize("text", ["", "[]", "{", '{"serve": {"port": 1}}', '{"serve": 1}'])
def test_a_record_that_cannot_be_understood_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "catalog.json").write_text(text)
    assert read_served(tmp_path) is None


@pytest.mark.parametrize("command", [("apply",), ("maintain", "--dry-run"), ("run", "daily", "--dry-run")])
def test_commands_that_write_name_catalog_and_warehouse_first(
    project: Path, lake: FrazilCatalog, command: tuple[str, ...]
) -> None:
    frazil("apply")
    (project / "landing").mkdir()
    (project / "landing/a.csv").write_text("id\n1\n")
    said = frazil(*command)
    assert said.stderr.splitlines()[0] == f"catalog {lake.uri} (.frazil/catalog.json), warehouse default (/lake)"
    assert said.exit_code == 0


def test_tables_belong_to_the_project_that_made_them(project: Path, lake: FrazilCatalog) -> None:
    frazil("apply")
    assert lake.load_table("lakehouse.sales").properties[PROPERTY_PROJECT] == "sales"
    assert frazil("plan").stdout == "no changes: the declared table is as declared\n"


@pytest.mark.parametrize("command", [("run", "daily"), ("stream", "daily"), ("apply",)])
def test_another_project_does_not_write_to_these_tables_unless_it_adopts_them(
    project: Path, lake: FrazilCatalog, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    frazil("apply")
    enter(project.with_name("other"), monkeypatch, columns=', column("note", "string")')
    (project.with_name("other") / "landing").mkdir()
    (project.with_name("other") / "landing/a.csv").write_text("id,note\n1,x\n")
    before = lake.load_table("lakehouse.sales").metadata_location
    error = frazil("--set", f"catalog.uri={lake.uri}", *command).exception
    assert isinstance(error, OtherProject)
    assert (error.project, error.owners) == ("other", {"lakehouse.sales": "sales"})
    assert "--adopt" in str(error.hint)
    assert lake.load_table("lakehouse.sales").metadata_location == before
    if command == ("apply",):
        assert frazil("--set", f"catalog.uri={lake.uri}", "apply", "--adopt").exit_code == 0
        assert lake.load_table("lakehouse.sales").properties[PROPERTY_PROJECT] == "other"


COMPANIONS = ("sales", "sales__ledger", "sales__runs", "sales__quarantine")


def other_project_with_all_tables(project: Path, lake: FrazilCatalog, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes the tables of a pipeline for project "sales", and enters another project with a file for the same table."""
    frazil("apply")
    sales = load_project(project).pipeline("daily").target
    for companion in (ledger_of(sales), runs_of(sales)):
        open_companion(companion, lake, owner="sales")
    lake.create_table("lakehouse.sales__quarantine", QUARANTINE_SCHEMA)
    other = project.with_name("other")
    enter(other, monkeypatch)
    (other / "landing").mkdir()
    (other / "landing/a.csv").write_text("id\n1\n")
    return other


def owners(lake: FrazilCatalog) -> list[str | None]:
    return [lake.load_table(f"lakehouse.{name}").properties.get(PROPERTY_PROJECT) for name in COMPANIONS]


@pytest.mark.parametrize("command", ["run", "stream"])
def test_a_run_that_fails_before_its_first_write_adopts_nothing(
    project: Path, lake: FrazilCatalog, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    other_project_with_all_tables(project, lake, monkeypatch)
    monkeypatch.setenv("FRAZIL_JAVA_HOME", "/nope")
    before = owners(lake)
    error = frazil("--set", f"catalog.uri={lake.uri}", command, "daily", "--adopt").exception
    assert isinstance(error, JavaMissing)
    assert owners(lake) == before == ["sales", "sales", "sales", None]


def test_a_pipeline_adopts_its_table_with_all_companions_in_one_commit(
    project: Path, lake: FrazilCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = other_project_with_all_tables(project, lake, monkeypatch)
    commits: list[list[str]] = []
    commit_changes = FrazilCatalog.commit_changes

    def note_commit(catalog: FrazilCatalog, changes: Sequence[Change]) -> None:
        commits.append(sorted(change.name for change in changes))
        commit_changes(catalog, changes)

    monkeypatch.setattr(FrazilCatalog, "commit_changes", note_commit)
    owner = check_pipeline(("lakehouse", "sales"), lake, other, adopt=True)
    assert (commits, owners(lake)) == ([], ["sales", "sales", "sales", None])
    owner.claim()
    owner.claim()
    assert commits == [sorted(f"lakehouse.{name}" for name in COMPANIONS)]
    assert owners(lake) == ["other"] * 4


def test_companion_tables_are_made_with_the_owner_of_their_table_so_that_a_claim_loads_nothing(
    project: Path, lake: FrazilCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    frazil("apply")
    with sinks.open("lakehouse.sales", name="s", catalog=lake, bad_rows="quarantine", checks="id < 5") as sink:
        sink.write(pa.table({"id": pa.array([1, 9], pa.int64())}), position=2)
    note_run(RunResult("daily", "lakehouse.sales"), load_project(project).pipeline("daily").target, lake, owner="sales")
    open_companion(ledger_of(load_project(project).pipeline("daily").target), lake, owner="sales")
    assert owners(lake) == ["sales"] * 4
    owner = check_pipeline(("lakehouse", "sales"), lake, project)
    loaded: list[object] = []
    monkeypatch.setattr(FrazilCatalog, "load_table", lambda _, name: loaded.append(name))
    monkeypatch.setattr(FrazilCatalog, "load_each", lambda _, names: loaded.extend(names))
    owner.claim()
    assert loaded == []


def test_a_run_whose_files_are_refused_adopts_nothing(
    project: Path, lake: FrazilCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = other_project_with_all_tables(project, lake, monkeypatch)
    daily = load_project(other).pipeline("daily")
    ledger = lake.load_table("lakehouse.sales__ledger")
    ledger.append(ledger_rows([SourceFile("landing/a.csv", 1, "1")], pipeline="daily", run_id="r", ledger=ledger))
    before = owners(lake)
    with pytest.raises(SourceChanged):
        run_pipeline(daily, spark=None, catalog=lake, folder=other, adopt=True)  # type: ignore[arg-type]
    assert owners(lake) == before


def test_a_pipeline_that_python_runs_is_refused_tables_of_another_project_as_the_command_is(
    project: Path, lake: FrazilCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = other_project_with_all_tables(project, lake, monkeypatch)
    daily, before = load_project(other).pipeline("daily"), owners(lake)
    kafka = replace(daily, source=sources.kafka("sales", servers="127.0.0.1:1"))
    with pytest.raises(OtherProject):
        run_pipeline(daily, spark=None, catalog=lake, folder=other)  # type: ignore[arg-type]
    with pytest.raises(OtherProject) as caught:
        run_stream(kafka, spark=None, catalog=lake, folder=other, options=StreamOptions(other))  # type: ignore[arg-type]
    assert (caught.value.project, owners(lake)) == ("other", before)


def test_apply_adopts_companion_tables_with_their_table(
    project: Path, lake: FrazilCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = other_project_with_all_tables(project, lake, monkeypatch)
    enter(other, monkeypatch, columns=', column("note", "string")')
    assert frazil("--set", f"catalog.uri={lake.uri}", "apply", "--adopt").exit_code == 0
    assert owners(lake) == ["other"] * 4


def test_a_clone_in_a_folder_of_another_name_is_the_same_project_by_its_settings(
    project: Path, lake: FrazilCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    frazil("apply")
    enter(project.with_name("build"), monkeypatch, columns=', column("note", "string")')
    (project.with_name("build") / "frazil.toml").write_text(
        f'[catalog]\nuri = "{lake.uri}"\n[project]\nname = "sales"\n'
    )
    assert frazil("apply").exit_code == 0


def test_a_table_without_an_owner_becomes_the_project_s_at_its_next_change(
    project: Path, lake: FrazilCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.create_namespace("lakehouse")
    frazil("--set", "project.name=older", "apply")
    with lake.load_table("lakehouse.sales").transaction() as change:
        change.remove_properties(PROPERTY_PROJECT)
    enter(project, monkeypatch, columns=', column("note", "string")')
    assert frazil("apply").exit_code == 0
    assert lake.load_table("lakehouse.sales").properties[PROPERTY_PROJECT] == "sales"


def test_the_record_can_be_read_by_other_programs(project: Path, lake: FrazilCatalog) -> None:
    entry = json.loads((project / ".frazil/catalog.json").read_text())["serve"]
    assert (entry["uri"], entry["warehouses"], entry["pid"]) == (lake.uri, {"default": "/lake"}, os.getpid())
