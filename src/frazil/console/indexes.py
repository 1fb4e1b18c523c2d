"""The vector indexes of a table: what each covers of the newest snapshot, its size, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from frazil.catalog import Context, Request, Response, as_bad_request, stored_indexes
from frazil.console.answers import console_json
from frazil.console.manifests import reading_slot
from frazil.console.rows import deadline_check
from frazil.errors import VectorError

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from frazil.console.served import ServedTable
    from frazil.vector import Coverage, Indexes, IndexRecord

MOST_SECONDS = 10.0


def list_indexes(ctx: Context, request: Request) -> Response:
    """The indexes by name, and those that are declared with the table and not built yet."""
    with reading_slot(request):
        stored, label = stored_indexes(ctx, request), str(request.name())
        from frazil.console.served import open_table
        from frazil.vector import Indexes

        check = deadline_check(
            request, MOST_SECONDS, what="Reading the indexes", hint="frazil index check has no such limit"
        )
        served = as_bad_request(lambda: open_table(ctx, request, check))
        indexes = Indexes(cast("Any", _Records(served.table, stored)), label)  # it is read, and never written
        records = as_bad_request(indexes.records)
        shown = [as_bad_request(lambda record=record: _describe(indexes, served, record)) for record in records]
        names = {record.name for record in records}
        declared = [
            {"name": each.name, "column": each.column, "metric": each.metric}
            for each in indexes.declared()
            if each.name not in names
        ]
    return console_json({"indexes": shown, "declared": declared})


@dataclass(frozen=True)
class _Records:
    """A table that is loaded already, with its records."""

    table: Table
    stored: list[dict[str, Any]]

    def load_table(self, _identifier: object) -> Table:
        return self.table

    def list_indexes(self, _identifier: object) -> list[dict[str, Any]]:
        return self.stored


def _describe(indexes: Indexes, served: ServedTable, record: IndexRecord) -> dict[str, Any]:
    facts = {
        "name": record.name,
        "column": next((each.name for each in served.table.schema().fields if each.field_id == record.field_id), None),
        "metric": record.metric,
        "dimension": record.dimension,
        "probes": record.probes,
        "version": record.version,
        "vectors": record.vectors,
        "bytes": sum(segment.size for segment in record.segments),
        "segments": [
            {"bytes": segment.size, "vectors": segment.vectors, "files": segment.files} for segment in record.segments
        ],
    }
    try:
        return facts | _judge(indexes.coverage(record, served.manifests))
    except VectorError as exc:  # its column was dropped, or has another type now
        return facts | {"state": "unusable", "files": None, "uncovered": None, "gone": None, "problems": [exc.message]}


def _judge(coverage: Coverage) -> dict[str, Any]:
    state = "damaged" if coverage.problems else "behind" if coverage.uncovered else "current"
    return {
        "state": state,
        "files": coverage.files,
        "uncovered": coverage.uncovered,
        "gone": len(coverage.gone),
        "problems": list(coverage.problems),
    }
