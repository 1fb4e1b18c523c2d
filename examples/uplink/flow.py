"""Uplink messages from Kafka into the table, each exactly once, on Bytewax.

python -m bytewax.recovery recovery 1                                    once: where Bytewax notes how far it has read
python -m bytewax.run flow:flow -r recovery -s 10 -b 0 -w 2              and again after a crash

Settings, in the environment: BROKERS (127.0.0.1:9092), TOPIC (uplink), FOLLOW=no to stop at its end, BATCH_SIZE,
NUM_PARTITIONS. The catalog and the object store are found as by `frazil`.
"""

from __future__ import annotations

import os
from itertools import groupby

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSource, KafkaSourceMessage
from bytewax.dataflow import Dataflow
from events import flatten
from lakehouse import uplink

from frazil.config import load_settings
from frazil.sinks.bytewax import IcebergSink, IcebergSinkConfig, SourceRows


def to_rows(messages: list[KafkaSourceMessage]) -> list[tuple[str, SourceRows]]:
    """The rows of messages, with their offsets, keyed by the Kafka partition that they came from."""
    result = []
    for source, group in groupby(messages, key=lambda message: f"{message.topic}/{message.partition}"):
        same = list(group)
        rows = flatten(message.value for message in same)
        result.append((source, SourceRows(rows, source, [message.offset for message in same])))
    return result


def build(environ: dict[str, str]) -> Dataflow:
    """The dataflow that these settings ask for."""
    settings = load_settings()
    config = IcebergSinkConfig(
        catalog_uri=settings.catalog.uri,
        catalog_type="rest",
        warehouse_path=settings.catalog.warehouse,
        table_name=uplink.name,
        batch_size=int(environ.get("BATCH_SIZE", "50000")),
        batch_interval_seconds=10,
        num_partitions=int(environ.get("NUM_PARTITIONS", "2")),
    )
    follow = environ.get("FOLLOW", "yes") != "no"
    dataflow = Dataflow("uplink")
    messages = op.input(
        "kafka",
        dataflow,
        KafkaSource([environ.get("BROKERS", "127.0.0.1:9092")], [environ.get("TOPIC", "uplink")], tail=follow),
    )
    op.output("lake", op.flat_map_batch("rows", messages, to_rows), IcebergSink(config))
    return dataflow


flow = build(dict(os.environ))
