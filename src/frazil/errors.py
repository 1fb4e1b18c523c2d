"""Every error that Frazil raises, as one tree.

    FrazilError                      base; `hint` says what to do next
    ├── ConfigError                  a setting is wrong; names the key and where it came from
    ├── MissingExtra                 a heavy library is not installed; says the install command
    ├── ProjectError                 lakehouse.py is missing, does not load, or lacks what was asked for
    │   └── OtherProject             tables belong to another project; names them and it
    ├── DeclarationError             a table is declared wrongly, or cannot become what is declared
    │   └── ChangeRefused            the change would break readers or lose data; holds every reason
    ├── StalePlan                    the table has changed since the plan was made; nothing of this step was done
    ├── TableBroken                  the catalog has the table, and cannot read its metadata file; names both
    ├── PipelineError                a run stopped; nothing of it was committed
    │   ├── SourceDrift              files have columns that the table does not have, or lack some; names them
    │   ├── SourceChanged            files that are loaded have other content now; names them
    │   ├── TooManyBadRows           more rows are bad than the pipeline allows; says which share, and what is wrong
    with them │   ├── MessagesLost             messages are gone from Kafka before they were read; says which
    │   └── AuditFailed              a check of the staged rows failed; main is as it was, the rows are on a branch
    ├── HistoryError                 a snapshot, time, branch or tag that the table does not have, or a change of them
    that is refused ├── UpkeepError                  a table cannot be looked after as asked; says what was left as it
    is │   └── RowsMismatch             a rewrite would have changed the rows; nothing of it was committed
    ├── ReferencesUnknown            a table may lead to a file that would be deleted, and cannot be read; nothing was
    deleted ├── ScanError                    a scan that cannot be planned; names the column, the value or the snapshot,
    and near ones │   ├── ManifestUnreadable       a manifest or manifest list is damaged; names it
    │   └── DataFileUnreadable       a data or delete file is damaged, or of a kind that is not read here; names it
    │       └── DataFileMissing      it is not there at all
    ├── QueryError                   SQL that cannot be run; names the table or column, and near ones
    ├── DownloadError                an artifact could not be fetched into the cache
    ├── CatalogError                 what the REST catalog answers; its HTTP status is in catalog/problems.py
    │   ├── BadRequest               the request is malformed; names the field
    │   │   ├── InvalidChange        well-formed, and not possible for this table or view
    │   │   └── MalformedLocation    a location that could mean two places
    │   ├── UnknownRoute             no operation has this path
    │   ├── MethodNotAllowed         the path exists, not with this method
    │   ├── NotFound
    │   │   ├── NoSuchWarehouse
    │   │   ├── NoSuchNamespace
    │   │   ├── NoSuchTable
    │   │   ├── NoSuchView
    │   │   ├── NoSuchFunction
    │   │   ├── NoSuchPlan           a plan id that this catalog did not give out
    │   │   ├── NoSuchPlanTask       a plan task that this catalog did not give out, or whose snapshot is gone
    │   │   └── MetadataMissing      the pointer is there, the metadata file is not
    │   ├── AlreadyExists
    │   ├── NamespaceNotEmpty
    │   ├── LocationRefused          outside the warehouse and every allowed prefix
    │   ├── PropertyRefused          a property by which clients would load code or reach other hosts
    │   ├── LocationOccupied         overlaps a place of another table, view or namespace; names it
    │   ├── Unprocessable            well-formed, and contradicts itself
    │   │   ├── KeyReused            an idempotency key sent with another request
    │   │   └── MetadataCorrupt      the metadata file is there, and is no table metadata
    │   ├── BodyTooLarge
    │   ├── BodyTooSlow
    │   ├── RequestTooSlow           the head did not arrive in time
    │   ├── UrlTooLong
    │   ├── HeadersTooLarge
    │   ├── TooBusy                  too many requests at a time; nothing was done
    │   ├── HostRefused              the Host header names another server
    │   ├── OriginRefused            a web page of another site sent the request
    │   ├── UnsupportedBody          an encoding of the body that the server does not read
    │   ├── NotSupported             a part of the specification that this server does not have
    │   ├── CommitConflict           certain: nothing was committed; refresh and retry
    │   ├── CommitUnknown            doubt: look before you retry
    │   └── Unavailable              the database or the object store cannot be reached or refuses access; nothing was
    changed ├── SchemaBehind                 the database has an older schema than this program; says the command ├──
    SinkError                    the sink stopped; what was not committed before is not committed
    │   ├── PartitionSpecError       a partition spec does not fit the schema; names the column and its type
    │   ├── SchemaMismatch           a batch lacks a field, has one too many, or one of another type
    │   ├── RowRefused               a row fails its type, NOT NULL or a check, and the policy is to stop
    │   ├── CheckError               a check cannot be understood, or names a column that is not there
    │   ├── WriteFailed              a data file or a temporary file could not be written: full, read-only, not
    reachable │   ├── RowsLost                 files hold fewer or more rows than were taken: a fault of ours, found
    before the commit │   ├── WriterFenced             another writer took over this part of the sink; stop, do not
    retry
    │   └── ProgressMismatch         rows were offered that do not follow what the table already holds
    └── ServiceError                 a server of the local stack; carries the service's name and the end of its log
        ├── PortInUse
        ├── JavaMissing
        ├── DiskFull
        ├── ServiceDied
        └── ServiceNotReady

A class exists for each thing that a caller can do differently; its facts are attributes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path


class FrazilError(Exception):
    """Base of all errors: a message that names the thing and what was found, and a hint with the next step."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


