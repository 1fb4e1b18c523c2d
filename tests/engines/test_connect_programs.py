"""What `frazil connect` prints for clients that are programs (Go, Rust, Flink, Kafka Connect) is run as it stands
against `frazil serve`.

Only `make soak` runs these: the clients are fetched from their registries, and compiled where their language is. The
versions are exact.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
from confluent_kafka import Producer

from frazil.artifacts.jars import resolve_jars
from frazil.artifacts.java import JavaNeed, find_java
from frazil.config import load_settings
from frazil.engine_config.connection import S3
from frazil.processes import wait_until
from frazil.protocol import PROPERTY_REBASE_APPENDS
from frazil.services import kafka, ports
from tests.engines.client_lake import ClientLake, client_lake, object_store
from tests.kit.lossy_proxy import lossy_proxy
from tools.pins import CONNECT_WORKER

pytestmark = pytest.mark.soak

PYFLINK = "apache-flink==2.1.3"
PROGRAMS = Path(__file__).with_name("programs")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with object_store(tmp_path_factory.mktemp("s3")) as started:
        yield started


@pytest.fixture(params=["files", "s3"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ClientLake]:
    store = request.getfixturevalue("store") if request.param == "s3" else None
    with client_lake(tmp_path / request.node.name.replace("[", "-").replace("]", ""), store) as started:
        yield started


def toolchain(name: str) -> str:
    """The path of a compiler. Its absence is the only reason for which a test here is skipped."""
    result = shutil.which(name)
    if result is None:
        pytest.skip(f"{name} is not on PATH: what `frazil connect` prints for it was not run")
    return result


def test_a_go_program_reads_and_writes_with_the_function(lake: ClientLake) -> None:
    go = toolchain("go")
    shutil.copytree(PROGRAMS / "go", lake.folder, dirs_exist_ok=True)
    lake.write("lake/lake.go", lake.connect("go"))
    lake.run(go, "vet", "./lake")
    # rows and sum of ids, before and after its own append
    assert lake.run(go, "run", ".").splitlines() == ["2 3", "3 6"]
    assert lake.rows("ns.items") == [(1, "a"), (2, None), (3, "go")]
    assert lake.rows("ns.made") == [(7, "x"), (8, "y")]


@pytest.fixture(scope="module")
def cargo_target(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where cargo keeps what it has compiled, so that the crates are compiled once for all tests."""
    return os.environ.get("CARGO_TARGET_DIR") or str(tmp_path_factory.mktemp("cargo"))


def test_a_rust_program_reads_and_writes_with_the_function(lake: ClientLake, cargo_target: str) -> None:
    cargo = toolchain("cargo")
    shutil.copytree(PROGRAMS / "rust", lake.folder, dirs_exist_ok=True)
    lake.write("src/lake.rs", lake.connect("rust"))
    assert lake.run(cargo, "run", "-q", CARGO_TARGET_DIR=cargo_target).splitlines() == ["2 3", "3 6"]
    assert lake.rows("ns.items") == [(1, "a"), (2, None), (3, "rust")]
    assert lake.rows("ns.made") == [(7, "x"), (8, "y")]


# --- Flink -----------------------------------------------------------------------------------------------------------


FLINK_PROGRAM = """\
import re
from pathlib import Path

from pyflink.table import EnvironmentSettings, TableEnvironment

def rows():
    with environment.execute_sql("SELECT id, name FROM ns.items").collect() as found:
        return sorted(tuple(row) for row in found)

environment = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
for statement in re.sub("(?m)--.*$", "", Path("lake.sql").read_text()).split(";"):
    if statement.strip():
        environment.execute_sql(statement)
print(rows())
environment.execute_sql("INSERT INTO ns.items VALUES (3, 'flink')").wait()
environment.execute_sql("CREATE TABLE ns.made (id BIGINT, name STRING) PARTITIONED BY (name)").wait()
environment.execute_sql("INSERT INTO ns.made VALUES (7, 'x'), (8, 'y')").wait()
print(rows())
"""


