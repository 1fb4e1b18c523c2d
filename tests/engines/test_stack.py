"""The five servers of one stack, each asked to do its work by a client that is not ours."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.kit.stack import Project

SERVICES = {"object-store", "postgres", "kafka", "catalog", "trino"}


def test_status_shows_five_services_ready_with_their_facts(live_stack: Project) -> None:
    rows = live_stack.status()
    assert {name: row["state"] for name, row in rows.items()} == dict.fromkeys(SERVICES, "ready")
    for row in rows.values():
        assert str(row["port"]) in row["endpoint"]
        assert row["pid"] > 0
        assert row["version"]
        assert row["memory_bytes"] > 10_000_000
        assert row["log"].endswith(f".frazil/{row['service']}/server.log")


def test_a_second_up_leaves_everything_alone(live_stack: Project) -> None:
    before = {name: row["pid"] for name, row in live_stack.status().items()}
    said = live_stack.frazil("up", "--with", "trino,kafka,postgres").stdout
    assert {name: row["pid"] for name, row in live_stack.status().items()} == before
    assert said.count("was ready") == 5


def test_up_prints_endpoints_and_names_of_keys_but_no_secret(live_stack: Project) -> None:
    said = live_stack.frazil("up").stdout
    assert f"http://127.0.0.1:{live_stack.settings.stack.ports.catalog}" in said
    assert "AWS_SECRET_ACCESS_KEY" in said
    assert "frazil down" in said
    stack = live_stack.settings.stack
    for secret in (stack.secret_access_key, stack.postgres_password):
        assert len(secret.get_secret_value()) >= 32
        assert secret.get_secret_value() not in said


def test_no_secret_is_in_a_command_line_or_a_log(live_stack: Project) -> None:
    stack, rows = live_stack.settings.stack, live_stack.status()
    texts = [Path(f"/proc/{row['pid']}/cmdline").read_text() for row in rows.values()]
    texts += [Path(row["log"]).read_text(errors="replace") for row in rows.values()]
    for secret in (stack.secret_access_key, stack.postgres_password):
        assert not any(secret.get_secret_value() in text for text in texts)


def test_the_stacks_folder_is_closed_to_others(live_stack: Project) -> None:
    modes = {
        name: (live_stack.folder / ".frazil" / name).stat().st_mode & 0o777
        for name in ("", "secrets.json", "catalog/data/catalog.db")
    }
    assert modes == {"": 0o700, "secrets.json": 0o600, "catalog/data/catalog.db": 0o600}


def test_an_object_comes_back_from_s3(live_stack: Project) -> None:
    import boto3

    endpoint = live_stack.status()["object-store"]["endpoint"]
    secret = live_stack.settings.stack.secret_access_key.get_secret_value()
    keys = {"aws_access_key_id": "frazil", "aws_secret_access_key": secret, "region_name": "us-east-1"}
    s3 = boto3.client("s3", endpoint_url=endpoint, **keys)
    s3.put_object(Bucket="lakehouse", Key="landing/a.csv", Body=b"1,2\n")
    assert s3.get_object(Bucket="lakehouse", Key="landing/a.csv")["Body"].read() == b"1,2\n"


def test_postgres_answers_a_query(live_stack: Project) -> None:
    import psycopg

    endpoint = live_stack.status()["postgres"]["endpoint"]
    with psycopg.connect(
        endpoint, password=live_stack.settings.stack.postgres_password.get_secret_value()
    ) as connection:
        assert connection.execute("SELECT 6 * 7").fetchall() == [(42,)]


def test_a_message_goes_through_kafka(live_stack: Project) -> None:
    from confluent_kafka import Consumer, Producer

    server, topic = live_stack.status()["kafka"]["endpoint"], f"topic-{uuid.uuid4()}"
    producer = Producer({"bootstrap.servers": server})
    producer.produce(topic, b"ice")
    assert producer.flush(120) == 0
    consumer = Consumer({"bootstrap.servers": server, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = consumer.poll(120)
    consumer.close()
    assert (message.error(), message.value()) == (None, b"ice")


def ask_trino(stack: Project, sql: str) -> list[list[object]]:
    from trino.dbapi import connect

    with connect(host="127.0.0.1", port=stack.settings.stack.ports.trino, user="test") as connection:
        return connection.cursor().execute(sql).fetchall()


def test_trino_answers_select_1(live_stack: Project) -> None:
    assert ask_trino(live_stack, "SELECT 1") == [[1]]


def test_a_table_written_by_trino_through_the_catalog_is_read_by_pyiceberg(live_stack: Project) -> None:
    from pyiceberg.catalog import load_catalog

    rows, schema = live_stack.status(), f"s{uuid.uuid4().hex[:8]}"
    ask_trino(live_stack, f"CREATE SCHEMA iceberg.{schema}")
    ask_trino(live_stack, f"CREATE TABLE iceberg.{schema}.t AS SELECT 1 AS n, 'ice' AS word")
    secret = live_stack.settings.stack.secret_access_key.get_secret_value()
    keys = {
        "s3.access-key-id": "frazil",
        "s3.secret-access-key": secret,
        "s3.endpoint": rows["object-store"]["endpoint"],
    }
    catalog = load_catalog("lake", type="rest", uri=rows["catalog"]["endpoint"], **keys)
    table = catalog.load_table(f"{schema}.t")
    assert table.scan().to_arrow().to_pylist() == [{"n": 1, "word": "ice"}]
    assert table.location() == f"s3://lakehouse/{schema}/t"


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_every_service_has_a_log_that_the_command_prints(live_stack: Project, service: str) -> None:
    lines = live_stack.frazil("logs", service, "-n", "3").stdout.splitlines()
    assert 1 <= len(lines) <= 3
