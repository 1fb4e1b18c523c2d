"""A vector search as an Arrow dataset, for engines that ask datasets for columns and filters (DuckDB): the search runs
when its rows are read, and reads the columns that the query needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from frazil.errors import FrazilError

if TYPE_CHECKING:
    from frazil.scan.reading import NearestRows


class NearestDataset(ds.InMemoryDataset):  # type: ignore[misc]  # pyarrow has no types
    """A dataset whose rows come from a vector search."""

    nearest: NearestRows
    failed: FrazilError | None  # what went wrong: an engine tells only its text

    @classmethod
    def of(cls, nearest: NearestRows) -> NearestDataset:
        dataset = cls(nearest.schema.empty_table())
        dataset.nearest, dataset.failed = nearest, None
        return dataset

    def scanner(self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **_: Any) -> _Asked:
        """What an engine asks for. Its filter holds for the rows that were found: it does not make the search find
        others.
        """
        return _Asked(self, columns, filter)


class _Asked:
    """The rows that were asked for."""

    def __init__(self, dataset: NearestDataset, columns: Sequence[str] | None, filter: pc.Expression | None) -> None:
        self._dataset, self._columns, self._filter = dataset, columns, filter

    def to_reader(self) -> pa.RecordBatchReader:
        names = self._dataset.schema.names if self._columns is None else list(self._columns)
        try:
            rows = self._dataset.nearest.select(names).to_arrow()
        except FrazilError as exc:
            self._dataset.failed = exc
            raise
        rows = rows.select(names)
        return (rows if self._filter is None else rows.filter(self._filter)).to_reader()
