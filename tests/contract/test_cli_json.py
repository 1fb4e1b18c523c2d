"""`--output json`: every command prints what docs/cli-json.md shows, and nothing else."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pytest
from click.testing import CliRunner

import frazil.sinks
from frazil import Lake
from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.cli.main import cli, main
from frazil.cli.model_tests import as_json as outcomes_as_json
from frazil.cli.stream import as_json
from frazil.client import FrazilCatalog
from frazil.errors import FrazilError
from frazil.history import branch_table
from frazil.pipelines.stream import StreamProgress
from frazil.testing import Difference, Outcome
from tests.contract.history_lake import SCHEMA, rows
from tests.kit.upkeep import make_worker

PAGE = Path(__file__).resolve().parents[2] / "docs/cli-json.md"
# Keys whose value is an object with keys of its own: names of files, reasons, source partitions.
MAPS = {
    "inputs",
    "copies",
    "reasons",
    "failed",
    "base",
    "reached",
    "merged",
    "raw",
    "position",
    "skipped-by",
    "summary",
    "values",
}
# Documented elsewhere, or by the section of a command with the same result.
OTHERS = {"tag list": "branch list", "tag create": "branch create", "tag drop": "branch drop", "status": "up"}
# Prints what `status` prints; and lines, not one document: see below.
ELSEWHERE = {"up", "stream", "warehouse check", "test"}
# Print no result, but log lines, or code and settings to paste.
TEXT_ALONE = {"serve", "logs", "demo", "import", "connect"}
# In this order, on a catalog of their own: keys belong to the project that has made the first one.
ACCESS: dict[str, tuple[str, ...]] = {
    "token create": ("ana", "--role", "analyst", "--scope", "read", "--expires", "90d"),
    "token rotate": ("KEY",),
    "token list": (),
    "token revoke": ("KEY",),
    "role create": ("clerk",),
    "role add": ("clerk", "ana"),
    "role remove": ("clerk", "ana"),
    "role drop": ("clerk",),
    "role list": (),
    "grant": ("read", "lake.t", "--to", "user:ana"),
    "revoke": ("read", "lake.t", "--from", "user:ana"),
    "why": ("ana", "lake.t"),
    "who-can": ("read", "lake.t"),
    "audit-log": (),
}
# In this order, too, on a database of their own.
WAREHOUSES: dict[str, tuple[str, ...]] = {
    "warehouse new-key": ("another-key",),
    "warehouse create": ("cold", "s3://lake/cold", "--access-key-id", "AKIA1", "--secret-from-env", "SECRET"),
    "warehouse update": ("cold", "--role-arn", "arn:aws:iam::123456789012:role/lake"),
    "warehouse list": (),
    "warehouse show": ("cold",),
    "warehouse rekey": ("--old-key-file", "old-key"),
    "warehouse drop": ("cold", "--yes"),
}
PROJECT = """
from frazil import Table, column, pipeline, sources

sales = Table("lake.sales", column("id", "long"))

@pipeline(source=sources.csv("landing/*.csv"), target=sales)
def daily(frame):
    return frame
