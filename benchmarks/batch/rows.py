"""Landing files of sales rows, the same ones for the same numbers; one row in a hundred is bad."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv

FIRST_DAY = dt.date(2024, 1, 1)
DAYS = 30
# no number, a failed check, a digit too many, NULL
BAD = np.array(["n/a", "-5.00", "12.345", "", "much"], dtype=object)
COUNTRIES = np.array(["ch", "de", "fr", "gb", "jp", "us", ""], dtype=object)


def write_files(
    folder: Path, *, rows: int, files: int, bad_share: float = 0.01, repeated_share: float = 0.0
) -> list[Path]:
    """A number of rows in a number of files, each of one day; a share of the orders comes twice."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number in range(files):
        paths.append(folder / f"sales-{number:05}.csv")
        first, end = rows * number // files, rows * (number + 1) // files
        table = _rows(np.random.default_rng(number), first, end, _day(number), bad_share, repeated_share)
        pv.write_csv(table, paths[-1], pv.WriteOptions(quoting_style="none"))
    return paths


def _day(number: int) -> str:
    return str(FIRST_DAY + dt.timedelta(days=number % DAYS))


def _rows(
    chance: np.random.Generator, first: int, end: int, day: str, bad_share: float, repeated_share: float
) -> pa.Table:
    count = end - first
    ids = np.arange(first, end)
    repeated = chance.random(count) < repeated_share
    ids[repeated] = ids[np.maximum(np.flatnonzero(repeated) - 1, 0)]
    amounts = np.char.mod("%.2f", chance.integers(100, 1_000_000, count) / 100).astype(object)
    bad = chance.random(count) < bad_share
    amounts[bad] = chance.choice(BAD, bad.sum())
    return pa.table(
        {
            "order_id": np.char.mod("ORD-%010d", ids).astype(object),
            "customer_id": np.char.mod("CUST-%06d", chance.integers(0, 200_000, count)).astype(object),
            "amount": amounts,
            "country": chance.choice(COUNTRIES, count),
            "ingestion_date": pa.array([day] * count),
        }
    )
