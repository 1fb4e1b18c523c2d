"""Wrong rows of a snapshot, found by queries as the audits of pipelines have them: `SELECT ... FROM {table} ...`.

A query may look at rows together (a key that is there twice), so statistics decide nothing: each snapshot that is
checked is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from frazil.errors import CheckError, MissingExtra
from frazil.history.row_checks import Effort, Findings, FoundRow
from frazil.scan.planning import ScanRequest, Source, TableState
from frazil.scan.reading import RowScan
from frazil.write.contract import why_unreadable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

PLACEHOLDER = "{table}"
CHECKED = "frazil_checked_table"  # what the query calls the table, once it is translated
RunQuery = Callable[[str, "dict[str, RowScan]"], "pa.RecordBatchReader"]  # SQL, and scans by the names that it uses


@dataclass
class QuerySearch:
    """Finds what queries select from a table's snapshots, read with the columns of one schema."""

    table: Table
    source: Source
    schema: Schema
    queries: Sequence[str]  # in DuckDB's dialect
    run: RunQuery
    effort: Effort = field(default_factory=Effort)

    @classmethod
    def of(cls, table: Table, source: Source, schema: Schema, texts: Sequence[str], run: RunQuery) -> QuerySearch:
        """The search for queries in Spark's dialect."""
        return cls(table, source, schema, [translate_query(text) for text in texts], run)

    def has_rows(self, snapshot_id: int) -> bool:
        """Whether one of the queries finds a row in a snapshot."""
        self.effort.snapshots += 1
        return any(self._first(f"SELECT * FROM ({query}) LIMIT 1", snapshot_id) for query in self.queries)  # noqa: S608

    def still_has_rows(self, snapshot_id: int) -> bool | None:
        """Not known: only the queries tell."""
        return None

    def find(self, snapshot_id: int, limit: int) -> Findings:
        """How many rows the queries find in a snapshot, and the first `limit` of them, with the query's columns."""
        total, samples = 0, list[FoundRow]()
        for query in self.queries:
            total += self._first(f"SELECT count(*) AS rows FROM ({query})", snapshot_id)[0]["rows"]  # noqa: S608
            if left := limit - len(samples):
                rows = self._first(f"SELECT * FROM ({query}) LIMIT {left}", snapshot_id)  # noqa: S608
                samples += [FoundRow(row) for row in rows]
        return Findings(total, tuple(samples))

    def _first(self, sql: str, snapshot_id: int) -> list[dict[str, Any]]:
        name = ".".join(self.table.name())
        request = ScanRequest(snapshot_id=snapshot_id, schema_id=self.schema.schema_id)
        scan = RowScan(TableState.of(name, self.table.metadata), self.source, request)
        self._count(scan)
        rows: list[dict[str, Any]] = self.run(sql, {CHECKED: scan}).read_all().to_pylist()
        return rows

    def _count(self, scan: RowScan) -> None:
        """DuckDB asks for what it needs; that is all files, at most."""
        report = scan.plan().report
        self.effort.files_read += report.files
        self.effort.bytes_read += report.bytes


def translate_query(text: str) -> str:
    """A query in Spark's dialect as DuckDB's, with a name in the place of `{table}`.

    >>> translate_query("SELECT id FROM {table} GROUP BY 1 HAVING count(*) > 1")
    'SELECT id FROM frazil_checked_table GROUP BY 1 HAVING COUNT(*) > 1'
    """
    if PLACEHOLDER not in text:
        raise CheckError(
            f"check '{text:.80}' does not name {PLACEHOLDER}",
            hint="SELECT ... FROM {table} ...: the rows that it finds are wrong",
            check=text,
            problem="no-table",
        )
    if reason := why_unreadable(text):
        raise CheckError(f"check '{text:.80}...': {reason}", check=text, reason=reason, problem="too-deep")
    try:
        import sqlglot
        from sqlglot.errors import SqlglotError
    except ModuleNotFoundError as exc:
        raise MissingExtra("sqlglot", extra="sinks") from exc
    try:
        statements = sqlglot.transpile(
            text.strip().rstrip(";").replace(PLACEHOLDER, CHECKED), read="spark", write="duckdb"
        )
    except (SqlglotError, RecursionError) as exc:
        message = f"check '{text}' is not a query: {str(exc).splitlines()[0]}"
        raise CheckError(message, check=text, problem="syntax") from exc
    if len(statements) != 1:
        raise CheckError(
            f"check '{text}' has {len(statements)} statements",
            hint="write one query",
            check=text,
            problem="several-statements",
        )
    return statements[0]
