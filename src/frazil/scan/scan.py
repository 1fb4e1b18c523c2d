"""A scan of a table: which rows, which columns, as of when. Nothing is read before it is asked for, in whatever form.

scan = lake.table("lakehouse.sales").scan("country = 'NO'", columns=["order_id", "amount"], at="closing-2024")
scan.count()
scan.to_arrow()      # also to_batches(), to_polars(), to_pandas(), to_duckdb(), to_daft(), to_spark()
print(scan.explain())
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import AlwaysTrue

from frazil.errors import ScanError, VectorError
from frazil.moved import warn_former
from frazil.scan.planning import EngineReport, ScanReport
from frazil.scan.reading import NearestRequest, RowScan

if TYPE_CHECKING:
    import daft
    import duckdb
    import pandas  # type: ignore[import-untyped]
    import polars
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from frazil.scan.engines import ScannedTable
    from frazil.scan.planning import Named
    from frazil.scan.reading import NearestRows


@dataclass(frozen=True, repr=False)
class Scan(RowScan):
    """Rows of a table, for any library. Every call that reads plans again from cached manifests and reads the files of
    the same snapshot.
    """

    # for engines that read the table themselves
    home: ScannedTable | None = field(default=None, repr=False, compare=False)

    def explain(
        self, *, row_groups: bool = True, engine: str | None = None, session: SparkSession | None = None
    ) -> ScanReport:
        """What is skipped, layer by layer, and by which term. For row groups the footers of the files that are left are
        read.

        With an engine (`duckdb`, `daft`, or `spark` with its session) also what that one would push down, and what not.
        """
        report = self.explain_files(row_groups=row_groups)
        if engine is not None:
            report.engine = self._explain_engine(engine, session)
        return report

    def _explain_engine(self, engine: str, session: SparkSession | None) -> EngineReport:
        from frazil.scan.engines import explain_engine

        if self.home is None or self.request.is_incremental:
            raise ScanError(
                f"{self.state.name}: engines are asked for their plans of a table at a snapshot, not of what came "
                f"between two",
                table=self.state.name,
            )
        return explain_engine(self.home, self, engine, session=session)

    def nearest(
        self,
        column: str,
        vectors: Any,
        *,
        k: int = 10,
        metric: str | None = None,
        at: Named | None = None,
        exact: bool = False,
        embed: Callable[[list[str]], Any] | None = None,
    ) -> NearestRows:
        """The k rows of the scan whose vectors are nearest to a vector, or to each of several: `to_arrow()` and others.

        The rows have the columns of the scan and `_distance`, the nearest row first; for several vectors also `_query`,
        the number of the vector. `metric` is `cosine`, `l2` or `ip`; by default that of the column's only index, or
        `cosine`. `at` searches another snapshot than that of the scan. An index of the column for the metric is used
        unless the search is `exact`. Rows whose vector is null, of another dimension or not finite are left out; zero
        vectors have no cosine.

        Instead of vectors, texts can be given: `embed` makes a vector of each, or what `vector_index(..., embed=...)`
        says in the project of the current folder.
        """
        if self.home is None or self.request.is_incremental:
            raise VectorError(
                f"{self.state.name}: vectors are searched in a table at a snapshot, not in what came between two",
                table=self.state.name,
                problem="incremental",
            )
        return self.home.open_nearest(self, NearestRequest(column, vectors, k, metric, at, exact, embed))

    def __repr__(self) -> str:
        """The table and what is read of it."""
        columns = "all columns" if self.columns is None else ", ".join(self.columns)
        limit = "" if self.limit is None else f", limit {self.limit:,}"
        at = "" if self.request.snapshot_id is None else f" at snapshot {self.request.snapshot_id}"
        where = "" if isinstance(self.request.filter, AlwaysTrue) else f", filter {self.request.filter}"
        return f"<Scan of {self.state.name}{at}: {columns}{where}{limit}>"

    def _repr_html_(self) -> str:
        """What is read, for a notebook. Nothing is read for it."""
        from frazil.markup import html_table

        facts = {
            "table": self.state.name,
            "snapshot": self.request.snapshot_id,
            "columns": "all" if self.columns is None else ", ".join(self.columns),
            "filter": None if isinstance(self.request.filter, AlwaysTrue) else self.request.filter,
            "limit": None if self.limit is None else f"{self.limit:,}",
        }
        rows = [(name, value) for name, value in facts.items() if value is not None]
        return html_table(("scan", ""), rows)

    # --- other libraries ---------------------------------------------------------------------------------------------

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a pandas frame."""
        from frazil.scan.engines import to_pandas

        return to_pandas(self)

    def to_polars(self) -> polars.DataFrame:
        """The rows as a Polars frame."""
        from frazil.scan.engines import to_polars

        return to_polars(self)

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """The rows as a DuckDB relation, read when it is."""
        from frazil.scan.engines import to_duckdb

        return to_duckdb(self, connection)

    def to_daft(self) -> daft.DataFrame:
        """The rows as a Daft frame."""
        from frazil.scan.engines import to_daft

        return to_daft(self)

    def to_spark(self, session: SparkSession | None = None) -> DataFrame:
        """The rows as a Spark DataFrame; its tasks read the files. Without a session, the active one is used."""
        from frazil.scan.engines import active_session, to_spark

        return to_spark(self, session or active_session())

    # --- former names ------------------------------------------------------------------------------------------------

    def read_all(self) -> pa.Table:
        """Deprecated: use `to_arrow()`."""
        warn_former("Scan.read_all()", "to_arrow()")
        return self.to_arrow()

    def arrow_stream(self) -> pa.RecordBatchReader:
        """Deprecated: use `to_batches()`."""
        warn_former("Scan.arrow_stream()", "to_batches()")
        return self.to_batches()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Deprecated: use `to_batches()`."""
        warn_former("Scan.batches()", "to_batches()")
        return self.iter_batches()