class ConfigError(FrazilError):
    """A setting is unknown or has a value of the wrong kind."""

    exit_code = 2


class MissingExtra(FrazilError):
    """A library that belongs to an extra is not installed."""

    def __init__(self, library: str, *, extra: str) -> None:
        super().__init__(
            f"{library} is not installed; it comes with the extra '{extra}'.",
            hint=f"pip install 'frazil[{extra}]'",
        )
        self.library = library
        self.extra = extra


class ProjectError(FrazilError):
    """`lakehouse.py` is missing, does not load, or lacks what was asked for."""


class OtherProject(ProjectError):
    """Tables that this project would write to belong to another one; `owners` says which."""

    def __init__(self, project: str, owners: Mapping[str, str]) -> None:
        told = "; ".join(f"{table} belongs to project '{owner}'" for table, owner in owners.items())
        owner = next(iter(owners.values()))
        super().__init__(
            f"{told}, and this is '{project}'; nothing was written",
            hint=f"if the catalog is the wrong one: frazil --set catalog.uri=...; if both are the same project: "
            f"[project] name = "
            f'"{owner}" in frazil.toml; to take the tables over: --adopt, or adopt=True in Python',
        )
        self.project = project
        self.owners = dict(owners)


class DeclarationError(FrazilError):
    """A table is declared wrongly, or the live one cannot become what is declared."""


class ChangeRefused(DeclarationError):
    """What is declared would break readers or lose data; `reasons` holds all of it, each with its table."""

    def __init__(self, table: str, reasons: Sequence[str]) -> None:
        self.reasons = tuple(f"{table}: {reason}" for reason in reasons)
        super().__init__(_listed(self.reasons))

    @classmethod
    def several(cls, errors: Sequence[ChangeRefused], others: Sequence[str] = ()) -> ChangeRefused:
        """One error with the reasons of all, and with what else there is to tell."""
        made = cls("", ())
        made.reasons = (*(reason for error in errors for reason in error.reasons), *others)
        made.message = _listed(made.reasons)
        return made


def _listed(reasons: Sequence[str]) -> str:
    return "the declared change is refused; nothing was done:" + "".join(f"\n  {reason}" for reason in reasons)


class StalePlan(FrazilError):
    """A table has changed since the plan was made, in what the plan rests on."""

    def __init__(self, table: str, changed: Sequence[str]) -> None:
        lines = "".join(f"\n  {line}" for line in changed)
        super().__init__(
            f"the plan for {table} is stale; since it was made, others changed:{lines}",
            hint="make a new one: frazil plan",
        )
        self.table = table
        self.changed = tuple(changed)


class TableBroken(FrazilError):
    """The catalog has the table, and its metadata file is lost or corrupt. It is not missing: nobody may create it
    anew.
    """

    def __init__(self, table: str, said: str) -> None:
        super().__init__(f"table {table} is broken: it is in the catalog, and its metadata cannot be read: {said}")
        self.table = table


