"""Who carries out a build: this process, or the tasks of Spark. Both read the same rows and write the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit
from uuid import uuid4

import pyarrow as pa
from pyiceberg.io import OutputFile

from frazil.errors import DataFileUnreadable, VectorError
from frazil.scan.planning import Files, FileTask, Planner, ScanRequest, Source, TableState
from frazil.scan.reading import FileReader, ReadPlan
from frazil.vector.build import collect_segment
from frazil.vector.record import SegmentInfo
from frazil.vector.segment import CoveredFile, Rows, Shape, open_segment, write_segment

if TYPE_CHECKING:
    from pyiceberg.io import FileIO, InputFile, OutputStream
    from pyspark.sql import SparkSession

    from frazil.scan.reading import RowScan
    from frazil.vector.codebook import Codebook
    from frazil.vector.metric import Numbers
    from frazil.vector.moved import MovedRows

SAMPLE_TASK_ROWS = 65_536
Finished = Callable[[int], None]  # gets the number of finished segments


@dataclass(frozen=True)
class Column:
    """A column of vectors with everything that it takes to read its files, here or elsewhere."""

    state: TableState
    files: Files
    request: ScanRequest
    field_id: int

    @classmethod
    def of(cls, scan: RowScan) -> Column:
        """The only column of a scan."""
        return cls(scan.state, scan.source.open, scan.request, scan.fields[0].field_id)

    def reader(self) -> FileReader:
        planner = Planner(self.state, Source.of(self.files.io).cache, self.request)
        return FileReader(ReadPlan.of(planner, self.files, [planner.schema.find_field(self.field_id)]))


@dataclass(frozen=True)
class Segments:
    """Segments to be written: the files of each, and where it goes."""

    column: Column
    codebook: Codebook
    groups: tuple[tuple[FileTask, ...], ...]
    paths: tuple[str, ...]
    moved: MovedRows | None = None

    def write(self, number: int) -> SegmentInfo:
        """A segment that is complete: the one that a killed build has left, or a new one."""
        io, path = self.column.files.io, self.paths[number]
        if (info := find_segment(io, path, self.codebook)) is not None:
            return info
        collector = collect_segment(self.codebook, self.groups[number], self.column.reader(), self.moved)
        size = rewrite_segment(io, path, collector.files, collector.lists(), self.codebook, self.column.field_id)
        return SegmentInfo(path, size, len(collector), len(collector.files))


class Engine(Protocol):
    """Reads samples and writes segments."""

    def sample(
        self, column: Column, tasks: Sequence[FileTask], chosen: Sequence[tuple[int, Numbers]]
    ) -> list[pa.Array]: ...

    def write(self, segments: Segments, finished: Finished) -> list[SegmentInfo]: ...


class LocalEngine:
    """Builds in this process."""

    def sample(
        self, column: Column, tasks: Sequence[FileTask], chosen: Sequence[tuple[int, Numbers]]
    ) -> list[pa.Array]:
        """The vectors at the chosen positions, in the order of the files."""
        reader = column.reader()
        return [batch.column(0) for number, positions in chosen for batch in reader.take(tasks[number], positions)]

    def write(self, segments: Segments, finished: Finished) -> list[SegmentInfo]:
        """All segments, one after the other."""
        infos = []
        for number in range(len(segments.groups)):
            infos.append(segments.write(number))
            finished(len(infos))
        return infos


class SparkEngine:
    """Builds in Spark's tasks: a task for each segment. No row passes through Spark but the sample."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def sample(
        self, column: Column, tasks: Sequence[FileTask], chosen: Sequence[tuple[int, Numbers]]
    ) -> list[pa.Array]:
        """The same vectors in the same order."""
        from frazil.spark import spread

        parts = _portions(chosen)

        def work(number: int) -> Iterator[pa.RecordBatch]:
            arrays = LocalEngine().sample(column, tasks, parts[number])
            for order, array in enumerate(arrays):
                batch = pa.record_batch([array], names=["vectors"])
                content = batch.serialize().to_pybytes()
                schema = batch.schema.serialize().to_pybytes()
                yield pa.record_batch(
                    [
                        pa.array([number]),
                        pa.array([order]),
                        pa.array([schema], pa.binary()),
                        pa.array([content], pa.binary()),
                    ],
                    names=["part", "place", "schema", "content"],
                )

        layout = "part long, place long, schema binary, content binary"
        rows = self._run(column, lambda: spread(self._spark, len(parts), work, layout).collect()) if parts else []
        arrays = []
        for row in sorted(rows, key=lambda row: (row["part"], row["place"])):
            schema = pa.ipc.read_schema(pa.py_buffer(bytes(row["schema"])))
            arrays.append(pa.ipc.read_record_batch(pa.py_buffer(bytes(row["content"])), schema).column(0))
        return arrays

    def write(self, segments: Segments, finished: Finished) -> list[SegmentInfo]:
        """All segments, one per task."""
        import json

        from frazil.spark import as_report, collect_reports, spread

        count = len(segments.groups)
        if not count:
            return []
        tasks = self._spark.sparkContext.accumulator(0)
        # Codes of moved rows are many bytes: a worker loads them once, not with each task.
        moved = None if segments.moved is None else self._spark.sparkContext.broadcast(segments.moved)
        alone = replace(segments, moved=None)

        def work(number: int) -> Iterator[pa.RecordBatch]:
            whole = alone if moved is None else replace(alone, moved=moved.value)
            info = whole.write(number)
            tasks.add(1)
            yield as_report({"number": number, **asdict(info)})

        try:
            job = spread(self._spark, count, work, "report string")
            with _watched(lambda: min(tasks.value, count), finished):  # a task may run twice
                reports = [json.loads(text) for text in self._run(segments.column, lambda: collect_reports(job))]
        finally:
            if moved is not None:
                moved.destroy()
        infos = {report.pop("number"): SegmentInfo(**report) for report in reports}
        return [infos[number] for number in range(count)]

    def _run(self, column: Column, job: Callable[[], Any]) -> Any:
        from frazil.spark import python_error, spark_errors

        try:
            return job()
        except spark_errors() as exc:
            raise VectorError(
                f"{column.state.name}: the Spark job failed: {python_error(str(exc))}",
                hint="run the same command again: segments that are complete are used",
                table=column.state.name,
                problem="spark",
            ) from exc


