"""What a scan needs of vector search: `frazil.vector` has it, and comes after `scan`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped]
    import polars
    import pyarrow as pa

    from frazil.scan.planning import Named
    from frazil.scan.reading.rows import RowScan


@dataclass(frozen=True)
class NearestRequest:
    """What is searched for: vectors or texts in a column, how many rows for each, and how they are compared."""

    column: str
    vectors: Any
    k: int
    metric: str | None
    at: Named | None  # instead of the snapshot of the scan
    exact: bool
    embed: Callable[[list[str]], Any] | None


class NearestRows(Protocol):
    """The rows of a scan that are nearest to vectors, with the column `_distance`."""

    @property
    def schema(self) -> pa.Schema: ...

    def select(self, columns: Sequence[str]) -> NearestRows: ...

    def to_arrow(self) -> pa.Table: ...

    def to_pandas(self) -> pandas.DataFrame: ...

    def to_polars(self) -> polars.DataFrame: ...

    def explain(self) -> Any: ...


class Searchable(Protocol):
    """A table whose scans can be searched by vector."""

    def open_nearest(self, scan: RowScan, request: NearestRequest) -> NearestRows: ...