class PipelineError(FrazilError):
    """A run stopped; nothing of it was committed."""


class SourceDrift(PipelineError):
    """The source's columns are not those of the table, and the policy is to stop."""

    def __init__(self, message: str, *, columns: tuple[str, ...], hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.columns = columns


class SourceChanged(PipelineError):
    """Files that are loaded have, or may have, other content now, and the pipeline does not say what that means.

    Of `unverified` files only the modification time or the ETag is known to differ: the ledger has no hash of what was
    loaded.
    """

    def __init__(self, pipeline: str, paths: Sequence[str], *, mode: str, unverified: Sequence[str] = ()) -> None:
        lines = [
            f"\n  {path}" + (" (same size, and no hash in the ledger)" if path in unverified else "")
            for path in paths[:20]
        ]
        shown = "".join(lines) + (f"\n  and {len(paths) - 20:,} more" if len(paths) > 20 else "")
        found = "have other content now"
        if set(paths) <= set(unverified):
            found = (
                "have another modification time or ETag now, and the ledger has no hash to compare their content with"
            )
        meaning = (
            'on_change="append" loads their whole content again, next to the rows that are there'
            if mode == "append"
            else f'on_change="replace" loads them again, by the rules of mode="{mode}"'
        )
        super().__init__(
            f"pipeline '{pipeline}': files that are loaded {found}:{shown}",
            hint=f"nothing was committed; put new rows into new files, or declare what a change means: {meaning}",
        )
        self.paths = tuple(paths)
        self.unverified = tuple(unverified)


class TooManyBadRows(PipelineError):
    """More rows are bad than the pipeline allows."""

    def __init__(self, pipeline: str, *, bad: int, rows: int, limit: float, reasons: Mapping[str, int]) -> None:
        told = "".join(f"\n  {count:>10,}  {reason}" for reason, count in reasons.items())
        share = bad / max(rows, 1)
        super().__init__(
            f"pipeline '{pipeline}': {bad:,} of {rows:,} rows are bad ({share:.2%}), and at most {limit:.2%} may "
            f"be:{told}",
            hint="nothing was committed; mend the files, or raise max_bad_share",
        )
        self.bad = bad
        self.rows = rows
        self.limit = limit
        self.reasons = dict(reasons)


class MessagesLost(PipelineError):
    """Messages that the table does not have are no longer in Kafka; `losses` says which, a line each."""

    def __init__(self, pipeline: str, losses: Sequence[str], *, hint: str) -> None:
        super().__init__(
            f"pipeline '{pipeline}': messages are lost:" + "".join(f"\n  {loss}" for loss in losses), hint=hint
        )
        self.losses = tuple(losses)


class AuditFailed(PipelineError):
    """A check of rows that are staged on a branch failed: `failures` is what it found, of each check."""

    def __init__(self, pipeline: str, table: str, branch: str, *, rows: int, failures: Mapping[str, int]) -> None:
        found = "".join(f"\n  {count:,} x {check}" for check, count in failures.items())
        super().__init__(
            f"pipeline '{pipeline}': the audit failed; main of {table} is unchanged, {rows:,} new rows are on branch "
            f"'{branch}':{found}",
            hint=f"look: frazil log {table} --ref {branch}, frazil query --ref {branch} ...; mend the rows or the "
            f"check, and run again",
        )
        self.failures = dict(failures)
        self.branch = branch


class HistoryError(FrazilError):
    """A snapshot, time, branch or tag that the table does not have, or a change of them that is refused."""


class UpkeepError(FrazilError):
    """A table cannot be looked after as asked."""


class RowsMismatch(UpkeepError):
    """What was written is not what was read; the new files are gone, the table is as it was."""

    def __init__(self, table: str, expected: str, found: str, *, first_file: str) -> None:
        super().__init__(
            f"{table}: a rewrite of {first_file} and others should give {expected}, and gave {found}; nothing of it "
            f"was committed",
            hint="compare the file's row count with what its manifest says; a writer may have described it wrongly",
        )
        self.table = table
        self.expected, self.found = expected, found
        self.first_file = first_file


class ReferencesUnknown(FrazilError):
    """Which files a table leads to cannot be told, so no file is deleted that it might lead to."""

    def __init__(self, table: str, path: str, reason: str) -> None:
        super().__init__(
            f"no file is deleted: {table} cannot be read, so which files it leads to is unknown ({path}: {reason})",
            hint=f"restore the file, go back to an older version (frazil table recover {table}), or drop the table",
        )
        self.table, self.path = table, path


class ScanError(FrazilError):
    """A scan that cannot be planned: an unknown column, a value of another type, a snapshot that is gone."""


class ManifestUnreadable(ScanError):
    """A manifest or manifest list is there and cannot be read."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"cannot read manifest {path}: {reason}", hint="read an older snapshot, or restore the file")
        self.path = path


class DataFileUnreadable(ScanError):
    """A data file or delete file of the table cannot be read."""

    def __init__(self, path: str, reason: str, *, hint: str | None = None) -> None:
        super().__init__(f"cannot read {path}: {reason}", hint=hint or "restore the file, or read an older snapshot")
        self.path = path


class DataFileMissing(DataFileUnreadable):
    """A data file or delete file of the table is not there."""

    def __init__(self, path: str) -> None:
        hint = "something deleted it while the table still names it: restore it, or read a snapshot without it"
        super().__init__(path, "there is no such file", hint=hint)


class QueryError(FrazilError):
    """SQL that cannot be run, or that would change something."""


class DownloadError(FrazilError):
    """An artifact could not be fetched into the cache."""

    def __init__(self, artifact: str, reason: str, *, hint: str | None = None) -> None:
        super().__init__(f"could not download {artifact}: {reason}", hint=hint)
        self.artifact = artifact


class CatalogError(FrazilError):
    """What the REST catalog answers with an error status."""


class BadRequest(CatalogError):
    """The request is malformed."""


class InvalidChange(BadRequest):
    """A change that is well-formed and not possible for this table or view."""


class MalformedLocation(BadRequest):
    """A location that could mean two places: `..`, an encoded separator, a control character."""


class UnknownRoute(CatalogError):
    """No operation has this path."""


class MethodNotAllowed(CatalogError):
    """The path exists, not with this method."""

    def __init__(self, message: str, *, allowed: tuple[str, ...]) -> None:
        super().__init__(message)
        self.allowed = allowed


class NotFound(CatalogError):
    """Something that the request names does not exist."""


class NoSuchWarehouse(NotFound):
    """The server has no warehouse of this name."""


class NoSuchNamespace(NotFound):
    """The namespace does not exist."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Namespace does not exist: {name}")
        self.name = name


