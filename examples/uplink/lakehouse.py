"""The uplink lakehouse: what devices sent, one row per message, by day."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from frazil import Table, column, pipeline, sources

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

uplink = Table(
    "lakehouse.uplink",
    column("device_id", "string", doc="Who sent it"),
    column("organization_id", "string", doc="Whose device it is"),
    column("event_timestamp", "timestamp", doc="When it happened, in UTC"),
    column("event_type", "string", doc="What kind of event, such as telemetry"),
    column("payload", "string", doc="What was sent, as JSON"),
    column("error", "string", doc="Why the message could not be read; NULL if it could"),
    column("raw", "string", doc="The message itself, if it could not be read"),
    partition_by=["day(event_timestamp)"],
)


def read_events(messages: pa.RecordBatch) -> pa.RecordBatch:
    """A row for each message; those that cannot be read say why in `_error`, and go to the quarantine."""
    from events import flatten  # only where messages are read

    rows = flatten(messages.column("value").to_pylist()).drop_columns(["raw"])
    return rows.rename_columns([sources.ERROR if name == "error" else name for name in rows.schema.names])


@pipeline(
    source=sources.kafka(
        os.environ.get("TOPIC", "uplink"),
        servers=os.environ.get("BROKERS", "127.0.0.1:9092"),
        decode=read_events,
        max_messages=int(os.environ.get("BATCH_SIZE", "500000")),
    ),
    target=uplink,
)
def uplink_events(rows: DataFrame) -> DataFrame:
    """The decoder has done it all."""
    return rows
