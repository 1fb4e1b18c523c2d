"""A process that builds or refreshes an index, to be killed while it does."""

from __future__ import annotations

from multiprocessing.connection import Connection

from frazil.client import FrazilCatalog
from frazil.vector import Builder, Indexes

SEGMENT_ROWS = 500  # so that there are several


def build(properties: dict[str, str], table: str, connection: Connection) -> None:
    """Says when it begins. An index that exists is refreshed."""
    indexes = Indexes(FrazilCatalog("lake", **properties), table, Builder(segment_rows=SEGMENT_ROWS))
    connection.send("begins")
    if indexes.records():
        indexes.refresh("embedding")
    else:
        indexes.create("embedding")
    connection.send("done")