class NoSuchTable(NotFound):
    """The table does not exist."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Table does not exist: {name}")
        self.name = name


class NoSuchView(NotFound):
    """The view does not exist."""

    def __init__(self, name: str) -> None:
        super().__init__(f"View does not exist: {name}")
        self.name = name


class NoSuchFunction(NotFound):
    """The function does not exist."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Function does not exist: {name}")
        self.name = name


class NoSuchPlan(NotFound):
    """A plan id that this catalog did not give out for this table."""


class NoSuchPlanTask(NotFound):
    """A plan task that this catalog did not give out for this table, or whose snapshot is gone."""


class MetadataMissing(NotFound):
    """The catalog points to a metadata file that is not there."""

    def __init__(self, location: str, *, table: str = "") -> None:
        # The status, the type and these first words are those of the Java reference, whose client knows a lost file by
        # them.
        lost = f" (table {table} is in the catalog, its metadata file is gone)" if table else ""
        super().__init__(f"Failed to open input stream for file: {location}{lost}", hint=_how_to_recover(table))
        self.location = location

    def of(self, table: str) -> MetadataMissing:
        """The same, naming the table."""
        return MetadataMissing(self.location, table=table)


def _how_to_recover(table: str) -> str:
    return f"frazil table recover {table or 'NAME'} lists the versions that are readable"


class AlreadyExists(CatalogError):
    """The name is taken."""


class NamespaceNotEmpty(CatalogError):
    """The namespace still holds tables, views or namespaces."""


