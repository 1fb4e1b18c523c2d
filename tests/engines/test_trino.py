"""Trino in a stack: on the Java of a wheel, with the stack's catalog and object store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from frazil.artifacts.java import JavaNeed, find_java
from frazil.config import load_settings
from frazil.services import ports
from frazil.services.trino import Trino, run_query
from tests.kit.stack import Project


@pytest.fixture
def engine(live_stack: Project) -> Trino:
    return Trino(live_stack.settings)


def ask(port: int, sql: str) -> list[list[Any]]:
    """The rows of a query, by the Trino client."""
    import trino

    with trino.dbapi.connect(host="127.0.0.1", port=port, user="test") as connection:
        cursor = connection.cursor()
        cursor.execute(sql)
        return cursor.fetchall()


def test_the_client_gets_rows_from_the_plugins_that_were_kept(engine: Trino) -> None:
    assert ask(engine.port, "SELECT 1") == [[1]]
    assert ask(engine.port, "SELECT count(*) FROM tpch.tiny.nation") == [[25]]
    assert ask(engine.port, "SHOW CATALOGS") == [["iceberg"], ["memory"], ["system"], ["tpch"]]


def test_it_listens_on_loopback_only_on_the_java_of_a_wheel_and_within_its_memory(engine: Trino) -> None:
    import psutil

    process = psutil.Process(engine.state()["pid"])
    listening = [c.laddr for c in process.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    assert {(address.ip.removeprefix("::ffff:"), address.port) for address in listening} == {("127.0.0.1", engine.port)}
    assert Path(process.exe()).is_relative_to(find_java(JavaNeed.TRINO, search=[]).home)
    assert process.memory_info().rss < 2_000_000_000


def test_the_keys_are_in_no_file_and_on_no_command_line(engine: Trino) -> None:
    import psutil

    secret = engine.settings.stack.secret_access_key.get_secret_value()
    files = [file.read_bytes() for file in engine.folder.rglob("*") if file.is_file()]
    assert files
    assert not any(secret.encode() in content for content in files)
    assert secret not in " ".join(psutil.Process(engine.state()["pid"]).cmdline())


def test_a_query_that_fails_gives_no_rows_and_a_silent_port_is_not_ready(engine: Trino) -> None:
    assert run_query(engine.port, "SELECT * FROM tpch.tiny.nothing") == []
    elsewhere = load_settings(
        flags={"stack.folder": "/does/not/exist", "stack.ports.trino": str(ports.free_port())}, environ={}
    )
    assert (engine.ready(), Trino(elsewhere).ready()) == (True, False)


@pytest.mark.requirement("sales.trino-config")
def test_tables_made_in_trino_live_in_the_stacks_catalog_and_bucket(live_stack: Project) -> None:
    stack = live_stack.settings.stack
    ask(stack.ports.trino, f"CREATE SCHEMA iceberg.engines WITH (location = 's3://{stack.bucket}/engines')")
    ask(
        stack.ports.trino,
        "CREATE TABLE iceberg.engines.words AS SELECT * FROM (VALUES (1, 'ice'), (2, 'water')) AS t (id, word)",
    )
    table = load_table(live_stack, "engines.words")
    assert table.location() == f"s3://{stack.bucket}/engines/words"
    assert table.properties["write.parquet.compression-codec"].lower() == "snappy"
    assert table.scan().to_arrow().sort_by("id").to_pylist() == [{"id": 1, "word": "ice"}, {"id": 2, "word": "water"}]
    ask(stack.ports.trino, "DROP TABLE iceberg.engines.words")
    assert ask(stack.ports.trino, "SHOW TABLES FROM iceberg.engines") == []


def load_table(project: Project, name: str) -> Any:
    from pyiceberg.catalog.rest import RestCatalog

    stack = project.settings.stack
    keys = {"s3.access-key-id": stack.access_key_id, "s3.secret-access-key": stack.secret_access_key.get_secret_value()}
    endpoints = {
        "uri": f"http://127.0.0.1:{stack.ports.catalog}",
        "s3.endpoint": f"http://127.0.0.1:{stack.ports.object_store}",
    }
    return RestCatalog("test", **endpoints, **keys).load_table(name)
