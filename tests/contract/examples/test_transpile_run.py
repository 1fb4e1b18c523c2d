"""The loop over files of queries, on a catalog in this process: every query once, new files picked up, killed runs go
on.
"""

from __future__ import annotations

import itertools
import multiprocessing
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import frazil.sinks
from examples.transpile.queries import make_queries, write_queries
from frazil.catalog.embedded import running_catalog
from frazil.client import FrazilCatalog
from frazil.config import load_settings
from frazil.errors import FrazilError


class Stop(Exception):
    """The process ends here."""


@dataclass
class Counting:
    """A watcher that counts, and stops the run after a number of rows."""

    stop_after: int | None = None
    rows: int = 0
    errors: int = 0
    expected: list[int] = field(default_factory=list)

    def begin(self, rows: int) -> None:
        self.expected.append(rows)

    def advance(self, rows: int, errors: int) -> None:
        self.rows, self.errors = self.rows + rows, self.errors + errors
        if self.stop_after is not None and self.rows >= self.stop_after:
            raise Stop


class KillingWorkers(Counting):
    """Kills the workers once rows have come from them."""

    def advance(self, rows: int, errors: int) -> None:
        super().advance(rows, errors)
        for worker in multiprocessing.active_children():
            worker.kill()


@dataclass
class QueryFolder:
    """A catalog, a folder of queries, and the loop between them."""

    run: ModuleType
    catalog: FrazilCatalog
    folder: Path
    batch_rows: int = 10

    def start(
        self,
        *,
        flush_rows: int = 100,
        stop_after: int | None = None,
        processes: int = 1,
        watcher: Counting | None = None,
        **follow: Any,
    ) -> Counting:
        """One run; it ends as if killed after `stop_after` rows."""
        counting, ledger = watcher or Counting(stop_after), self.run.Ledger.of(self.catalog)
        sink = frazil.sinks.open("lakehouse.transpiled", name="transpile", catalog=self.catalog, flush_rows=flush_rows)
        files = self.run.QueryFiles.at(str(self.folder), load_settings(environ={}, folder=self.folder))
        loop = self.run.Loop(files, sink, self.run.Dialects(), counting, ledger, self.batch_rows, processes)
        try:
            loop.run(**follow)
            sink.close()
        except Stop:
            pass  # nothing is said to the sink: it is as dead as the process
        return counting

    def rows(self) -> list[tuple[str, str, int]]:
        table = self.catalog.load_table("lakehouse.transpiled").scan().to_arrow()
        names = [Path(path).name for path in table["source_file"].to_pylist()]
        return sorted(zip(table["query_id"].to_pylist(), names, table["position"].to_pylist(), strict=True))

    def commits(self) -> list[int]:
        """The rows of each commit that brought any."""
        snapshots = self.catalog.load_table("lakehouse.transpiled").snapshots()
        added = [int(snapshot.summary["added-records"] or 0) for snapshot in snapshots if snapshot.summary is not None]
        return [count for count in added if count]


@pytest.fixture
def lake(transpile_run: ModuleType, tmp_path: Path) -> Iterator[QueryFolder]:
    with running_catalog(tmp_path / "catalog") as server:
        folder = tmp_path / "queries"
        folder.mkdir()
        yield QueryFolder(transpile_run, FrazilCatalog("lake", **server.properties), folder)


def expected(name: str, count: int, *, seed: int) -> list[tuple[str, str, int]]:
    return [(f"q-{seed}-{number:08}", name, number) for number in range(count)]


def test_every_query_of_every_file_is_a_row_and_commits_are_of_the_flush_size(lake: QueryFolder) -> None:
    write_queries(lake.folder / "a.parquet", 250, seed=1)
    write_queries(lake.folder / "b.parquet", 120, seed=2)
    counting = lake.start()
    assert lake.rows() == expected("a.parquet", 250, seed=1) + expected("b.parquet", 120, seed=2)
    assert (counting.expected, counting.rows, lake.commits()) == ([250, 120], 370, [100, 100, 100, 70])


