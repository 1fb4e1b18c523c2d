"""What every run did: the companion table `__runs`, appended to in the commit of the rows; a run that failed is noted
by itself.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from frazil.config import is_secret
from frazil.protocol import RUNS_SUFFIX
from frazil.tables import Table, column
from frazil.write.commit import MAIN, head

if TYPE_CHECKING:
    import pyarrow as pa

    from frazil.client import FrazilCatalog

COLUMNS = (
    column("run_id", "string", required=True, doc="The run; the ledger names it, too"),
    column("pipeline", "string", required=True, doc="What ran"),
    column("status", "string", required=True, doc="committed, or failed: nothing of it is in the table"),
    column("started_at", "timestamptz", required=True, doc="When it began"),
    column("seconds", "double", required=True, doc="How long it took, up to the commit"),
    column("files", "long", required=True, doc="Landing files that it read"),
    column("bytes", "long", required=True, doc="Their size"),
    column("rows_in", "long", required=True, doc="Rows in these files"),
    column("rows", "long", required=True, doc="Rows written to the table"),
    column("duplicates", "long", required=True, doc="Rows left out, because another one of their key came later"),
    column("quarantined", "long", required=True, doc="Rows written to the quarantine table"),
    column("snapshot_id", "long", doc="The snapshot of the table that the run made"),
    column("error", "string", doc="Why it failed"),
)
LONGEST_ERROR = 1000
ATTEMPTS = 3


@dataclass(frozen=True)
class RunResult:
    """What a run did; no snapshot means that nothing was new."""

    pipeline: str
    table: str
    files: int = 0
    rows: int = 0
    snapshot_id: int | None = None
    rows_in: int = 0
    duplicates: int = 0
    quarantined: int = 0
    bytes: int = 0
    seconds: float = 0.0
    run_id: str = ""
    started_at: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))
    error: str | None = None
    # of an upsert, with the three below: what became of the changes; `rows` are those inserted or updated
    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None
    unchanged: int | None = None  # changes older than the row that is there, and deletes of keys that are not
    # files loaded again, because their content is not, or may not be, what was loaded before
    changed: tuple[str, ...] = ()
    # those of `changed` with the same size, whose loaded content the ledger has no hash of
    unverified: tuple[str, ...] = ()
    touched: tuple[str, ...] = ()  # files not loaded again: another modification time, the same content
    # files loaded, and the path that the same content was loaded from
    copies: Mapping[str, str] = field(default_factory=dict)
    # the tables that the rows were made from, each at a snapshot
    inputs: Mapping[str, int | None] = field(default_factory=dict)

    @property
    def status(self) -> str:
        return "committed" if self.error is None else "failed"


def runs_of(target: Table | str) -> Table:
    """The declaration of the table of a target's runs; the target may be a name."""
    name = target if isinstance(target, str) else target.name
    return Table(f"{name}{RUNS_SUFFIX}", *COLUMNS)


def run_rows(result: RunResult, schema: pa.Schema) -> pa.Table:
    """What a run appends to the table of runs."""
    import pyarrow as pa

    values = asdict(result) | {"status": result.status}
    return pa.table({field.name: pa.array([values[field.name]], field.type) for field in schema}, schema=schema)


def note_run(
    result: RunResult, target: Table | str, catalog: FrazilCatalog, *, owner: str | None = None, ref: str = MAIN
) -> None:
    """Remembers a run by itself: one that failed, or a stream that ended. If the catalog is away, there is no note.
    A table of runs that is new belongs to project `owner`. A run in an environment is noted on its branch.
    """
    from frazil.errors import CommitConflict
    from frazil.pipelines.ledger import append_rows, open_companion

    with suppress(Exception):
        table = open_companion(runs_of(target), catalog, owner=owner)
        append = append_rows(table, run_rows(result, table.schema().as_arrow()), ref)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                catalog.commit_changes(
                    [append.build(catalog.load_table(table.name()), attempt=attempt, summary={}, properties={})]
                )
                return
            except CommitConflict:
                continue


def tell_error(error: BaseException, properties: Mapping[str, str]) -> str:
    """What went wrong, shortened, with the values of secret properties struck out."""
    text = getattr(error, "message", None) or f"{type(error).__name__}: {error}"
    for key, value in properties.items():
        if is_secret(key) and value:
            text = text.replace(value, "**********")
    return text[:LONGEST_ERROR]


def read_runs(
    target: Table | str, catalog: FrazilCatalog, *, pipeline: str | None = None, env: str | None = None
) -> list[dict[str, Any]]:
    """The runs of a target, the latest first; none, if there was none. In an environment, those of its branch where
    there is one.
    """
    from pyiceberg.exceptions import NoSuchTableError

    from frazil.history import ref_in
    from frazil.scan.reading import scan_rows

    try:
        table = catalog.load_table(runs_of(target).identifier)
    except NoSuchTableError:
        return []
    if (snapshot := head(table.metadata, ref_in(table.metadata, env, table=".".join(table.name())))) is None:
        return []
    rows: Sequence[dict[str, Any]] = scan_rows(table, snapshot_id=snapshot.snapshot_id).to_arrow().to_pylist()
    wanted = [row for row in rows if pipeline in (None, row["pipeline"])]
    return sorted(wanted, key=lambda row: row["started_at"], reverse=True)
