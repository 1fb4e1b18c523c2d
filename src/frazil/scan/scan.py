"""A scan of a table: which rows, which columns, as of when. Nothing is read before it is asked for, in whatever form.

scan = lake.table("lakehouse.sales").scan("country = 'NO'", columns=["order_id", "amount"], tag="closing-2024")
scan.count()
scan.arrow_stream()  # batch after batch; also .read_all(), .to_polars(), .to_pandas(), .to_duckdb(), .to_daft(),
.to_spark(session) print(scan.explain())
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from frazil.errors import ScanError
from frazil.scan.planning import EngineReport, ScanReport
from frazil.scan.reading import RowScan

if TYPE_CHECKING:
    import daft
    import duckdb
    import pandas  # type: ignore[import-untyped]
    import polars
    from pyspark.sql import DataFrame, SparkSession

    from frazil.scan.engines import ScannedTable


@dataclass(frozen=True)
class Scan(RowScan):
    """Rows of a table, for any library. Every call that reads plans anew from cached manifests and reads the files of
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

    def to_spark(self, session: SparkSession) -> DataFrame:
        """The rows as a Spark frame; its tasks read the files."""
        from frazil.scan.engines import to_spark

        return to_spark(self, session)
