"""Uplink messages as rows. Pure: bytes in, Arrow out, nothing is contacted.

An `UplinkEventMessage` is nested JSON:

    {"device": {"id": "dev-7", "organization_id": "org-2"},
     "event": {"type": "telemetry", "timestamp": 1713139200123, "payload": {...}}}

Every message becomes one row. One that cannot be read, or not wholly, is a row with `error` and `raw` filled, and with
those columns that could be read; so nothing is lost, and no message stops the stream. `organization_id` and `payload`
may be missing, the others may not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import orjson
import pyarrow as pa

SCHEMA = pa.schema(
    [
        ("device_id", pa.string()),
        ("organization_id", pa.string()),
        ("event_timestamp", pa.timestamp("us")),
        ("event_type", pa.string()),
        ("payload", pa.string()),
        ("error", pa.string()),
        ("raw", pa.string()),
    ]
)
# 0001-01-01 to 9999-12-31: what Python, Spark and Trino can all show.
EARLIEST_MS, LATEST_MS = -62_135_596_800_000, 253_402_300_799_999
# Where an integer may be larger than 64 bits, which orjson would round.
_LONG_NUMBER = re.compile(rb"\d{19}")


class Event(NamedTuple):
    """The columns of a row; the time is still in milliseconds since 1970."""

    device_id: str | None = None
    organization_id: str | None = None
    timestamp_ms: int | None = None
    event_type: str | None = None
    payload: str | None = None
    error: str | None = None
    raw: str | None = None


def flatten(messages: Iterable[bytes | None]) -> pa.RecordBatch:
    """The rows of messages, in their order.

    >>> rows = flatten([b'{"device": {"id": "d"}, "event": {"type": "t", "timestamp": 1, "payload": {"n": 1}}}', b"?"])
    >>> rows["payload"].to_pylist(), rows["raw"].to_pylist()
    (['{"n":1}', None], [None, '?'])
    """
    events = [parse(message) for message in messages]
    columns = list(zip(*events, strict=True)) if events else [()] * len(SCHEMA)
    columns[2] = pa.array(columns[2], pa.timestamp("ms")).cast(pa.timestamp("us"))
    return pa.record_batch(
        [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def parse(message: bytes | None) -> Event:
    """The columns of one message.

    >>> parse(b'{"device": {"id": 7}, "event": {"type": "t", "timestamp": 1}}').error
    'device.id: expected text, got 7'
    """
    if not message:
        return Event(error="the message is empty" if message == b"" else "the message has no value", raw="")
    try:
        value = orjson.loads(message)
    except orjson.JSONDecodeError as exc:
        return Event(error=f"not JSON: {exc}", raw=_text(message))
    if not isinstance(value, dict):
        return Event(error=f"expected an object, got {_show(value)}", raw=_text(message))
    return _read(message, value)


def _read(message: bytes, value: dict[str, Any]) -> Event:
    faults: list[str] = []
    device, event = _object(value, "device", faults), _object(value, "event", faults)
    result = Event(
        device_id=_string(device, "device", "id", faults),
        organization_id=_string(device, "device", "organization_id", faults, needed=False),
        timestamp_ms=_milliseconds(event, faults),
        event_type=_string(event, "event", "type", faults),
        payload=_payload(event, message, faults),
    )
    return result._replace(error="; ".join(faults), raw=_text(message)) if faults else result


def _object(value: dict[str, Any], name: str, faults: list[str]) -> dict[str, Any] | None:
    result = value.get(name)
    if isinstance(result, dict):
        return result
    faults.append(f"{name}: {'missing' if name not in value else f'expected an object, got {_show(result)}'}")
    return None


def _string(
    value: dict[str, Any] | None, parent: str, name: str, faults: list[str], *, needed: bool = True
) -> str | None:
    if value is None:
        return None
    result = value.get(name)
    if isinstance(result, str):
        return result
    if result is not None:
        faults.append(f"{parent}.{name}: expected text, got {_show(result)}")
    elif needed:
        faults.append(f"{parent}.{name}: missing")
    return None


def _milliseconds(event: dict[str, Any] | None, faults: list[str]) -> int | None:
    if event is None:
        return None
    result = event.get("timestamp")
    if result is None:
        faults.append("event.timestamp: missing")
        return None
    # In JSON, 1.0 and 1e3 are whole numbers as well; True is one only in Python.
    if isinstance(result, bool) or not isinstance(result, int | float) or result != result // 1:
        faults.append(f"event.timestamp: expected whole milliseconds since 1970, got {_show(result)}")
        return None
    if not EARLIEST_MS <= result <= LATEST_MS:
        faults.append(f"event.timestamp: {_show(result)} is outside the years 1 to 9999")
        return None
    return int(result)


def _payload(event: dict[str, Any] | None, message: bytes, faults: list[str]) -> str | None:
    """The payload as compact JSON, whatever kind of value it is; NULL if there is none."""
    if event is None or event.get("payload") is None:
        return None
    try:
        text = orjson.dumps(event["payload"])
    except (TypeError, orjson.JSONEncodeError):  # what came out of JSON fails for one reason alone
        faults.append("event.payload: nested more than 254 levels deep")
        return None
    if _LONG_NUMBER.search(message):
        try:
            return json.dumps(json.loads(message)["event"]["payload"], ensure_ascii=False, separators=(",", ":"))
        except RecursionError:  # orjson goes deeper than Python
            faults.append("the message is nested too deeply")
            return None
    return text.decode()


def _text(message: bytes) -> str:
    r"""The message as text; bytes that are no UTF-8 are shown as \xNN."""
    return message.decode(errors="backslashreplace")


def _show(value: object) -> str:
    """A value as JSON, cut to a readable length."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "something deeply nested"
    return text if len(text) <= 60 else text[:57] + "..."