class LocationRefused(CatalogError):
    """A location outside the warehouse and outside every prefix that the operator allowed."""

    def __init__(self, location: str, *, warehouse: str) -> None:
        super().__init__(
            f"Location {location} lies outside the warehouse {warehouse}",
            hint="use a location inside the warehouse, or start the server with --allow-location PREFIX",
        )
        self.location = location


class PropertyRefused(CatalogError):
    """A table or view property that configures clients instead of the table, and that the operator did not allow."""

    def __init__(self, what: str, names: Sequence[str]) -> None:
        shown = ", ".join(name[:100] for name in names[:5]) + (", ..." if len(names) > 5 else "")
        super().__init__(
            f"Cannot set {shown} on {what}: clients would load code or send credentials as this property says",
            hint="set it in the client's own configuration, or start the server with --allow-property NAME",
        )
        self.names = list(names)


class LocationOccupied(CatalogError):
    """A location that overlaps the folders of another table or view, or contains a namespace's folder or
    a warehouse.
    """

    def __init__(self, location: str, *, occupant: str) -> None:
        super().__init__(
            f"Location {location} overlaps {occupant}",
            hint="use a location that neither contains nor lies in another one, or start the server with "
            "--allow-overlap",
        )
        self.location, self.occupant = location, occupant


class Unprocessable(CatalogError):
    """The request is well-formed and contradicts itself, or what is stored."""


class KeyReused(Unprocessable):
    """An idempotency key that was sent before with another request."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"Idempotency-Key {key} was already used for another request",
            hint="use a new key for each operation; the same key only to repeat the same request",
        )
        self.key = key


class MetadataCorrupt(Unprocessable):
    """The metadata file is there and cannot be read as metadata."""

    def __init__(self, location: str, reason: str, *, table: str = "") -> None:
        whose = f" of table {table}" if table else ""
        super().__init__(f"Cannot read metadata file {location}{whose}: {reason}", hint=_how_to_recover(table))
        self.location, self.reason = location, reason

    def of(self, table: str) -> MetadataCorrupt:
        """The same, naming the table."""
        return MetadataCorrupt(self.location, self.reason, table=table)


class BodyTooLarge(CatalogError):
    """The request's body is longer than the server accepts."""


class BodyTooSlow(CatalogError):
    """The request's body did not arrive in time."""


class RequestTooSlow(CatalogError):
    """The head of a request did not arrive in time."""


class UrlTooLong(CatalogError):
    """The request's URL is longer than the server accepts."""


class HeadersTooLarge(CatalogError):
    """The request's headers are larger than the server accepts."""


class TooBusy(CatalogError):
    """The server has as many requests as it takes at a time; nothing was done, the client may try again."""


class HostRefused(CatalogError):
    """The request's Host is no name of this server, as after DNS rebinding."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"Host {host[:100]!r} is not a name of this server",
            hint="start the server with --allowed-host NAME for each name under which clients or a proxy reach it",
        )
        self.host = host


class OriginRefused(CatalogError):
    """The request was sent by a web page of another site."""

    def __init__(self, origin: str) -> None:
        super().__init__(
            f"Origin {origin[:100]!r} is not this server: web pages of other sites have no access",
            hint="start the server with --allowed-host NAME if the page belongs to this server",
        )
        self.origin = origin


class UnsupportedBody(CatalogError):
    """The body is encoded in a way that the server does not read."""


class NotSupported(CatalogError):
    """A part of the specification that this server does not have, or not with what is installed."""


class CommitConflict(CatalogError):
    """Nothing was committed, for certain: refresh and retry."""


class CommitUnknown(CatalogError):
    """The commit may or may not have happened: look before you retry."""


class Unavailable(CatalogError):
    """The database or the object store cannot be reached, or refuses access; nothing was changed."""

    def __init__(self, message: str, *, hint: str | None = None, lasting: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.lasting = lasting  # waiting does not help: keys, permissions or settings must change first


class SchemaBehind(FrazilError):
    """The catalog's database has an older schema than this program."""


class SinkError(FrazilError):
    """The sink stopped; what it had not committed before stays uncommitted."""


class PartitionSpecError(SinkError):
    """A partition spec names a column that is not there, or one of a type that its transform does not take."""


