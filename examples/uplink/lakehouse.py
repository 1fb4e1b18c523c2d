"""The uplink lakehouse: what devices sent, one row a message, by day."""

from __future__ import annotations

from frazil import Table, column

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
