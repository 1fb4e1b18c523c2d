"""Kafka on its own, on the Java of a wheel: messages, restarts, kills, loopback."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from frazil.artifacts.java import JavaNeed, find_java
from frazil.config import load_settings
from frazil.errors import ServiceDied, ServiceError
from frazil.services import ports
from frazil.services.kafka import Kafka, count_brokers


@contextmanager
def kafka_in(folder: Path) -> Iterator[Kafka]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FRAZIL_JAVA_HOME", str(find_java(JavaNeed.KAFKA, search=[]).home))
        flags = {"stack.folder": str(folder), "stack.ports.kafka": str(ports.free_port())}
        service = Kafka(load_settings(flags=flags, environ={}, folder=folder))
        yield service
        service.stop()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """The broker of all tests that leave it whole: a start takes longer than a test."""
    with kafka_in(tmp_path_factory.mktemp("kafka")) as service:
        yield service


@pytest.fixture
def fresh_broker(tmp_path: Path) -> Iterator[Kafka]:
    with kafka_in(tmp_path) as service:
        yield service


def produce(service: Kafka, topic: str, *values: bytes) -> None:
    from confluent_kafka import Producer

    # Without idempotence a request that is tried again may come in after the next one.
    producer = Producer({"bootstrap.servers": service.endpoint, "enable.idempotence": True})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(120) == 0


def consume(service: Kafka, topic: str, count: int) -> list[bytes]:
    from confluent_kafka import Consumer

    consumer = Consumer({"bootstrap.servers": service.endpoint, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        return [message.value() for message in consumer.consume(count, timeout=120)]
    finally:
        consumer.close()


def test_messages_survive_a_restart_with_another_controller_port_and_a_kill(broker: Kafka) -> None:
    broker.start()
    produce(broker, "uplink", b"one", b"two")
    broker.stop()
    controller = broker.extra_port("controller")
    with socket.create_server((ports.HOST, controller)):  # another process has it by now
        broker.start()
    assert broker.extra_port("controller") != controller
    produce(broker, "uplink", b"three")
    os.kill(broker.state()["pid"], signal.SIGKILL)
    assert broker.start() is True
    assert consume(broker, "uplink", 3) == [b"one", b"two", b"three"]


def test_it_listens_on_loopback_only_and_stays_within_its_memory(broker: Kafka) -> None:
    import psutil

    broker.start()
    assert broker.start() is False  # it finds the one that runs
    process = psutil.Process(broker.state()["pid"])
    listening = [c.laddr for c in process.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    assert {address.ip.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}
    assert {address.port for address in listening} == {broker.port, broker.extra_port("controller")}
    assert process.memory_info().rss < 700_000_000
    assert Path(process.exe()).is_relative_to(find_java(JavaNeed.KAFKA, search=[]).home)


def test_a_transaction_and_the_internal_topics_work_on_one_node(broker: Kafka) -> None:
    from confluent_kafka import Producer

    broker.start()
    producer = Producer({"bootstrap.servers": broker.endpoint, "transactional.id": "test"})
    producer.init_transactions(120)
    producer.begin_transaction()
    producer.produce("committed", b"kept")
    producer.commit_transaction(120)
    assert consume(broker, "committed", 1) == [b"kept"]


def test_damaged_data_is_reported_with_the_brokers_own_words(fresh_broker: Kafka) -> None:
    fresh_broker.data.mkdir(parents=True)
    (fresh_broker.data / "meta.properties").write_text("version=1\ncluster.id=another\nnode.id=7\n")
    with pytest.raises(ServiceDied) as caught:
        fresh_broker.start()
    assert "kafka: the server ended while starting" in caught.value.message
    assert "node.id" in caught.value.log_tail or "node id" in caught.value.log_tail


def test_a_data_folder_that_cannot_be_formatted_is_named(fresh_broker: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Xnonsense")
    with pytest.raises(ServiceError, match=f"kafka: could not format {fresh_broker.data}") as caught:
        fresh_broker.start()
    assert "Unrecognized option: -Xnonsense" in caught.value.log_tail


def test_a_server_that_is_no_broker_is_not_taken_for_one() -> None:
    def answer(server: socket.socket, reply: bytes) -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(reply)

    for reply in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", b"\0\0"):
        with socket.create_server((ports.HOST, 0)) as server:
            thread = threading.Thread(target=answer, args=(server, reply))
            thread.start()
            assert count_brokers(server.getsockname()[1]) == 0
            thread.join()
    assert count_brokers(ports.free_port()) == 0
