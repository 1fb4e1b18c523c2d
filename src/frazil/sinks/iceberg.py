"""The Iceberg target: what the sink asks of a table, through a REST catalog."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError, ValidationError
from pyiceberg.typedef import Identifier

from frazil.client import Change
from frazil.errors import CommitConflict, RowRefused, SchemaMismatch, SinkError
from frazil.moved import former_fields
from frazil.protocol import PROPERTY_PROJECT, PROPERTY_UPSERTED_BY
from frazil.write.commit import (
    MAIN,
    Append,
    Claim,
    CommitCatalog,
    Committed,
    OpenQuarantine,
    PartProgress,
    PlannedTakeover,
    Progress,
    Publication,
    Publishable,
    Publisher,
    QuarantinedRow,
    RetryPolicy,
    as_arrow,
    load_existing,
    publish_together,
    quarantine_of,
    set_properties,
    until_decided,
)
from frazil.write.commit import SCHEMA as QUARANTINE_SCHEMA
from frazil.write.contract import Contract, as_table, check_new_names, roots_of
from frazil.write.files import Buffer, TableLayout, WrittenFile, arrow_schema, check_present, write_files

if TYPE_CHECKING:
    from pyiceberg.table import Table

EVOLVE_ATTEMPTS = 10


@former_fields(patience="retry")
@dataclass
class IcebergTarget:
    """A ref of an Iceberg table, and the table's quarantine."""

    catalog: CommitCatalog
    identifier: Identifier
    ref: str = MAIN
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    key: Sequence[str] = ()  # by which rows are upserted; its quarantine then says so, for a replay appends
    quarantine_ref: str = MAIN  # the branch of the quarantine that gets refused rows; made if it is not there
    formats: Collection[int] = field(default=(1, 2), kw_only=True)  # versions of the format that can be written
    # as it was loaded a moment ago, for the first who needs it
    table: Table | None = field(default=None, kw_only=True, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._publisher = Publisher(self.catalog, self.identifier, self.ref, self.retry)
        self.table = self.table or load_existing(self.catalog, self.identifier)
        self._metadata, self._layout = self.table.metadata, self._layout_of(self.table)

    @property
    def layout(self) -> TableLayout:
        """The table as it was seen last; a commit may find that others have changed it."""
        return self._layout

    @property
    def format_version(self) -> int:
        """The version of the table's format."""
        return self._metadata.format_version

    def progress(self) -> Progress:
        """The progress of every part that writes to the ref."""
        return self._publisher.progress()

    def new_snapshot_id(self) -> int:
        """An id for a snapshot of the table, for those who must name it before it is made."""
        return self._metadata.new_snapshot_id()

    def take_over(self, part: str, writer: str) -> PartProgress:
        """Makes this writer the only one of the part, and tells where to go on."""
        return self._publisher.take_over(part, writer)

    def plan_takeover(self, part: str, writer: str) -> PlannedTakeover:
        """What this writer needs to take over with its first commit; until then nothing changes."""
        loaded, self.table = self.table, None
        return self._publisher.plan_takeover(part, writer, loaded)

    def commit(
        self,
        files: Sequence[WrittenFile],
        claim: Claim,
        *,
        quarantined: Sequence[QuarantinedRow] = (),
        also: Mapping[Identifier, pa.Table] | None = None,
        change: Publishable | None = None,
    ) -> PartProgress:
        """Rows, quarantined rows, rows of other tables and progress, in one commit."""
        quarantine_files: Sequence[WrittenFile] = ()
        if quarantined:
            layout = self.open_quarantine(claim.part).layout
            quarantine_files = write_files(as_arrow(quarantined, layout.arrow), layout)
        return self.publish(files, claim, quarantine_files=quarantine_files, also=also, change=change).progress

    def publish(
        self,
        files: Sequence[WrittenFile],
        claim: Claim,
        *,
        quarantine_files: Sequence[WrittenFile] = (),
        also: Mapping[Identifier, pa.Table] | None = None,
        change: Publishable | None = None,
    ) -> Committed:
        """The same for files that are all written; `also` may hold appends of written files. `change` takes the place
        of the append of `files`.
        """
        publication = self.prepare(files, claim, quarantine_files=quarantine_files, also=also, change=change)
        (published,) = publish_together([publication])
        self._metadata, self._layout = published.table.metadata, self._renewed(published.table)
        return published

    def prepare(
        self,
        files: Sequence[WrittenFile],
        claim: Claim,
        *,
        quarantine_files: Sequence[WrittenFile] = (),
        also: Mapping[Identifier, pa.Table] | None = None,
        change: Publishable | None = None,
    ) -> Publication:
        """What `publish` commits, for those who publish several tables together."""
        self.retry.on_step("files written")
        check_present([*files, *quarantine_files], self._layout)
        others = [
            rows if isinstance(rows, Append) else self._append(identifier, rows)
            for identifier, rows in (also or {}).items()
        ]
        ref, is_branch = self.quarantine_ref, self.quarantine_ref != MAIN
        others.append(Append(quarantine_of(self.identifier), quarantine_files, ref, new_branch=is_branch))
        target = change or Append(self.identifier, files, self.ref)
        return Publication(self._publisher, target, claim, tuple(others))

    def open_quarantine(self, part: str) -> OpenQuarantine:
        """The quarantine table, made if it is not there. Its rows come in with the table's own: it has no progress of
        its own.
        """
        return OpenQuarantine(TableLayout.of(self._patiently(self._quarantine)))

    def evolve(self, schema: pa.Schema, *, names: Sequence[str]) -> None:
        """Adds the fields of the rows that the table does not have, as optional columns; the others stay as
        they are.
        """
        wanted = pa.schema(roots_of(schema, names))
        for _ in range(EVOLVE_ATTEMPTS):
            table = load_existing(self.catalog, self.identifier)
            check_new_names(arrow_schema(table.schema()), wanted, table=self._layout.name)
            try:
                with table.update_schema() as update:
                    update.union_by_name(wanted)
            except CommitConflict:
                continue
            except (ValidationError, ValueError, TypeError) as exc:
                raise SchemaMismatch(
                    self._layout.name, names[0], expected="a column that can be added", got=str(exc)
                ) from exc
            self._layout = self._layout_of(load_existing(self.catalog, self.identifier))
            return
        raise SinkError(
            f"{self._layout.name}: columns {', '.join(names)} could not be added: others kept changing the schema",
            table=self._layout.name,
        )

    def _append(self, identifier: Identifier, rows: pa.Table) -> Append:
        layout = TableLayout.of(self._patiently(lambda: load_existing(self.catalog, identifier)))
        accepted = Contract.of(layout).accept(as_table(rows))
        if accepted.rejected:
            first = accepted.rejected[0]
            raise RowRefused(layout.name, first.reason, position=f"row {first.number} of also()", row=first.raw)
        buffer = Buffer(layout)
        try:
            buffer.add(accepted.rows)
            return Append(identifier, buffer.flush())
        except BaseException:
            buffer.abandon()
            raise

    def _quarantine(self) -> Table:
        name = quarantine_of(self.identifier)
        try:
            table = self.catalog.load_table(name)
        except NoSuchTableError:
            with contextlib.suppress(TableAlreadyExistsError):  # another part was faster
                self.catalog.create_table(name, QUARANTINE_SCHEMA, properties=self._owner())
            table = self.catalog.load_table(name)
        if self.key and PROPERTY_UPSERTED_BY not in table.properties:
            self.catalog.commit_changes([Change(name, (), set_properties({PROPERTY_UPSERTED_BY: ", ".join(self.key)}))])
        return table

    def _owner(self) -> dict[str, str]:
        """The property that says which project the table belongs to now, if it has one."""
        owner = load_existing(self.catalog, self.identifier).properties.get(PROPERTY_PROJECT)
        return {PROPERTY_PROJECT: owner} if owner else {}

    def _patiently(self, load: Callable[[], Table]) -> Table:
        """A sink that is open waits for a catalog that is away, here as in its commits."""
        return until_decided(lambda _: load(), name=".".join(self.identifier), retry=self.retry)

    def _layout_of(self, table: Table) -> TableLayout:
        return TableLayout.of(table, formats=self.formats)

    def _renewed(self, table: Table) -> TableLayout:
        fresh = self._layout_of(table)
        same = self._layout.schema.schema_id == fresh.schema.schema_id and self._layout == fresh
        return self._layout if same else fresh