def test_a_file_that_is_in_is_not_read_again(lake: QueryFolder) -> None:
    write_queries(lake.folder / "a.parquet", 30, seed=1)
    lake.start()
    write_queries(lake.folder / "b.parquet", 20, seed=2)
    assert lake.start().expected == [20]
    assert lake.rows() == expected("a.parquet", 30, seed=1) + expected("b.parquet", 20, seed=2)


@pytest.mark.parametrize("stop_after", [10, 90, 100, 110, 240, 250, 260, 300])
def test_a_killed_run_goes_on_where_it_stopped(lake: QueryFolder, stop_after: int) -> None:
    write_queries(lake.folder / "a.parquet", 250, seed=1)
    write_queries(lake.folder / "b.parquet", 120, seed=2)
    lake.start(stop_after=stop_after)
    again = lake.start()
    assert lake.rows() == expected("a.parquet", 250, seed=1) + expected("b.parquet", 120, seed=2)
    assert again.rows == 370 - stop_after // 100 * 100  # what was committed is not done again


def test_several_processes_make_the_same_commits_and_a_killed_run_goes_on(lake: QueryFolder) -> None:
    write_queries(lake.folder / "a.parquet", 250, seed=1)
    write_queries(lake.folder / "b.parquet", 120, seed=2)
    lake.start(processes=2, stop_after=110)
    assert lake.start(processes=3).rows == 270
    assert lake.rows() == expected("a.parquet", 250, seed=1) + expected("b.parquet", 120, seed=2)
    assert lake.commits() == [100, 100, 100, 70]


def test_a_worker_that_was_killed_ends_the_run_and_the_next_one_goes_on(lake: QueryFolder) -> None:
    write_queries(lake.folder / "a.parquet", 400, seed=1)
    with pytest.raises(FrazilError, match="a worker process ended before its work was done"):
        lake.start(processes=2, watcher=KillingWorkers())
    lake.start()
    assert lake.rows() == expected("a.parquet", 400, seed=1)


def test_workers_end_with_their_parent_however_it_ends(transpile_run: ModuleType) -> None:
    code = f"""
import itertools, multiprocessing, sys
sys.path.insert(0, {str(Path(transpile_run.__file__).parent)!r})
from workers import NO_QUERIES, Chunk, transpiling
from transpiling import Dialects
from frazil.pipelines.sources import SourceFile
with transpiling(Dialects(), 2) as transpile:
    for _ in transpile(itertools.repeat(Chunk(SourceFile("f", 0, ""), 0, NO_QUERIES, 0))):
        print(*[child.pid for child in multiprocessing.active_children()], flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        workers = [int(pid) for pid in parent.stdout.readline().split()]
        parent.kill()
    deadline = time.monotonic() + 120
    while any(_runs(pid) for pid in workers):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert len(workers) == 2


def _runs(pid: int) -> bool:
    """Whether a process is there and not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_new_files_are_picked_up_while_it_runs(lake: QueryFolder) -> None:
    write_queries(lake.folder / "a.parquet", 30, seed=1)
    seen: list[list[tuple[str, str, int]]] = []

    def wait(_: float) -> None:
        seen.append(lake.rows())  # before it waits, everything is in
        if len(seen) == 2:
            raise Stop
        write_queries(lake.folder / "b.parquet", 20, seed=2)

    lake.start(follow_seconds=1, sleep=wait)
    assert seen == [
        expected("a.parquet", 30, seed=1),
        expected("a.parquet", 30, seed=1) + expected("b.parquet", 20, seed=2),
    ]


def test_finished_files_leave_no_trace_in_the_progress(lake: QueryFolder) -> None:
    write_queries(lake.folder / "a.parquet", 30, seed=1)
    lake.start()
    assert frazil.sinks.open("lakehouse.transpiled", name="transpile", catalog=lake.catalog).position == {}


