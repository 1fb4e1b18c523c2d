"""Uplink rows, made reproducibly: about 184 bytes of Arrow each, spread over 30 days in random order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType, TimestampType

BATCH_ROWS = 100_000
_NAMES = ("device_id", "organization_id", "event_timestamp", "event_type", "payload", "error", "raw")
SCHEMA = Schema(
    *[
        NestedField(number, name, TimestampType() if name == "event_timestamp" else StringType())
        for number, name in enumerate(_NAMES, start=1)
    ]
)
ARROW = pa.schema([(name, pa.timestamp("us") if name == "event_timestamp" else pa.string()) for name in _NAMES])
_DAYS = 30


def write_rows(path: Path, rows: int) -> None:
    """Writes an Arrow file with a number of rows."""
    chance = np.random.default_rng(42)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, ARROW) as writer:
        for start in range(0, rows, BATCH_ROWS):
            writer.write_batch(_batch(chance, min(BATCH_ROWS, rows - start)))


def _batch(chance: np.random.Generator, rows: int) -> pa.RecordBatch:
    devices, sequence = chance.integers(0, 50_000, rows), chance.integers(0, 10**9, rows)
    times = 1_700_000_000_000_000 + chance.integers(0, _DAYS * 86_400_000_000, rows)
    kinds = pa.array(["uplink", "join", "status", "location"]).take(pa.array(chance.integers(0, 4, rows)))
    payload = _join(
        '{"sequence":', _text(sequence), ',"rssi":-', _text(chance.integers(30, 120, rows)),
        ',"temperature":', _text(chance.integers(-2_000, 4_500, rows)), ',"battery":', _text(sequence % 101),
        ',"port":', _text(sequence % 12), ',"gateway":"gw-', _text(devices % 977), '","firmware":"1.',
        _text(devices % 37), '.0"}',
    )  # fmt: skip
    none = pa.nulls(rows, pa.string())
    columns = [
        _join("device-", _text(devices + 10**9)),
        _join("org-", _text(devices % 200 + 1000)),
        pa.array(times, pa.timestamp("us")),
    ]
    return pa.RecordBatch.from_arrays([*columns, kinds, payload, none, none], schema=ARROW)


def _text(numbers: np.ndarray) -> pa.Array:
    return pa.array(numbers).cast(pa.string())


def _join(*parts: str | pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")
