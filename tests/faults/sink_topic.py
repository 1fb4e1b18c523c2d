"""A Kafka topic of two partitions as the source of a fault campaign: rows with ids, sent in transactions, so that
offsets have gaps.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.faults.sink_writer import SOURCES, make_row

SECONDS = 120  # for an answer of a broker that has a busy machine to share


@dataclass
class Topic:
    """A topic that is filled as the campaign goes on."""

    brokers: str
    make: Callable[[int, int, int], dict[str, Any]] = make_row
    name: str = field(default_factory=lambda: f"events-{uuid.uuid4().hex[:8]}")
    sent: int = 0
    offsets: dict[int, tuple[str, int]] = field(default_factory=dict)  # by id: where the row stands

    def create(self) -> None:
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient, NewTopic

        client = AdminClient({"bootstrap.servers": self.brokers})
        (done,) = client.create_topics([NewTopic(self.name, len(SOURCES))]).values()
        done.result(SECONDS)
        self._producer = Producer({"bootstrap.servers": self.brokers, "transactional.id": self.name, "log_level": 0})
        self._producer.init_transactions(SECONDS)

    def send(self, until: int) -> None:
        """Every partition has the rows up to this one; the end of the transaction takes an offset that no row has."""
        self._producer.begin_transaction()
        for source in range(len(SOURCES)):
            for row in range(self.sent, until):
                value = self.make(source, 0, row)
                note = partial(self._note, value["id"])
                self._producer.produce(self.name, json.dumps(value).encode(), partition=source, on_delivery=note)
        self._producer.commit_transaction(SECONDS)
        self.sent = until

    def _note(self, row: int, error: Any, message: Any) -> None:
        assert error is None, error
        self.offsets[row] = (f"{message.topic()}/{message.partition()}", message.offset())


def read_partition(
    brokers: str, topic: str, partition: int, *, start: int, batch_rows: int
) -> Iterator[tuple[list[int], list[Any]]]:
    """Offsets and rows of a partition up to its end, in batches."""
    from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

    settings = {
        "bootstrap.servers": brokers,
        "group.id": "none",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(topic, partition, start)])
        at_end = False
        while not at_end:
            offsets, rows = [], []
            while len(rows) < batch_rows and not at_end:
                message = consumer.poll(SECONDS)
                if message is None:
                    raise TimeoutError(f"nothing from {topic}/{partition} for {SECONDS} s")
                error = message.error()
                if error is None:
                    offsets.append(message.offset())
                    rows.append(json.loads(message.value()))
                elif error.code() == KafkaError._PARTITION_EOF:
                    at_end = True
                else:
                    raise KafkaException(error)
            if rows:
                yield offsets, rows
    finally:
        consumer.close()
