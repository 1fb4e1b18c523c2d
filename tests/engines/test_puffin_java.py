"""Puffin files between us and Java, on SeaweedFS: each reads the blobs that the other has written."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from frazil.client import FrazilCatalog
from frazil.puffin import Blob, add_blobs, read_blobs
from tests.engines.walkers import Walker
from tests.kit.stack import Project
from tests.kit.stack_lake import connection

OWN = Blob("frazil-test-v1", (1, 2), bytes(range(256)) * 40, {"ndv": "12"})
PLAIN = Blob("frazil-test-v1", (2,), b"as it is", codec=None)


@pytest.fixture
def table(live_stack: Project) -> Iterator[Table]:
    catalog = FrazilCatalog("lake", **connection(live_stack))
    catalog.create_namespace("puffin")
    rows = pa.table({"id": [1, 2, 2], "name": ["a", "b", None]})
    result = catalog.create_table("puffin.blobs", rows.schema)
    result.append(rows)
    yield result
    catalog.purge_table("puffin.blobs")
    catalog.drop_namespace("puffin")
    catalog.close()


def java_blobs(engines: dict[str, Walker]) -> list[list[object]]:
    return engines["spark"].process.call("tests.engines.zoo_java:read_puffin", "lake.puffin.blobs")  # type: ignore[attr-defined]


@pytest.mark.requirement("daft.puffin")
def test_java_reads_our_blobs_and_we_read_javas_and_both_stay(table: Table, engines: dict[str, Walker]) -> None:
    engines["spark"].sql("CALL lake.system.compute_table_stats('puffin.blobs')")  # type: ignore[attr-defined]
    of_java = {
        info.fields: (info.type, info.properties["ndv"], payload) for info, payload in read_blobs(table.refresh())
    }
    assert {fields: value[:2] for fields, value in of_java.items()} == {
        (1,): ("apache-datasketches-theta-v1", "2"),
        (2,): ("apache-datasketches-theta-v1", "2"),
    }
    add_blobs(table, [OWN, PLAIN])
    sketches = [[kind, list(fields), text(payload), ndv] for fields, (kind, ndv, payload) in of_java.items()]
    own = [[OWN.type, [1, 2], text(OWN.payload), "12"], [PLAIN.type, [2], text(PLAIN.payload), None]]
    assert java_blobs(engines) == sorted([*sketches, *own], key=str)


def text(payload: bytes) -> str:
    return base64.b64encode(payload).decode()
