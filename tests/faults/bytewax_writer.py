"""The campaign's writer as a Bytewax dataflow: a worker for each of its parts, Kafka in, and a recovery store that may
be lost.
"""

from __future__ import annotations

import json
from datetime import timedelta
from itertools import groupby
from typing import Any

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSource, KafkaSourceMessage
from bytewax.dataflow import Dataflow
from bytewax.recovery import RecoveryConfig
from bytewax.testing import cluster_main

from frazil.sinks.bytewax import DeltaSink, DeltaSinkConfig, IcebergSink, IcebergSinkConfig, SourceRows
from tests.faults.sink_writer import OPTIONS, Job, retry_policy_of


def write_with_bytewax(job: Job) -> None:
    flow = Dataflow("flow")
    # A commit takes longer than an epoch: a batch of one row would mean a commit of one row.
    batch_rows = max(job.batch_rows, 6)
    messages = op.input("kafka", flow, KafkaSource([job.brokers], [job.topic], tail=False, batch_size=batch_rows))
    op.output("lake", op.flat_map_batch("rows", messages, _to_rows), _sink(job))
    every = timedelta(seconds=job.flush_rows / 100)  # checkpoints now and then, so that some fall between two commits
    cluster_main(
        flow, [], 0, worker_count_per_proc=job.parts, epoch_interval=every, recovery_config=RecoveryConfig(job.state)
    )


def _to_rows(messages: list[KafkaSourceMessage[Any, bytes]]) -> list[tuple[str, SourceRows]]:
    rows = []
    for source, group in groupby(messages, key=lambda message: f"{message.topic}/{message.partition}"):
        same = list(group)
        rows.append(
            (
                source,
                SourceRows(
                    [json.loads(message.value) for message in same], source, [message.offset for message in same]
                ),
            )
        )
    return rows


def _sink(job: Job) -> IcebergSink | DeltaSink:
    shared: dict[str, Any] = {
        "batch_size": job.flush_rows,
        "num_partitions": job.parts,
        "options": {"threads": 1, **OPTIONS},
        "retry": retry_policy_of(job),
    }
    if job.kind == "delta":
        return DeltaSink(DeltaSinkConfig(job.place, job.connection, **shared))
    return IcebergSink(
        IcebergSinkConfig(job.place, "rest", None, job.table, catalog_properties=job.connection, **shared)
    )
