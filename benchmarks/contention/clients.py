"""PyIceberg writers of one table whose retries are off: how many of their appends succeed, and whether the table has
exactly their rows.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from frazil.protocol import PROPERTY_REBASE_APPENDS

if TYPE_CHECKING:
    from pyiceberg.table import Table

SCHEMA = Schema(NestedField(1, "id", LongType()))
NAMESPACE = "clients"
NO_RETRIES = {"commit.retry.num-retries": "0"}


def share_that_succeeds(uri: str, writers: int, appends: int, *, rebases: bool) -> float:
    """The percentage of the appends of so many writers at once that the catalog accepts. None is repeated; an error if
    the rows in the table are not those of the accepted ones.
    """
    catalog = load_catalog("bench", type="rest", uri=uri)
    catalog.create_namespace_if_not_exists(NAMESPACE)
    name = f"{NAMESPACE}.w{writers}{'_rebased' if rebases else ''}"
    properties = {**NO_RETRIES, PROPERTY_REBASE_APPENDS: str(rebases).lower()}
    catalog.create_table(name, SCHEMA, properties=properties)
    start = threading.Barrier(writers)

    def write(number: int) -> list[int]:
        table = load_catalog("bench", type="rest", uri=uri).load_table(name)
        start.wait()
        return append_all(table, range(number * appends, (number + 1) * appends))

    with ThreadPoolExecutor(writers) as threads:
        accepted = sorted(row for rows in threads.map(write, range(writers)) for row in rows)
    stored = sorted(catalog.load_table(name).scan().to_arrow()["id"].to_pylist())
    if stored != accepted:
        raise RuntimeError(f"{name}: {len(accepted)} appends were accepted, the table has {len(stored)} rows")
    return 100 * len(accepted) / (writers * appends)


def append_all(table: Table, ids: Sequence[int]) -> list[int]:
    """Appends each id by itself, and looks at the table again after a conflict; those that were accepted."""
    accepted = []
    for row in ids:
        try:
            table.append(pa.table({"id": pa.array([row], pa.int64())}))
        except CommitFailedException:
            table.refresh()
        else:
            accepted.append(row)
    return accepted
