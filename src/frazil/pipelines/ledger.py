"""Which landing files a table already holds: the companion table `__ledger`, appended to in the same commit as the
rows.

A property would grow with every file; a table does not, and any engine can read it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from frazil.pipelines.sources import SourceFile
from frazil.protocol import LEDGER_SUFFIX, PROPERTY_PROJECT
from frazil.tables import Table, column
from frazil.write.commit import MAIN, head

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table as LiveTable

    from frazil.write.commit import Append

COLUMNS = (
    column("pipeline", "string", required=True, doc="The pipeline that loaded the file"),
    column("path", "string", required=True, doc="The file, relative to the project"),
    column("size", "long", required=True, doc="Its size in bytes"),
    column(
        "tag", "string", required=True, doc="What changes with the file: its modification time and content, or ETag"
    ),
    column("run_id", "string", required=True, doc="The run that loaded it"),
)


def ledger_of(target: Table) -> Table:
    """The declaration of a table's ledger."""
    return Table(f"{target.name}{LEDGER_SUFFIX}", *COLUMNS)


def open_companion(declared: Table, catalog: Any, *, owner: str | None = None) -> LiveTable:
    """A table that accompanies a user's own; made if it is not there, for project `owner`. `catalog` is any of
    PyIceberg's.
    """
    from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError

    try:
        table: LiveTable = catalog.load_table(declared.identifier)
    except NoSuchTableError:
        with suppress(TableAlreadyExistsError):  # another run was faster
            catalog.create_table(
                declared.identifier, declared.schema(), properties={PROPERTY_PROJECT: owner} if owner else {}
            )
        table = catalog.load_table(declared.identifier)
    return table


def append_rows(table: LiveTable, rows: pa.Table, ref: str = MAIN) -> Append:
    """The append of some rows to a companion table; their file is written, and not committed. A branch that is not
    there is made, without the rows of main.
    """
    from frazil.write.commit import Append
    from frazil.write.files import TableLayout, write_files

    return Append(table.name(), write_files(rows, TableLayout.of(table)), ref, new_branch=ref != MAIN)


def read_ledger(ledger: LiveTable, pipeline: str, ref: str = MAIN) -> Iterator[pa.RecordBatch]:
    """Path, size and tag of the files that a pipeline has committed to a ref, in batches."""
    from frazil.scan.reading import scan_rows

    if (snapshot := head(ledger.metadata, ref)) is None:
        return
    columns, own = ("path", "size", "tag"), _equal("pipeline", pipeline)
    yield from scan_rows(ledger, columns, filter=own, snapshot_id=snapshot.snapshot_id).to_batches()


def ledger_rows(files: Sequence[SourceFile], *, pipeline: str, run_id: str, ledger: LiveTable) -> pa.Table:
    """What a run appends to the ledger."""
    import pyarrow as pa

    columns = {
        "pipeline": [pipeline] * len(files),
        "path": [file.path for file in files],
        "size": [file.size for file in files],
        "tag": [file.tag for file in files],
        "run_id": [run_id] * len(files),
    }
    return pa.table(columns, schema=ledger.schema().as_arrow())


def _equal(column_name: str, value: str) -> BooleanExpression:
    from pyiceberg.expressions import EqualTo

    return EqualTo(column_name, value)  # type: ignore[call-arg, arg-type]  # PyIceberg takes these two, its annotations do not