@pytest.fixture(scope="module")
def flink_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with PyFlink, in an environment of its own."""
    home = tmp_path_factory.mktemp("flink") / "venv"
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    subprocess.run([sys.executable, "-m", "uv", "pip", "install", "-q", "--python", python, PYFLINK], check=True)
    return python


def test_flink_reads_and_writes_with_the_statements(lake: ClientLake, flink_python: Path) -> None:
    [flink_lib] = flink_python.parents[1].glob("lib/python*/site-packages/pyflink/lib")
    lake.write("lake.sql", lake.connect("flink"))
    lake.write("rows.py", FLINK_PROGRAM)
    jars = resolve_jars(_coordinates((lake.folder / "lake.sql").read_text()))
    with _linked(jars, flink_lib):
        output = lake.run(str(flink_python), "rows.py", JAVA_HOME=str(find_java(JavaNeed.SPARK).home))
    printed = [line for line in output.splitlines() if line.startswith("[")]  # Flink logs to the same stream
    assert printed == ["[(1, 'a'), (2, None)]", "[(1, 'a'), (2, None), (3, 'flink')]"]
    assert lake.rows("ns.items") == [(1, "a"), (2, None), (3, "flink")]
    assert lake.rows("ns.made") == [(7, "x"), (8, "y")]


@contextmanager
def _linked(jars: Sequence[Path], folder: Path) -> Iterator[None]:
    """The jars are in the folder as long as the block runs."""
    links = [folder / jar.name for jar in jars]
    for link, jar in zip(links, jars, strict=True):
        link.symlink_to(jar)
    try:
        yield
    finally:
        for link in links:
            link.unlink()


# --- Kafka Connect ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafka.Kafka]:
    folder = tmp_path_factory.mktemp("kafka")
    flags = {"stack.folder": str(folder), "stack.ports.kafka": str(ports.free_port())}
    service = kafka.Kafka(load_settings(flags=flags, environ={}, folder=folder))
    service.start()
    yield service
    service.stop()


def test_kafka_connect_writes_with_the_properties(lake: ClientLake, broker: kafka.Kafka) -> None:
    printed = lake.connect("kafka-connect")
    topic = lake.folder.parent.name
    _produce(
        broker, {topic: [{"id": 3, "name": "kafka"}], f"{topic}-new": [{"id": 7, "name": "x"}, {"id": 8, "name": "y"}]}
    )
    known = _filled(printed, {"<topic>": topic, "<namespace.table>": "ns.items"})
    new = _filled(
        printed, {"name=lake-sink": "name=new-sink", "<topic>": f"{topic}-new", "<namespace.table>": "ns.made"}
    )
    connectors = [lake.write("known.properties", known), lake.write("new.properties", new)]
    with _connect_worker(lake, broker, printed, connectors) as worker:
        _wait_for_rows(lake, worker, {"ns.items": [(1, "a"), (2, None), (3, "kafka")], "ns.made": [(7, "x"), (8, "y")]})


def test_a_paused_kafka_connect_brings_no_row_in_twice_where_appends_are_rebased(
    tmp_path: Path, broker: kafka.Kafka
) -> None:
    """The first worker is paused with its commit on the way; the second takes over, commits, and then the first commit
    arrives. Without rebase its conflict is what tells the first worker; with rebase it must still be one.
    """
    with client_lake(tmp_path / "paused", None) as lake, lossy_proxy(lake.uri) as proxy:
        with lake.catalog.load_table("ns.items").transaction() as transaction:
            transaction.set_properties({PROPERTY_REBASE_APPENDS: "true"})
        printed = lake.connect("kafka-connect")
        values = {"name=lake-sink": "name=paused-sink", "<topic>": "paused", "<namespace.table>": "ns.items"}
        values |= {"interval-ms=60000": "interval-ms=1000\nconsumer.override.session.timeout.ms=6000"}
        text = _filled(printed, values)
        connectors = [
            lake.write("late.properties", text.replace(lake.uri, proxy.uri)),
            lake.write("new.properties", text),
        ]
        rows: list[tuple[Any, ...]] = [(1, "a"), (2, None), (3, "before")]
        _produce(broker, {"paused": [{"id": 3, "name": "before"}]})
        with _connect_worker(lake, broker, printed, connectors[:1], name="late") as late:
            _wait_for_rows(lake, late, {"ns.items": rows}, name="late")
            arrives, goes_on = threading.Event(), threading.Event()
            path = f"POST /v1/{lake.catalog.properties['prefix']}/namespaces/ns/tables/items "
            proxy.before(path.encode(), lambda: (arrives.set(), goes_on.wait()))
            _produce(broker, {"paused": [{"id": 4, "name": "at the pause"}]})
            assert arrives.wait(300)
            late.send_signal(signal.SIGSTOP)
            _produce(broker, {"paused": [{"id": 5, "name": "after"}]})
            rows += [(4, "at the pause"), (5, "after")]
            with _connect_worker(lake, broker, printed, connectors[1:], name="new") as new:
                _wait_for_rows(lake, new, {"ns.items": rows}, name="new")
                goes_on.set()
                late.send_signal(signal.SIGCONT)
                log = lake.folder / "late.log"
                assert wait_until(lambda: "failed to commit" in log.read_text(errors="replace"), 300)
                _produce(broker, {"paused": [{"id": 6, "name": "in the end"}]})
                rows += [(6, "in the end")]
                _wait_for_rows(lake, new, {"ns.items": rows}, name="new")
        assert lake.rows("ns.items") == rows
        metrics = requests.get(f"{lake.uri}/metrics", timeout=60).text
        counts = dict(re.findall(r'frazil_rebases_total\{outcome="(\w+)"\} (\S+)', metrics))
        assert (float(counts["rebased"]), float(counts["refused"]) > 0) == (0, True)


def _filled(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        assert name in text
        text = text.replace(name, value)
    return text


def _produce(broker: kafka.Kafka, messages: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    producer = Producer({"bootstrap.servers": broker.endpoint})
    for topic, rows in messages.items():
        for row in rows:
            producer.produce(topic, json.dumps(row).encode())
    assert producer.flush(120) == 0


@contextmanager
def _connect_worker(
    lake: ClientLake, broker: kafka.Kafka, printed: str, connectors: Sequence[Path], *, name: str = "worker"
) -> Iterator[subprocess.Popen[bytes]]:
    """A worker of one process, with the jars that the printed text names as its plugin."""
    plugin = lake.folder / "plugins" / "iceberg"
    if not plugin.exists():
        plugin.mkdir(parents=True)
        for jar in resolve_jars(_coordinates(printed), transitive=True):
            (plugin / jar.name).symlink_to(jar)
    properties = {
        "bootstrap.servers": broker.endpoint,
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "offset.storage.file.filename": lake.folder / f"{name}.offsets",
        "plugin.path": lake.folder / "plugins",
        "listeners": f"http://{ports.HOST}:{ports.free_port()}",
        **dict(re.findall(r"^# worker: (\S+)=(\S+)", printed, flags=re.MULTILINE)),
    }
    worker = lake.write(f"{name}.worker.properties", "".join(f"{name}={value}\n" for name, value in properties.items()))
    logging = lake.write("log4j2.properties", kafka._LOGGING)
    jars = resolve_jars(CONNECT_WORKER, transitive=True)
    command = [
        str(find_java(JavaNeed.KAFKA).executable),
        "-Xmx512m",
        f"-Dlog4j2.configurationFile={logging}",
        "-cp",
        f"{jars[0].parent}/*",
    ]
    command += ["org.apache.kafka.connect.cli.ConnectStandalone", str(worker), *map(str, connectors)]
    with (lake.folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=lake.folder, env=lake.environment, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait(60)


def _coordinates(printed: str) -> list[str]:
    """The coordinates of the jars that a comment of the printed text names."""
    return re.findall(
        r"[\w.]+:[\w.-]+:[\w.-]*\d", "\n".join(line for line in printed.splitlines() if line.startswith(("#", "--")))
    )


def _wait_for_rows(
    lake: ClientLake,
    worker: subprocess.Popen[bytes],
    expected: Mapping[str, list[tuple[Any, ...]]],
    *,
    name: str = "worker",
) -> None:
    """Returns when the tables hold these rows; the connector commits every minute."""
    deadline = time.monotonic() + 300
    while (rows := {name: lake.rows(name) if lake.catalog.table_exists(name) else [] for name in expected}) != expected:
        log = (lake.folder / f"{name}.log").read_text(errors="replace")
        is_alive = worker.poll() is None and "Task is being killed" not in log
        assert is_alive, log[-8000:]
        assert time.monotonic() < deadline, f"{rows}\n{log[-8000:]}"
        time.sleep(0.5)
