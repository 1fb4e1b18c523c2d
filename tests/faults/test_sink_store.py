"""The object store and the catalog go away in mid-work, for real: SeaweedFS and `frazil serve` are killed and started
again.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

import frazil.sinks
from frazil.client import FrazilCatalog
from frazil.errors import FrazilError
from frazil.sinks import ArrowSink
from frazil.sinks.delta.target import create_delta_table
from frazil.write.commit.publish import RetryPolicy
from frazil.write.files.partitioning import partition_spec
from tests.faults.sink_stack import storage_options
from tests.kit.stack import Project
from tests.kit.stack_lake import connection

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "payload", StringType()))
RETRY_TIMEOUT = RetryPolicy(give_up_seconds=240, longest_pause_seconds=0.2)


@pytest.fixture
def stack(fault_stack: Project) -> Iterator[Project]:
    yield fault_stack
    fault_stack.frazil("up")  # whatever the test has killed


@dataclass
class StoredTable:
    project: Project
    open_sink: Callable[..., ArrowSink]
    read: Callable[[], pa.Table]

    def ids(self) -> list[int]:
        return sorted(self.read()["id"].to_pylist())

    def kill(self, service: str) -> None:
        os.kill(self.project.status()[service]["pid"], signal.SIGKILL)


def iceberg(project: Project) -> StoredTable:
    catalog = FrazilCatalog("lake", **connection(project))
    catalog.create_namespace_if_not_exists("faults")
    name = ("faults", f"t{uuid.uuid4().hex[:8]}")
    catalog.create_table(name, SCHEMA, partition_spec=partition_spec(SCHEMA, ["bucket(2, id)"]))
    return StoredTable(
        project,
        lambda retry=RETRY_TIMEOUT, **more: frazil.sinks.open(
            name, name="s", catalog=catalog, retry=retry, flush_rows=None, **more
        ),
        lambda: catalog.load_table(name).scan().to_arrow(),
    )


def delta(project: Project) -> StoredTable:
    keys = connection(project)
    options = storage_options(keys)
    uri = f"{keys['warehouse']}delta/t{uuid.uuid4().hex[:8]}"
    create_delta_table(uri, SCHEMA, partition_by=["bucket(2, id)"], storage_options=options)
    return StoredTable(
        project,
        lambda retry=RETRY_TIMEOUT: frazil.sinks.open(
            uri, name="s", storage_options=options, retry=retry, flush_rows=None
        ),
        lambda: DeltaTable(uri, storage_options=options).to_pyarrow_table(),
    )


class Pauses(threading.Event):
    """Is set when a sink waits between two attempts: the first one has failed by then."""

    def policy(self) -> RetryPolicy:
        return replace(RETRY_TIMEOUT, sleep=self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.set()
        time.sleep(seconds)


@pytest.fixture(params=[iceberg, delta], ids=["iceberg", "delta"])
def lake(request: pytest.FixtureRequest, stack: Project) -> StoredTable:
    result: StoredTable = request.param(stack)
    return result


def rows(start: int, end: int) -> pa.Table:
    return pa.table({"id": range(start, end), "payload": [f"payload {number}" for number in range(start, end)]})


def write(lake: StoredTable, *ends: int) -> None:
    """Commits the rows up to each end, from where the table stands."""
    with lake.open_sink() as sink:
        for end in ends:
            start = sink.offset or 0
            sink.write(rows(start, end), position=end)
            sink.commit()


def test_rows_come_in_on_an_object_store(lake: StoredTable) -> None:
    write(lake, 50, 120)
    write(lake, 150)
    assert lake.ids() == list(range(150))


@pytest.mark.requirement("sink.exactly-once")
def test_a_store_that_dies_in_mid_write_loses_and_repeats_nothing(lake: StoredTable) -> None:
    write(lake, 50)
    sink = lake.open_sink()
    sink.write(rows(50, 90), position=90)
    lake.kill("object-store")
    with pytest.raises(FrazilError):
        sink.flush()
    lake.project.frazil("up")
    write(lake, 100)
    assert lake.ids() == list(range(100))


@pytest.mark.requirement("sink.exactly-once")
def test_a_store_that_dies_between_files_and_commit_is_waited_for(lake: StoredTable) -> None:
    write(lake, 50)
    pauses = Pauses()
    sink = lake.open_sink(retry=pauses.policy())
    sink.write(rows(50, 90), position=90)
    sink.flush()
    lake.kill("object-store")
    waiting = threading.Thread(target=sink.commit)
    waiting.start()
    assert pauses.wait(240)
    lake.project.frazil("up")
    waiting.join(300)
    sink.close()
    assert (waiting.is_alive(), lake.ids()) == (False, list(range(90)))


@pytest.mark.requirement("sink.exactly-once")
def test_a_catalog_that_is_away_for_a_while_is_waited_for(stack: Project) -> None:
    lake = iceberg(stack)
    write(lake, 50)
    pauses = Pauses()
    options = {"bad_rows": "quarantine", "checks": ["id <> 77"]}  # a table more to ask for
    sink = lake.open_sink(retry=pauses.policy(), **options)
    sink.write(rows(50, 90), position=90)
    lake.kill("catalog")
    waiting = threading.Thread(target=sink.commit)
    waiting.start()
    assert pauses.wait(240)
    stack.frazil("up")
    waiting.join(300)
    sink.close()
    assert (waiting.is_alive(), lake.ids()) == (False, [number for number in range(90) if number != 77])