def test_an_empty_file_and_a_file_that_was_rewritten(lake: QueryFolder) -> None:
    write_queries(lake.folder / "a.parquet", 0)
    lake.start()
    assert lake.start().expected == []
    write_queries(lake.folder / "a.parquet", 5, seed=7)
    lake.start()
    assert lake.rows() == expected("a.parquet", 5, seed=7)


def test_a_touched_file_is_not_loaded_again_neither_finished_nor_begun(lake: QueryFolder) -> None:
    write_queries(lake.folder / "a.parquet", 30, seed=1)
    lake.start(flush_rows=10, stop_after=20)
    (lake.folder / "a.parquet").touch()
    lake.start()
    (lake.folder / "a.parquet").touch()
    lake.start()
    assert lake.rows() == expected("a.parquet", 30, seed=1)


def test_a_file_is_read_from_any_row_in_row_groups_of_any_size(lake: QueryFolder) -> None:
    (batch,) = make_queries(95, seed=4)
    pq.write_table(pa.Table.from_batches([batch]), lake.folder / "a.parquet", row_group_size=20)
    files = lake.run.QueryFiles.at(str(lake.folder / "a.parquet"), load_settings(environ={}, folder=lake.folder))
    (file,) = files.list()
    for start, end in itertools.product((0, 1, 19, 20, 21, 59, 94, 95), (None, 60, 20, 1)):
        result = list(files.read(file, start=start, end=end, batch_rows=7))
        ids = [name for _, part in result for name in part["query_id"].to_pylist()]
        assert ids == batch["query_id"].to_pylist()[start:end]
        assert [first for first, _ in result] == [
            start + sum(len(part) for _, part in result[:n]) for n in range(len(result))
        ]


def test_a_file_without_queries_is_named_with_what_it_has(lake: QueryFolder) -> None:
    pq.write_table(pa.table({"id": [1]}), lake.folder / "a.parquet")
    with pytest.raises(ValueError, match=r"a.parquet has no column 'query_id'; it has id"):
        lake.start()
    (lake.folder / "a.parquet").write_bytes(b"no Parquet")
    with pytest.raises(ValueError, match=r"a.parquet is no Parquet file"):
        lake.start()


def test_other_files_in_the_folder_are_left_alone(lake: QueryFolder) -> None:
    (lake.folder / "readme.txt").write_text("no queries")
    write_queries(lake.folder / "deep" / "a.parquet", 5, seed=1)
    lake.start()
    assert lake.rows() == expected("a.parquet", 5, seed=1)


@pytest.mark.parametrize("stop_after", [10, 110, 260, 300])
def test_a_delta_table_takes_every_query_once_as_well(
    transpile_run: ModuleType, tmp_path: Path, stop_after: int
) -> None:
    from deltalake import DeltaTable

    write_queries(tmp_path / "queries" / "a.parquet", 250, seed=1)
    write_queries(tmp_path / "queries" / "b.parquet", 120, seed=2)
    settings, uri = load_settings(environ={}, folder=tmp_path), str(tmp_path / "delta")

    def start(stop: int | None) -> Counting:
        counting, sink = Counting(stop), transpile_run.open_delta(uri, settings, flush_rows=100)
        with suppress(Stop):  # as dead as the process would be: the sink learns nothing
            transpile_run.Loop(
                transpile_run.QueryFiles.at(str(tmp_path / "queries"), settings),
                sink,
                transpile_run.Dialects(),
                counting,
                None,
                10,
            ).run()
            sink.close()
        return counting

    start(stop_after)
    assert start(None).rows == 370 - stop_after // 100 * 100
    assert start(None).rows == 0
    ids = pa.table(DeltaTable(uri).to_pyarrow_table())["query_id"].to_pylist()
    assert sorted(ids) == [f"q-1-{n:08}" for n in range(250)] + [f"q-2-{n:08}" for n in range(120)]