"""


def examples() -> dict[str, Any]:
    """The example of each command, by its name without `frazil`."""
    matches = re.findall(r"### `frazil ([a-z -]+)`\n.*?(?=\n###? |\Z)", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    sections = re.split(r"### `frazil ", PAGE.read_text(encoding="utf-8"))[1:]
    blocks = [re.search(r"```json\n(.*?)```", section.partition("\n##")[0], re.DOTALL) for section in sections]
    return {name: json.loads(block[1]) if block else None for name, block in zip(matches, blocks, strict=True)}


def commands(command: click.Command, path: str = "") -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from commands(child, f"{path} {name}".strip())
    else:
        yield path, command


def prints_json(command: click.Command) -> bool:
    formats = [param.type for param in command.params if param.name == "output"]
    return any(isinstance(kind, click.Choice) and "json" in kind.choices for kind in formats)


def shape(value: Any, name: str = "") -> Any:
    """The keys of a document and the types of its values; of a list, the shape of the first element."""
    if isinstance(value, dict):
        return "map" if name in MAPS else {key: shape(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


def fits(actual: Any, documented: Any) -> bool:
    """Whether two shapes are the same; null and an empty list stand for anything of their kind."""
    if isinstance(actual, dict) and isinstance(documented, dict):
        return actual.keys() == documented.keys() and all(fits(actual[key], documented[key]) for key in actual)
    if isinstance(actual, list) and isinstance(documented, list):
        return not actual or not documented or fits(actual[0], documented[0])
    numbers = ("int", "float")
    return "NoneType" in (actual, documented) or actual == documented or (actual in numbers and documented in numbers)


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedCatalog]:
    """`lake.t` has two snapshots and a quarantine; `lake.empty` has none."""
    with running_catalog() as running:
        catalog = FrazilCatalog("lake", **running.properties)
        catalog.create_namespace("lake")
        catalog.create_table("lake.t", SCHEMA)
        catalog.create_table("lake.empty", SCHEMA)
        catalog.load_table("lake.t").append(rows(7))
        words = catalog.create_table("lake.words", pa.schema([("embedding", pa.list_(pa.float32()))]))
        words.append(pa.table({"embedding": pa.array([[1.0, 2.0], [2.0, 1.0]], pa.list_(pa.float32()))}))
        for metric in ("cosine", "l2"):
            Lake(catalog=catalog).table("lake.words").indexes.create("embedding", metric=metric)
        options = {"catalog": catalog, "bad_rows": "quarantine", "checks": ["id > 0"]}
        with frazil.sinks.open("lake.t", name="s", **options) as sink:
            sink.write(rows(1, 2, -1, -2), position=4)
        yield running


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "lakehouse.py").write_text(PROJECT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def invoke(server: EmbeddedCatalog, *words: str) -> Any:
    settings = ["--set", f"catalog.uri={server.uri}", "--set", f"server.database=sqlite:///{server.folder}/catalog.db"]
    result = CliRunner().invoke(cli, [*settings, *words, "--output", "json"], catch_exceptions=False)
    # On a new machine jars are fetched first, which is said on stderr.
    assert [line for line in result.stderr.splitlines() if not line.startswith("fetching ")] == [], words
    return json.loads(result.stdout)


def first_snapshot(server: EmbeddedCatalog) -> str:
    table = FrazilCatalog("lake", **server.properties).load_table("lake.t")
    return str(table.history()[0].snapshot_id)


def test_every_command_that_prints_json_is_documented() -> None:
    known = {name for name, command in commands(cli) if prints_json(command)}
    assert known - set(OTHERS) == set(examples())


def test_every_command_that_prints_a_result_prints_json() -> None:
    assert {name for name, command in commands(cli) if not prints_json(command)} == TEXT_ALONE


CALLS: dict[str, tuple[str, ...]] = {
    "init": ("shop",),
    "plan": (),
    "apply": (),
    "drift": (),
    "run": ("daily",),
    "submit": ("daily", "--master", "local[2]", "--dry-run"),
    "graph": ("daily", "--columns"),
    "env list": (),
    "env diff": ("dev",),
    "env publish": ("dev", "--yes"),
    "env drop": ("dev", "--yes"),
    "runs": ("lake.sales",),
    "tables": (),
    "query": ("SELECT id, name FROM lake.t ORDER BY id",),
    "search": ("lake.words", "--vector", "[1, 2]", "-k", "1", "--columns", "embedding"),
    "log": ("lake.t",),
    "diff": ("lake.t", "FIRST"),
    "bisect": ("lake.t", "--check", "id <> 2"),
    "blame": ("lake.t", "--where", "id = 2"),
    "explain": ("lake.t", "--where", "id > 1"),
    "branch list": ("lake.t",),
    "branch create": ("lake.t", "audit"),
    "branch publish": ("lake.t", "ahead", "--yes"),
    "branch drop": ("lake.t", "audit", "--yes"),
    "tag create": ("lake.t", "v1"),
    "tag list": ("lake.t",),
    "tag drop": ("lake.t", "v1", "--yes"),
    "index create": ("lake.words", "embedding", "--metric", "ip"),
    "index list": ("lake.words",),
    "index refresh": ("lake.words", "embedding_l2"),
    "index check": ("lake.words", "embedding_l2"),
    "index drop": ("lake.words", "embedding_cosine", "--yes"),
    "rollback": ("lake.t", "--to", "FIRST", "--keep-progress", "--yes"),
    "maintain": ("lake.t", "--only", "compact"),
    "upkeep status": (),
    "audit": ("lake.t",),
    "quarantine list": (),
    "quarantine show": ("lake.t",),
    "quarantine replay": ("lake.t", "--dry-run"),
    "quarantine drop": ("lake.t", "--all", "--yes"),
    "table recover": ("lake.t",),
    "catalog sweep": ("--older-than", "1m"),
    "catalog migrate": (),
    "catalog overlaps": (),
    "config": (),
    "doctor": (),
    "status": (),
    "down": (),
}


def test_every_documented_command_is_called_here_or_named_as_tested_elsewhere() -> None:
    assert set(CALLS) - set(OTHERS) == set(examples()) - ELSEWHERE - set(ACCESS) - set(WAREHOUSES)


@pytest.mark.parametrize("name", CALLS)
def test_a_command_prints_what_the_page_shows(name: str, server: EmbeddedCatalog, project: Path) -> None:
    catalog = FrazilCatalog("lake", **server.properties)
    prepare(name, server, catalog)
    words = [first_snapshot(server) if word == "FIRST" else word for word in CALLS[name]]
    printed = invoke(server, *name.split(), *words)
    documented = examples()[OTHERS.get(name, name)]
    if name == "query":
        assert printed[:1] == documented
    elif name == "drift":
        assert printed == {"tables": {}}
    else:
        assert fits(shape(printed), shape(documented)), (shape(printed), shape(documented))
    assert printed or name == "runs"


def test_commands_of_access_print_what_the_page_shows(project: Path) -> None:
    with running_catalog(project / "lake") as own:
        catalog = FrazilCatalog("lake", **own.properties)
        catalog.create_namespace("lake")
        catalog.create_table("lake.t", SCHEMA)
        database = ["--set", f"server.database=sqlite:///{own.folder}/catalog.db"]
        for words in (["role", "create", "analyst"], ["grant", "read", "lake.t", "--to", "analyst"]):
            assert CliRunner().invoke(cli, [*database, *words], catch_exceptions=False).exit_code == 0
        key_id = ""
        for name, arguments in ACCESS.items():
            printed = invoke(own, *name.split(), *(key_id if word == "KEY" else word for word in arguments))
            key_id = printed.get("id", key_id)
            assert fits(shape(printed), shape(examples()[name])), (name, shape(printed))


def test_commands_of_warehouses_print_what_the_page_shows(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "hunter2")
    for key in ("old-key", "key"):
        assert CliRunner().invoke(cli, ["warehouse", "new-key", key], catch_exceptions=False).exit_code == 0
    for name, arguments in WAREHOUSES.items():
        key = "key" if name in ("warehouse rekey", "warehouse drop") else "old-key"
        words = ["--set", f"server.secret_key_file={key}", *name.split(), *arguments, "--output", "json"]
        result = CliRunner().invoke(cli, words, catch_exceptions=False)
        assert (result.stderr, "hunter2" in result.output) == ("", False)
        printed, documented = json.loads(result.stdout), examples()[name]
        assert fits(shape(printed), shape(documented)), (name, shape(printed))
    assert (printed["dropped"], documented["dropped"]) == (True, True)


def test_tests_print_what_the_page_shows() -> None:
    row = {"country": "CH", "revenue": "12.50"}
    difference = Difference(("country", "revenue"), (row,), (row,), ((row, row),))
    printed = outcomes_as_json(
        [Outcome("sums", "tests/a.yml", "gold.revenue", "failed", 0.2, "3 rows differ", difference)]
    )
    assert fits(shape(printed), shape(examples()["test"]))


def test_a_stream_prints_the_lines_that_the_page_shows() -> None:
    progress = StreamProgress("uplink", "lake.uplink", committed_at=1.5, snapshot_id=7, accepted_losses=["events/0: 5"])
    printed = {"event": "batch", **as_json(progress)}
    assert fits(shape(printed), shape(examples()["stream"]))


def prepare(name: str, server: EmbeddedCatalog, catalog: FrazilCatalog) -> None:
    """What a command needs to have something to say."""
    table = catalog.load_table("lake.t")
    if name == "upkeep status":
        make_worker(server.app.ctx.database, server.properties, orphans=True).run(once=True)
    if name in ("drift", "run", "runs"):
        invoke(server, "apply", "--adopt")
    if name == "branch drop" and "audit" not in table.metadata.refs:
        invoke(server, "branch", "create", "lake.t", "audit")
    if name == "catalog sweep":
        current = Path(table.metadata_location.removeprefix("file://"))
        orphan = current.with_name(f"00099-{uuid.uuid4()}.metadata.json")
        shutil.copy(current, orphan)
        os.utime(orphan, (0, 0))
    if name in ("tag drop", "tag list") and "v1" not in table.metadata.refs:
        invoke(server, "tag", "create", "lake.t", "v1")
    if name.startswith("env"):
        invoke(server, "apply", "--adopt")
        sales = catalog.load_table("lake.sales")
        if "dev" not in sales.metadata.refs:
            branch_table(catalog, ("lake", "sales"), "dev")
            sales.refresh().append(pa.table({"id": [1]}), branch="dev")
    if name == "branch publish":
        invoke(server, "branch", "create", "lake.t", "ahead")
        catalog.load_table("lake.t").append(rows(50), branch="ahead")


def test_a_dry_run_lists_the_files_that_wait(server: EmbeddedCatalog, project: Path) -> None:
    invoke(server, "apply", "--adopt")
    (project / "landing").mkdir()
    (project / "landing/a.csv").write_text("id\n1\n")
    printed = invoke(server, "run", "daily", "--dry-run")
    assert (printed["status"], printed["dry_run"]) == ("pending", True)
    assert printed["pending"] == [{"path": "landing/a.csv", "bytes": 5}]
    assert fits(shape(printed), shape(examples()["run"]))


# --- errors, as a scheduler meets them -------------------------------------------------------------------------------


def fail(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[Any, dict[str, Any], str]:
    with pytest.raises(SystemExit) as ended:
        main(words)
    captured = capsys.readouterr()
    return ended.value.code, json.loads(captured.err.splitlines()[-1])["error"], captured.out


def test_an_error_is_the_last_line_of_stderr_and_stdout_is_empty(
    server: EmbeddedCatalog, capsys: pytest.CaptureFixture[str]
) -> None:
    code, error, out = fail(capsys, "--set", f"catalog.uri={server.uri}", "log", "lake.tt", "--output", "json")
    assert (code, out) == (1, "")
    assert (error["type"], error["exit_code"]) == ("NoSuchTable", 1)
    assert "lake.t " in error["hint"]
    assert error.keys() == examples_error().keys()


def examples_error() -> dict[str, Any]:
    block = re.search(r"```json error\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    error: dict[str, Any] = json.loads(block[1])["error"]
    return error


@pytest.mark.parametrize(
    ("words", "kind", "code"),
    [
        (("log", "--output", "json"), "MissingParameter", 2),
        (("log", "a.b", "--output=json", "--nonsense"), "NoSuchOption", 2),
        (("--set", "stack.ports.kafa=1", "config", "--output", "json"), "ConfigError", 2),
        (("plan", "--output", "json"), "ProjectError", 1),
    ],
)
def test_wrong_words_and_settings_are_json_too(
    words: tuple[str, ...],
    kind: str,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    ended, error, out = fail(capsys, *words)
    assert (ended, error["type"], error["exit_code"], out) == (code, kind, code, "")


def test_json_does_not_ask(server: EmbeddedCatalog, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--set", f"catalog.uri={server.uri}", "rollback", "lake.t", "--to", first_snapshot(server))
    _, error, out = fail(capsys, *words, "--keep-progress", "--output", "json")
    assert (error["type"], error["hint"], out) == ("HistoryError", "add --yes", "")


def test_apply_prints_the_steps_that_were_done_also_when_it_fails(server: EmbeddedCatalog, project: Path) -> None:
    catalog = FrazilCatalog("lake", **server.properties)
    (project / "lakehouse.py").write_text(
        "from frazil import Table, column\n"
        "a = Table('lake.a1', column('id', 'long'))\nb = Table('lake.b1', column('id', 'long'))\n"
    )
    settings = ["--set", f"catalog.uri={server.uri}"]
    assert CliRunner().invoke(cli, [*settings, "plan", "--out", "plan.json"]).exit_code == 0
    catalog.create_table("lake.b1", SCHEMA)
    result = CliRunner().invoke(cli, [*settings, "apply", "plan.json", "--output", "json"])
    printed = json.loads(result.stdout)
    done = [name for name in ("lake.a1",) if catalog.table_exists(name)]
    assert ([step["name"] for step in printed["steps"]], printed["complete"]) == (done, False)
    assert isinstance(result.exception, FrazilError)


def test_a_process_prints_one_document_whatever_it_logs(server: EmbeddedCatalog, tmp_path: Path) -> None:
    words = ["--set", f"catalog.uri={server.uri}", "tables", "--output", "json", "-vv"]
    done = subprocess.run(
        [sys.executable, "-m", "frazil", *words], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["tables"]
    assert all(json.loads(line)["logger"].startswith("frazil") for line in done.stderr.splitlines())


def test_former_names_of_formats_work_and_say_so(server: EmbeddedCatalog) -> None:
    words = ["--set", f"catalog.uri={server.uri}", "query", "SELECT 1 AS one", "--output", "table"]
    result = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert "one" in result.stdout
    assert result.stderr == "warning: --output table is deprecated, use --output text\n"


@pytest.mark.parametrize("words", [("-v", "audit", "lake.t"), ("audit", "lake.t", "-v"), ("audit", "-v", "lake.t")])
def test_verbosity_may_stand_before_and_after_the_command(
    words: tuple[str, ...], server: EmbeddedCatalog, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--set", f"catalog.uri={server.uri}", "--log-json", *words])
    assert ended.value.code == 0
    levels = [json.loads(line)["level"] for line in capsys.readouterr().err.splitlines()]
    assert "info" in levels