class SchemaMismatch(SinkError):
    """A batch lacks a field, has one too many, or one of another type."""

    def __init__(self, table: str, field: str, *, expected: str, found: str, hint: str | None = None) -> None:
        super().__init__(f"{table}: field '{field}': expected {expected}, found {found}", hint=hint)
        self.table = table
        self.field = field
        self.expected = expected
        self.found = found


class RowRefused(SinkError):
    """A row fails its type, NOT NULL or a check, and the policy is to stop."""

    def __init__(self, table: str, reason: str, *, position: str, row: str) -> None:
        super().__init__(
            f"{table}: a row at {position} is refused: {reason}\n  the row: {row}",
            hint="mend the source, or open the sink with bad_rows='quarantine'; nothing of this batch was committed",
        )
        self.table = table
        self.reason = reason
        self.position = position
        self.row = row


class CheckError(SinkError):
    """A check is no SQL expression that the sink understands, or names a column that is not there."""


class WriteFailed(SinkError):
    """A data file or a temporary file could not be written; nothing that it belongs to was committed."""

    def __init__(self, path: str, reason: str, *, lasting: bool = False, hint: str | None = None) -> None:
        super().__init__(f"cannot write {path}: {reason}", hint=hint)
        self.path = path
        self.reason = reason
        self.lasting = lasting  # it will not go away by waiting


class RowsLost(SinkError):
    """The files that were written do not hold the rows that were taken: a fault of Frazil. Nothing of them was
    committed.
    """

    def __init__(self, table: str, *, expected: int, found: int) -> None:
        super().__init__(
            f"{table}: internal error: {expected:,} rows were taken, and the files written for them hold {found:,}; "
            f"nothing was committed",
            hint="please report it, with the table's schema and partitioning; the rows can be written again",
        )
        self.table = table
        self.expected, self.found = expected, found


class WriterFenced(SinkError):
    """Another writer took over this part of the sink: this one must stop, and none of its open rows are committed.

    Or the table that it began with was dropped, and another one made under its name (`made_anew`). A writer whose first
    commit is its takeover is `outrun` if another one committed since it planned.
    """

    def __init__(
        self, table: str, part: str, *, ours: int, current: int, made_anew: bool = False, outrun: bool = False
    ) -> None:
        message = f"{table}: part '{part}' belongs to writer generation {current} now; this one is {ours}"
        hint = "the newer writer goes on where the table's progress stands; stop this one"
        if outrun:
            message = (
                f"{table}: another writer of part '{part}' came first: its progress is not what this one planned from"
            )
            hint = "nothing was committed; run again: it goes on where the table's progress stands"
        if made_anew:
            message = f"{table} was dropped and made anew after this writer of part '{part}' had begun"
            hint = (
                "the rows that wait are not committed; open the sink again: it goes on where the progress of the "
                "new table stands"
            )
        super().__init__(message, hint=hint)
        self.made_anew = made_anew
        self.outrun = outrun
        self.table = table
        self.part = part
        self.ours = ours
        self.current = current


class ProgressMismatch(SinkError):
    """Rows were offered that do not follow what the table already holds."""


class ServiceError(FrazilError):
    """A server of the local stack failed; shows the end of its log."""

    def __init__(
        self, service: str, reason: str, *, hint: str | None = None, log: Path | None = None, log_tail: str = ""
    ) -> None:
        message = f"{service}: {reason}"
        if log_tail:
            message += f"\n  the end of {log}:\n" + "\n".join(f"    {line}" for line in log_tail.splitlines())
        super().__init__(message, hint=hint)
        self.service = service
        self.log = log
        self.log_tail = log_tail


class PortInUse(ServiceError):
    """Another process listens on the port that a service wants."""

    def __init__(self, service: str, port: int, *, owner: str | None = None, hint: str | None = None) -> None:
        by = f" by {owner}" if owner else ""
        super().__init__(service, f"port {port} is in use{by}", hint=hint)
        self.port = port


class JavaMissing(ServiceError):
    """No Java on the machine fits, and none could be installed."""


class DiskFull(ServiceError):
    """The folder of a service has no room left."""


class ServiceDied(ServiceError):
    """The server's process ended while it was starting."""


class ServiceNotReady(ServiceError):
    """The server runs, but did not answer its health check before the deadline."""
