"""Rows that a query or a comparison gives, for any library: read once, as a stream or as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from frazil.errors import QueryError
from frazil.moved import warn_former
from frazil.notebook import showing_progress
from frazil.terminal import visible

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped]
    import polars
    import pyarrow as pa

SHOWN_ROWS = 20


class Result:
    """The rows of `Lake.sql` or `LakeTable.changes`.

    `to_arrow`, `to_pandas`, `to_polars` and `show` read the rows once and keep them, so they can be called again and in
    any order. `to_batches` streams the rows in bounded memory and keeps none.
    """

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self._reader = reader
        self._kept: list[pa.RecordBatch] = []
        self._streamed = False

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return self._reader.schema

    def to_batches(self) -> pa.RecordBatchReader:
        """The rows as an Arrow stream. It can be taken once: streamed rows are not kept."""
        import pyarrow as pa

        self._check_unread()
        self._streamed = True
        kept, self._kept = self._kept, []

        def batches() -> Iterator[pa.RecordBatch]:
            yield from kept
            yield from self._reader

        return pa.RecordBatchReader.from_batches(self.schema, batches()) if kept else self._reader

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        import pyarrow as pa

        self._check_unread()
        with showing_progress("query", "rows") as bar:
            for batch in self._reader:
                self._kept.append(batch)
                if bar is not None:
                    bar.done += batch.num_rows
        return pa.Table.from_batches(self._kept, schema=self.schema)

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a pandas DataFrame."""
        from frazil.scan.engines import as_pandas

        return as_pandas(self.to_arrow())

    def to_polars(self) -> polars.DataFrame:
        """The rows as a Polars DataFrame; UUIDs as their bytes."""
        from frazil.scan.engines import as_polars

        return as_polars(self.to_arrow())

    def show(self, limit: int = SHOWN_ROWS) -> None:
        """Prints the first rows as a table."""
        from frazil.lake.printing import is_number, print_rows

        more = self._keep(limit)
        rows = [row for batch in self._kept for row in batch.to_pylist()][:limit]
        right = [field.name for field in self.schema if is_number(field.type)]
        print_rows(self.schema.names, (list(row.values()) for row in rows), right=right)
        if more:
            print(f"first {limit:,} rows; show(limit=...) prints more")

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Lets every library that takes Arrow streams read the rows."""
        return self.to_batches().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        """The columns and their types."""
        return visible(f"<Result {', '.join(f'{field.name}: {field.type}' for field in self.schema)}>")

    def _repr_html_(self) -> str | None:
        """The first rows, for a notebook; none once they were streamed."""
        from frazil.lake.printing import is_number
        from frazil.markup import html_table

        if self._streamed:
            return None
        more = self._keep(SHOWN_ROWS)
        firsts = [batch.slice(0, SHOWN_ROWS) for batch in self._kept]
        rows = [row for batch in firsts for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)]
        right = [field.name for field in self.schema if is_number(field.type)]
        note = f"first {SHOWN_ROWS} rows" if more else None
        return html_table(self.schema.names, rows[:SHOWN_ROWS], right=right, more=note)

    def read_all(self) -> pa.Table:
        """Deprecated: use `to_arrow()`."""
        warn_former("read_all()", "to_arrow()")
        return self.to_arrow()

    def _keep(self, limit: int) -> bool:
        """Reads until more than `limit` rows are kept; whether there are more."""
        self._check_unread()
        count = sum(batch.num_rows for batch in self._kept)
        while count <= limit:
            try:
                batch = self._reader.read_next_batch()
            except StopIteration:
                return False
            self._kept.append(batch)
            count += batch.num_rows
        return True

    def _check_unread(self) -> None:
        if self._streamed:
            raise QueryError(
                "the rows were streamed by to_batches(), and are not kept",
                hint="run the query again",
                problem="streamed",
            )
