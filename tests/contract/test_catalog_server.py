"""`frazil serve` as a process: several workers, logs, refusals at the start; and the catalog inside a test."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import requests
from click.testing import CliRunner
from pyiceberg.catalog import load_catalog

from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.cli.main import cli
from frazil.errors import Unavailable
from tests.kit.catalog_databases import DATABASES, Client, fresh_database
from tests.kit.catalog_writers import Writer, check_account, running, wait_for
from tools.own_server import own_server


@pytest.fixture(scope="module", params=DATABASES)
def workers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """One server for the tests below; the last of them kills it."""
    folder = tmp_path_factory.mktemp("workers")
    postgres_url = request.getfixturevalue("postgres") if request.param == "postgresql" else ""
    with (
        fresh_database(request.param, folder, postgres_url) as url,
        own_server(folder, database=url, workers=3) as running_server,
    ):
        yield running_server


def children(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children()


def test_workers_share_the_port_the_database_and_the_count_of_requests(
    workers: tuple[str, subprocess.Popen[bytes]],
) -> None:
    uri, process = workers
    Client(uri).create("a")
    clients = [Client(uri) for _ in range(8)]
    writers = [Writer("a", lambda n=n: clients[n], keyed=False) for n in range(8)]
    with running(writers):
        wait_for(lambda: sum(len(w.acknowledged) for w in writers) > 60, seconds=240)
    check_account(Client(uri), writers)
    result = sum(len(w.acknowledged) for w in writers)
    assert len(children(process)) == 3
    # the create is one too; workers write their counts once a second
    wait_for(lambda: committed(uri) == result + 1, seconds=60)


def committed(uri: str) -> float:
    lines = requests.get(f"{uri}/metrics", timeout=30).text.splitlines()
    # No such line yet: the scrape reached a worker that committed nothing, and the others have not written their
    # counts.
    return next(
        (
            float(line.rsplit(" ", 1)[1])
            for line in lines
            if line.startswith('frazil_commits_total{outcome="committed"}')
        ),
        0.0,
    )


def test_a_worker_that_dies_is_replaced(workers: tuple[str, subprocess.Popen[bytes]]) -> None:
    uri, process = workers
    victim = children(process)[0]
    # one that dies younger is not replaced at once
    wait_for(lambda: time.time() - victim.create_time() > 1.1, seconds=60)
    victim.kill()
    wait_for(
        lambda: len([c for c in children(process) if c.pid != victim.pid and c.status() != "zombie"]) == 3, seconds=120
    )
    assert Client(uri).raw("GET", "/readyz").status == 200


def test_workers_end_when_their_parent_is_killed(workers: tuple[str, subprocess.Popen[bytes]]) -> None:
    _, process = workers
    result = children(process)
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(result, timeout=120)
    assert alive == []


def test_logs_are_json_lines_with_the_requests_id(tmp_path: Path) -> None:
    with own_server(tmp_path) as (uri, _):
        client = Client(uri)
        client.post("/namespaces", {"namespace": ["a"]}, headers={"X-Request-ID": "first"})
        client.raw("GET", "/v1/default/namespaces/nope", headers={"X-Request-ID": "second"})
        client.raw("GET", "/v1/default/namespaces/a", headers={"X-Request-ID": "third"})
    lines = [json.loads(line) for line in (tmp_path / "server.log").read_text().splitlines() if line.startswith("{")]
    result = {
        line["request_id"]: (line["level"], line["operation"], line["status"]) for line in lines if "request_id" in line
    }
    assert result["first"] == ("info", "createNamespace", 200)
    assert result["second"] == ("info", "loadNamespaceMetadata", 404)
    assert "third" not in result  # a read that went well is at level debug


def serve(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "frazil", "serve", "--port", "0", *arguments]
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=240, check=False
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--database", "mysql://x"], "database 'mysql' is not supported"),
        (["--database", "postgresql://unknown@127.0.0.1:1/x"], "is PostgreSQL running"),
        (["--warehouse", "gs://bucket"], "the scheme 'gs' is not supported"),
        (["--warehouse", "namespaces=/tmp/x"], "warehouse name 'namespaces' is not allowed"),
        (["--warehouse", "w", "--workers", "2", "--database", "sqlite://"], "does not name a file"),
    ],
)
def test_a_server_that_cannot_start_says_why_in_one_message(arguments: list[str], message: str, tmp_path: Path) -> None:
    done = serve(*arguments, FRAZIL_SERVER__DATABASE=f"sqlite:///{tmp_path / 'c.db'}")
    assert done.returncode in (1, 2)
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with running_catalog(tmp_path) as server:
        port = server.uri.rpartition(":")[2]
        command = [
            sys.executable,
            "-m",
            "frazil",
            "serve",
            "--port",
            port,
            "--database",
            f"sqlite:///{tmp_path / 'd.db'}",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert f"port {port} is in use" in done.stderr


# --- inside a test ---------------------------------------------------------------------------------------------------


def test_a_catalog_runs_in_this_process_in_well_under_a_second_and_leaves_nothing() -> None:
    seconds = []
    # the machine has other things to do, too: time of the processor counts, and the quickest of five
    for _ in range(5):
        started = time.process_time()
        with running_catalog() as server:
            load_catalog("lake", **server.properties).create_namespace("a")
            seconds.append(time.process_time() - started)
        assert not server.folder.exists()
    assert min(seconds) < 1
    with pytest.raises(requests.ConnectionError):
        requests.get(f"{server.uri}/livez", timeout=5)


def test_a_folder_keeps_the_catalog_for_the_next_time(tmp_path: Path) -> None:
    with running_catalog(tmp_path) as server:
        result = Client(server.uri).create()
    with running_catalog(tmp_path) as server:
        assert Client(server.uri).load() == result


def test_two_catalogs_run_side_by_side() -> None:
    with running_catalog() as catalog, running_catalog() as two:
        Client(catalog.uri).create()
        assert Client(two.uri).get("/namespaces").body["namespaces"] == []


def test_the_fixture_gives_each_test_an_empty_catalog(tmp_path: Path) -> None:
    (tmp_path / "test_users.py").write_text(
        "from pyiceberg.catalog import load_catalog\n"
        "def test_one(frazil_catalog):\n"
        "    load_catalog('lake', **frazil_catalog.properties).create_namespace('a')\n"
        "def test_two(frazil_catalog):\n"
        "    assert load_catalog('lake', **frazil_catalog.properties).list_namespaces() == []\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "2 passed" in done.stdout, done.stdout


def test_serving_loads_neither_spark_nor_arrow(tmp_path: Path) -> None:
    code = (
        "import sys; from frazil.catalog.server import ServerOptions, build_app; "
        f"build_app(ServerOptions('sqlite:///{tmp_path / 'c.db'}', {{'default': '{tmp_path}'}})).close(); "
        "print([m for m in ('pyspark', 'pyarrow', 'pyiceberg', 'pandas', 'obstore', 'psycopg') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_stop_by_the_keyboard_is_a_good_end(tmp_path: Path) -> None:
    with own_server(tmp_path) as (_, process):
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_a_crash_leaves_no_memory_image(tmp_path: Path, workers: int) -> None:
    limits = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (limits[1], limits[1]))
    try:
        with own_server(tmp_path, workers=workers) as (_, process):
            started = [psutil.Process(process.pid), *psutil.Process(process.pid).children()]
            soft_limits = [each.rlimit(psutil.RLIMIT_CORE)[0] for each in started]
            process.send_signal(signal.SIGABRT)
            _, status = os.waitpid(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, limits)
    assert soft_limits == [0] * (1 if workers == 1 else 1 + workers)
    assert (os.WTERMSIG(status), os.WCOREDUMP(status)) == (signal.SIGABRT, False)
    assert list(tmp_path.glob("core*")) == []


def test_embedded_catalogs_say_where_they_are(tmp_path: Path) -> None:
    with running_catalog(tmp_path) as server:
        assert isinstance(server, EmbeddedCatalog)
        assert server.properties == {"type": "rest", "uri": server.uri}
        assert server.warehouse == f"file://{tmp_path}/warehouse"


def test_a_sqlite_file_that_was_moved_away_is_not_ready_and_takes_no_writes(tmp_path: Path) -> None:
    with running_catalog(tmp_path) as server:
        client, file, away = Client(server.uri), tmp_path / "catalog.db", tmp_path / "away.db"
        seen = [client.raw("GET", "/readyz").status]
        file.rename(away)
        seen += [
            client.raw("GET", "/readyz").status,
            client.post("/namespaces", {"namespace": ["lost"]}).status,
            int(file.exists()),
        ]
        file.write_bytes(b"")  # another file in its place
        seen += [client.raw("GET", "/readyz").status, client.raw("GET", "/livez").status]
        away.replace(file)
        seen += [client.raw("GET", "/readyz").status, client.get("/namespaces/lost").status]
    assert seen == [200, 503, 503, 0, 503, 200, 200, 404]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_address_is_said_only_when_the_database_is_open(tmp_path: Path, workers: str) -> None:
    (tmp_path / "catalog.db").write_text("this is no database, and has more than a hundred bytes" * 5)
    arguments = ["serve", "--port", "0", "--workers", workers, "--database", f"sqlite:///{tmp_path / 'catalog.db'}"]
    result = CliRunner().invoke(cli, [*arguments, "--warehouse", str(tmp_path / "warehouse")])
    assert (type(result.exception), "on http://" in result.stderr) == (Unavailable, False)