@contextmanager
def _watched(count: Callable[[], int], finished: Finished) -> Iterator[None]:
    """Reports how many tasks are finished, every second while a job runs, and at its end."""
    over = Event()

    def look() -> None:
        while not over.wait(1):
            finished(count())

    watcher = Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
    finished(count())


def _portions(chosen: Sequence[tuple[int, Numbers]]) -> list[list[tuple[int, Numbers]]]:
    """Files whose samples one task reads."""
    portions: list[list[tuple[int, Numbers]]] = []
    size = 0
    for number, positions in chosen:
        if not portions or size + len(positions) > SAMPLE_TASK_ROWS:
            portions.append([])
            size = 0
        portions[-1].append((number, positions))
        size += len(positions)
    return portions


def find_segment(io: FileIO, path: str, codebook: Codebook) -> SegmentInfo | None:
    """A segment that is complete and undamaged; None if there is none. All of it is read."""
    source = io.new_input(path)
    try:
        segment = open_segment(source, codebook)
        segment.verify()
    except DataFileUnreadable:
        return None
    return SegmentInfo(path, len(source), int(segment.lists.starts[-1]), len(segment.files))


def rewrite_segment(
    io: FileIO, path: str, files: Sequence[CoveredFile], lists: Iterable[Rows], codebook: Codebook, field_id: int
) -> int:
    """Writes a segment, in place of the one that is there; gives its size."""
    shape, own = Shape(len(codebook.rotation)), codebook.fingerprint
    return write_again(
        io, path, lambda output: write_segment(output, files, lists, shape, field_id=field_id, codebook=own)
    )


def write_again(io: FileIO, path: str, write: Callable[[OutputFile], int]) -> int:
    """Writes a file, in place of the one that is there; gives its size. Others may write it at the same time: names
    follow from contents, so each replaces it by the same bytes. It is whole at any time, and never gone.
    """
    url = urlsplit(path)
    if url.scheme not in ("", "file"):
        return write(_Replacing(io.new_output(path)))  # object stores show a file when it is complete
    mark = f".{uuid4().hex}.part"
    file = Path(url.path if url.scheme else path)
    part = file.with_name(file.name + mark)
    try:
        size = write(io.new_output(path + mark))
        part.replace(file)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return size


class _Replacing(OutputFile):
    """A file that may be there already."""

    def __init__(self, output: OutputFile) -> None:
        super().__init__(output.location)
        self._output = output

    def __len__(self) -> int:
        return len(self._output)

    def exists(self) -> bool:
        return self._output.exists()

    def to_input_file(self) -> InputFile:
        return self._output.to_input_file()

    def create(self, overwrite: bool = False) -> OutputStream:
        return self._output.create(overwrite=True)


def facts_of(tasks: Iterable[FileTask]) -> list[list[object]]:
    """What tells files apart: their names and row counts."""
    return [[task.path, task.rows] for task in tasks]
