"""JSON lines: every field as the text that stands in the line, so that no number is rounded before the table's type is
known.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from frazil.pipelines.files.lines import LineRange, iter_lines
from frazil.pipelines.files.malformed import Malformed, OnMalformed
from frazil.pipelines.files.slices import Slice

BATCH_ROWS = 10_000


def read(filesystem: Any, path: str, piece: Slice, on_malformed: OnMalformed) -> Iterator[tuple[Any, pa.RecordBatch]]:
    """The objects of a slice, in batches of as many columns as they have fields, with the numbers of their lines."""
    import numpy as np

    rows: list[dict[str, str | None]] = []
    numbers: list[int] = []
    for number, row in _rows(filesystem, path, piece, on_malformed):
        rows.append(row)
        numbers.append(number)
        if len(rows) == BATCH_ROWS:
            yield np.array(numbers, np.int64), _as_batch(rows)
            rows, numbers = [], []
    if rows:
        yield np.array(numbers, np.int64), _as_batch(rows)


def read_names(filesystem: Any, path: str, piece: Slice) -> tuple[str, ...]:
    """The names of all fields in a slice, in order of their appearance. All lines have to be read for that."""
    names: dict[str, None] = {}
    for _, row in _rows(filesystem, path, piece, lambda _: None):
        if not row.keys() <= names.keys():
            names.update(dict.fromkeys(row))
    return tuple(names)


def _rows(
    filesystem: Any, path: str, piece: Slice, on_malformed: OnMalformed
) -> Iterator[tuple[int, dict[str, str | None]]]:
    stream = (
        filesystem.open_input_stream(path, compression="detect")
        if piece.end is None
        else LineRange(filesystem.open_input_file(path), piece.start, piece.end)
    )
    with stream:
        for number, line in enumerate(iter_lines(stream), start=1):
            if not line.strip():
                continue
            try:
                yield number, parse_line(line)
            except (ValueError, RecursionError) as exc:
                text = line.decode("utf-8", "backslashreplace")
                on_malformed(
                    Malformed(piece.number, number, f"expected a JSON object, got other text: {exc}"[:200], text)
                )


def parse_line(line: bytes) -> dict[str, str | None]:
    """The fields of an object as text, nested ones as JSON.

    >>> parse_line(b'{"id": 1, "amount": 12.50, "tags": ["a", 2], "paid": true, "note": null}')
    {'id': '1', 'amount': '12.50', 'tags': '["a",2]', 'paid': 'true', 'note': None}
    """
    row = json.loads(line, parse_float=str, parse_int=str, parse_constant=str)
    if not isinstance(row, dict):
        raise ValueError("a value that is no object")
    for name, value in row.items():
        if isinstance(value, bool):
            row[name] = "true" if value else "false"
        elif isinstance(value, dict | list):
            row[name] = json.dumps(json.loads(line)[name], ensure_ascii=False, separators=(",", ":"))
    return row


def _as_batch(rows: list[dict[str, str | None]]) -> pa.RecordBatch:
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.RecordBatch.from_arrays(
        [pa.array([row.get(name) for row in rows], pa.string()) for name in names], list(names)
    )
