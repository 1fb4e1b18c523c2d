"""One system in a process of its own: `python -m benchmarks.vector.case WHO DATA SCRATCH [URI [SECONDS]]`; prints what
it cost and how good its answers are, as JSON.

WHO is ours, faiss-flat, faiss-ivf, usearch, hnswlib or lancedb. The peers run in an environment of their own, so this
module needs numpy alone.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from benchmarks.vector.data import KINDS, Data, K, Matrix

THREADS = 2
REACH = 0.95
BATCH = 64
SECONDS = 2.0  # of queries, for each figure
WARM = 20
FILE_ROWS = 250_000
MANY = 500_000
COLD = 20  # queries that start with an empty cache


class System(Protocol):
    """What is measured."""

    efforts: Sequence[int]  # in rising order

    def build(self, data: Data, folder: Path) -> None: ...

    def size(self) -> int: ...

    def search(self, queries: Matrix, effort: int, percent: int | None) -> Matrix:
        """The rows of the nearest vectors of each query, -1 where there are fewer; of a share of them, or of all."""
        ...

    def change(self, data: Data) -> None:
        """A tenth is deleted and a twentieth appended."""
        ...


# --- ours ------------------------------------------------------------------------------------------------------------


class Ours:
    """A table, an index of it, and searches of a scan: planning, index, and the rows by their columns."""

    efforts = (0,)  # what the index says by itself
    filters = changes = True

    def __init__(self, uri: str) -> None:
        from frazil import Lake
        from frazil.client import connect

        self._catalog = connect(uri=uri)
        self._lake = Lake(catalog=self._catalog)

    def build(self, data: Data, folder: Path) -> None:
        self.table.indexes.create("embedding", metric="cosine")

    def load(self, data: Data) -> None:
        """The rows are in the table; not a part of the measured build."""
        import pyarrow as pa

        self._schema = pa.schema([("id", pa.int64()), ("kind", pa.int64()), ("embedding", pa.list_(pa.float32()))])
        self._catalog.create_table("bench.vectors", self._schema)
        self.table = self._lake.table("bench.vectors")
        for part in np.array_split(np.arange(len(data.vectors)), -(-len(data.vectors) // FILE_ROWS)):
            self._append(part, data.vectors[part[0] : part[-1] + 1])
        self._scans: dict[int | None, Any] = {}

    def _append(self, rows: Matrix, vectors: Matrix) -> None:
        import pyarrow as pa

        offsets = np.arange(0, vectors.size + 1, vectors.shape[1], dtype=np.int32)
        column = pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.ascontiguousarray(vectors).reshape(-1)))
        self.table.append(pa.Table.from_arrays([pa.array(rows), pa.array(rows % KINDS), column], schema=self._schema))

    def size(self) -> int:
        return sum(info.size for record in self.table.indexes.records() for info in record.segments)

    def search(self, queries: Matrix, effort: int, percent: int | None) -> Matrix:
        if percent not in self._scans:
            where = None if percent is None else f"kind < {percent}"
            self._scans[percent] = self.table.scan(where, columns=["id"])
        asked = queries[0] if len(queries) == 1 else queries
        nearest = self._scans[percent].nearest("embedding", asked, k=K)
        ids = nearest.to_arrow()["id"].to_numpy()
        self.report = nearest.explain()
        return ids.reshape(len(queries), -1)

    def change(self, data: Data) -> None:
        """Deletes are position deletes, as merge-on-read engines write them: the files stay covered by the index."""
        from tests.kit.delete_files import delete_rows

        places = self.table.scan(columns=["id", "_file", "_pos"]).to_arrow()
        places = places.filter(np.isin(places["id"].to_numpy(), data.deleted))
        delete_rows(self._catalog, "bench.vectors", places.select(["_file", "_pos"]))
        self._append(len(data.vectors) + np.arange(len(data.added)), data.added)
        self._scans = {}
        covered = self.table.scan().nearest("embedding", data.queries[0], k=K).explain()
        assert covered.files_indexed, "deletes have left nothing that the index covers"

    def reads(self, data: Data) -> dict[str, float]:
        """What a query reads of segments when nothing of them is in memory, and how much it compares."""
        from frazil.vector import OpenIndexes

        sums = dict.fromkeys(("bytes", "ranges", "lists_probed", "rows_scored"), 0.0)
        for query in data.queries[:COLD]:
            self._lake.vectors = OpenIndexes()  # type: ignore[misc]
            self.search(query[None], 0, None)
            done = self.report.index
            facts = (done.fetched.size, done.fetched.ranges, done.lists, done.rows_scored)
            sums = {name: value + each / COLD for (name, value), each in zip(sums.items(), facts, strict=True)}
        (record,) = self.table.indexes.records()
        return {**sums, "lists": self.report.lists, "segments": len(record.segments)}


# --- peers -----------------------------------------------------------------------------------------------------------


class FaissFlat:
    """Every vector is compared."""

    efforts: Sequence[int] = (0,)
    filters, changes = True, False

    def build(self, data: Data, folder: Path) -> None:
        import faiss

        faiss.omp_set_num_threads(THREADS)
        self._faiss, self._rows = faiss, len(data.vectors)
        self._index = self._make(data)
        self._index.add(data.vectors)

    def _make(self, data: Data) -> Any:
        return self._faiss.IndexFlatIP(data.vectors.shape[1])

    def size(self) -> int:
        return int(self._faiss.serialize_index(self._index).nbytes)

    def search(self, queries: Matrix, effort: int, percent: int | None) -> Matrix:
        answers: Matrix = self._index.search(queries, K, params=self._parameters(effort, percent))[1]
        return answers

    def _parameters(self, effort: int, percent: int | None) -> Any:
        return self._faiss.SearchParameters(sel=self._selector(percent))

    def _selector(self, percent: int | None) -> Any:
        if percent is None:
            return None
        bits = np.packbits(np.arange(self._rows) % KINDS < percent, bitorder="little")
        return self._faiss.IDSelectorBitmap(bits)

    def change(self, data: Data) -> None:
        raise NotImplementedError


class FaissIvf(FaissFlat):
    """Lists of whole vectors, as many as ours."""

    efforts = (4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024)

    def _make(self, data: Data) -> Any:
        size, lists = data.vectors.shape[1], int(4 * len(data.vectors) ** 0.5)
        self._coarse = self._faiss.IndexFlatIP(size)
        index = self._faiss.IndexIVFFlat(self._coarse, size, lists, self._faiss.METRIC_INNER_PRODUCT)
        sample = np.random.default_rng(0).choice(len(data.vectors), min(len(data.vectors), 64 * lists), replace=False)
        index.train(data.vectors[np.sort(sample)])
        return index

    def _parameters(self, effort: int, percent: int | None) -> Any:
        self._kept = self._selector(percent)
        return self._faiss.SearchParametersIVF(nprobe=effort, sel=self._kept)


def _effort(data: Data) -> int:
    """Neighbours that are looked at to build a graph: fewer for many vectors, which would take most of an hour."""
    return 128 if len(data.vectors) < MANY else 64


class Usearch:
    """A graph in memory."""

    efforts = (16, 32, 48, 64, 96, 128, 192, 256, 512)
    filters = changes = False

    def build(self, data: Data, folder: Path) -> None:
        from usearch.index import Index

        self._index = Index(
            ndim=data.vectors.shape[1], metric="cos", dtype="f32", connectivity=16, expansion_add=_effort(data)
        )
        self._index.add(np.arange(len(data.vectors)), np.ascontiguousarray(data.vectors), threads=THREADS)
        self._path = folder / "usearch"
        self._index.save(str(self._path))

    def size(self) -> int:
        return self._path.stat().st_size

    def search(self, queries: Matrix, effort: int, percent: int | None) -> Matrix:
        self._index.expansion_search = effort
        return (
            np.asarray(self._index.search(queries, K, threads=THREADS).keys).reshape(len(queries), -1).astype(np.int64)
        )

    def change(self, data: Data) -> None:
        raise NotImplementedError


class Hnswlib:
    """A graph in memory."""

    efforts = (16, 32, 48, 64, 96, 128, 192, 256, 512)
    filters = changes = False

    def build(self, data: Data, folder: Path) -> None:
        import hnswlib

        self._index = hnswlib.Index(space="cosine", dim=data.vectors.shape[1])
        self._index.init_index(max_elements=len(data.vectors), M=16, ef_construction=_effort(data))
        self._index.set_num_threads(THREADS)
        self._index.add_items(np.ascontiguousarray(data.vectors), np.arange(len(data.vectors)))
        self._path = folder / "hnswlib"
        self._index.save_index(str(self._path))

    def size(self) -> int:
        return self._path.stat().st_size

    def search(self, queries: Matrix, effort: int, percent: int | None) -> Matrix:
        self._index.set_ef(effort)
        return np.asarray(self._index.knn_query(queries, k=K)[0]).astype(np.int64)

    def change(self, data: Data) -> None:
        raise NotImplementedError


class LanceDb:
    """A table in Lance files with an IVF_PQ index, the best compared again by their whole vectors."""

    efforts = (4, 8, 12, 16, 24, 32, 48, 64, 96, 128)
    filters = changes = True

    def load(self, data: Data) -> None:
        pass

    def build(self, data: Data, folder: Path) -> None:
        import lancedb
        import pyarrow as pa

        self._pa, self._folder = pa, folder / "lance"
        self._table = lancedb.connect(str(self._folder)).create_table("vectors", self._rows(0, data.vectors))
        self._table.create_index(metric="cosine", vector_column_name="embedding", num_sub_vectors=48)

    def _rows(self, first: int, vectors: Matrix) -> Any:
        rows = first + np.arange(len(vectors))
        flat = self._pa.array(np.ascontiguousarray(vectors).reshape(-1))
        column = self._pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
        names = ["id", "kind", "embedding"]
        return self._pa.Table.from_arrays([self._pa.array(rows), self._pa.array(rows % KINDS), column], names)

    def size(self) -> int:
        return sum(path.stat().st_size for path in self._folder.glob("**/_indices/**/*") if path.is_file())

    def search(self, queries: Matrix, effort: int, percent: int | None) -> Matrix:
        asked = queries[0] if len(queries) == 1 else list(queries)
        search = self._table.search(asked, vector_column_name="embedding").distance_type("cosine")
        search = search.nprobes(effort).refine_factor(10).limit(K).select(["id"])
        if percent is not None:
            search = search.where(f"kind < {percent}", prefilter=True)
        rows = search.to_arrow()
        answers = np.full((len(queries), K), -1)
        numbers = rows["query_index"].to_numpy() if len(queries) > 1 else np.zeros(rows.num_rows, np.int64)
        for number in range(len(queries)):
            own = rows["id"].to_numpy()[numbers == number]
            answers[number, : len(own)] = own
        return answers

    def change(self, data: Data) -> None:
        gone = ", ".join(map(str, data.deleted.tolist()))
        self._table.delete(f"id IN ({gone})")
        self._table.add(self._rows(len(data.vectors), data.added))


# --- the measurement -------------------------------------------------------------------------------------------------

PEERS: dict[str, Callable[[], Any]] = {
    "faiss-flat": FaissFlat,
    "faiss-ivf": FaissIvf,
    "usearch": Usearch,
    "hnswlib": Hnswlib,
    "lancedb": LanceDb,
}


def recall(answers: Matrix, truth: Matrix) -> float:
    """The share of the right answers that an answer has."""
    pairs = zip(answers.tolist(), truth.tolist(), strict=True)
    return float(np.mean([len({*own} & {*right}) / len(right) for own, right in pairs]))


def _batches(queries: Matrix, size: int) -> list[Matrix]:
    return [queries[start : start + size] for start in range(0, len(queries) // size * size, size)]


def _answers(system: System, data: Data, effort: int, percent: int | None = None) -> Matrix:
    parts = _batches(data.queries, BATCH)
    return np.concatenate([system.search(part, effort, percent) for part in parts])


def _rate(system: System, data: Data, effort: int, size: int, percent: int | None = None) -> tuple[float, float]:
    """Queries per second, and the CPU milliseconds of each, which other processes on the machine change less."""
    parts = _batches(np.ascontiguousarray(data.queries), size)
    for part in parts[: max(1, WARM // size)]:
        system.search(part, effort, percent)
    done, start, cpu = 0, time.perf_counter(), time.process_time()
    while not done or time.perf_counter() - start < SECONDS:  # one at least, however busy the machine is
        system.search(parts[done % len(parts)], effort, percent)
        done += 1
    queries = done * size
    return queries / (time.perf_counter() - start), (time.process_time() - cpu) / queries * 1000


def measure(system: Any, data: Data, folder: Path) -> dict[str, Any]:
    """All figures of a system."""
    if hasattr(system, "load"):
        system.load(data)
    with _peak() as peak:
        start, cpu = time.perf_counter(), time.process_time()
        system.build(data, folder)
        costs: dict[str, Any] = {
            "build_s": time.perf_counter() - start,
            "build_cpu": time.process_time() - cpu,
            "index_mb": system.size() / 1e6,
        }
    costs["build_mb"] = peak[0]
    asked = len(data.queries) // BATCH * BATCH
    truth = data.truth("all")[:asked]
    for effort in system.efforts:
        costs["effort"], costs["recall"] = effort, recall(_answers(system, data, effort), truth)
        if costs["recall"] >= REACH:
            break
    effort = costs["effort"]
    with _peak() as peak:
        costs["single"], costs["single_cpu"] = _rate(system, data, effort, 1)
        costs["batch"], costs["batch_cpu"] = _rate(system, data, effort, BATCH)
    costs["search_mb"] = peak[0]
    if hasattr(system, "reads"):
        costs |= system.reads(data)
    if system.filters:
        for percent in (1, 10):
            costs[f"single_{percent}"], _ = _rate(system, data, effort, 1, percent)
            costs[f"recall_{percent}"] = recall(
                _answers(system, data, effort, percent), data.truth(str(percent))[:asked]
            )
    if system.changes:
        system.change(data)
        costs["recall_later"] = recall(later := _answers(system, data, effort), data.truth("later")[:asked])
        costs["deleted_found"] = int(np.isin(later, data.deleted).sum())
        costs["single_later"], _ = _rate(system, data, effort, 1)
    return costs


@contextmanager
def _peak() -> Iterator[list[float]]:
    """The most memory of the process in the block, in MB, without mapped files."""
    result, running = [_anonymous_mb()], True

    def watch() -> None:
        while running:
            result[0] = max(result[0], _anonymous_mb())
            time.sleep(0.02)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield result
    finally:
        running = False
        watcher.join()


def _anonymous_mb() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1000
    return 0.0


def main(who: str, data: str, scratch: str, uri: str = "", seconds: str = "") -> None:
    """Measures one system."""
    global SECONDS
    SECONDS = float(seconds or SECONDS)
    system = Ours(uri) if who == "ours" else PEERS[who]()
    print(json.dumps(measure(system, Data.open(Path(data)), Path(scratch))))


if __name__ == "__main__":
    main(*sys.argv[1:])
