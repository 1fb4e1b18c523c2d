"""Every error that Frazil raises, as one tree.

    FrazilError                      base; `hint` says what to do next, `facts` what the error is about
    ├── ConfigError                  a setting is wrong; names the key and where it came from
    ├── MissingExtra                 an optional library is not installed; gives the install command
    ├── ProjectError                 lakehouse.py is missing, does not load, or lacks the requested object
    │   └── OtherProject             tables belong to another project; names both
    ├── DeclarationError             a table is declared wrongly, or cannot become what is declared
    │   └── ChangeRefused            the change would break readers or lose data; holds every reason
    ├── StalePlan                    the table has changed since the plan was made; this step did nothing
    ├── TableBroken                  the table is in the catalog, its metadata file is unreadable; names both
    ├── PipelineError                a run stopped; nothing of it was committed
    │   ├── SourceDrift              the columns of source files differ from the table's; names them
    │   ├── SourceChanged            files that were loaded have different content now; names them
    │   ├── TooManyBadRows           more rows were rejected than the pipeline allows; gives counts and reasons
    │   ├── MessagesLost             Kafka deleted messages before they were read; gives the offsets
    │   └── AuditFailed              a check of the staged rows failed; main is unchanged, the rows are on a branch
    ├── HistoryError                 a snapshot, timestamp, branch or tag does not exist, or cannot be changed so
    ├── UpkeepError                  maintenance of a table is not possible as requested
    │   └── RowsMismatch             a rewrite would have changed the rows; nothing of it was committed
    ├── ReferencesUnknown            a table that may reference a file cannot be read; nothing was deleted
    ├── ScanError                    a scan cannot be planned; names the column, value or snapshot, and similar names
    │   ├── ManifestUnreadable       a manifest or manifest list is damaged; names it
    │   └── DataFileUnreadable       a data or delete file is damaged or has an unsupported format; names it
    │       └── DataFileMissing      the file does not exist
    ├── QueryError                   SQL cannot be run; names the table or column, and similar names
    ├── DownloadError                an artifact could not be downloaded into the cache
    ├── CatalogError                 what the REST catalog answers; its HTTP status is in catalog/problems.py
    │   ├── BadRequest               the request is malformed; names the field
    │   │   ├── InvalidChange        well-formed, but not possible for this table or view
    │   │   └── MalformedLocation    a location that is ambiguous
    │   ├── UnknownRoute             no operation has this path
    │   ├── MethodNotAllowed         the path exists, but not with this method
    │   ├── NotFound
    │   │   ├── NoSuchWarehouse
    │   │   ├── NoSuchNamespace
    │   │   ├── NoSuchTable
    │   │   ├── NoSuchView
    │   │   ├── NoSuchFunction
    │   │   ├── NoSuchPlan           a plan id that this catalog did not issue
    │   │   ├── NoSuchPlanTask       a plan task that this catalog did not issue, or whose snapshot has expired
    │   │   └── MetadataMissing      the catalog points to a metadata file that does not exist
    │   ├── AlreadyExists
    │   ├── NamespaceNotEmpty
    │   ├── LocationRefused          outside the warehouse and every allowed prefix
    │   ├── PropertyRefused          a property that makes clients load code or connect to other hosts
    │   ├── LocationOccupied         overlaps the location of another table, view or namespace; names it
    │   ├── Unprocessable            well-formed, but contradictory
    │   │   ├── KeyReused            an idempotency key was sent with a different request
    │   │   └── MetadataCorrupt      the metadata file exists, but is not valid table metadata
    │   ├── BodyTooLarge
    │   ├── BodyTooSlow
    │   ├── RequestTooSlow           the request head did not arrive in time
    │   ├── UrlTooLong
    │   ├── HeadersTooLarge
    │   ├── TooBusy                  too many concurrent requests; nothing was done
    │   ├── HostRefused              the Host header names another server
    │   ├── OriginRefused            a web page of another site sent the request
    │   ├── UnsupportedBody          the encoding of the body is not supported
    │   ├── NotSupported             a part of the specification that this server does not implement
    │   ├── CommitConflict           nothing was committed; refresh and retry
    │   ├── CommitUnknown            the commit may have happened; check before you retry
    │   └── Unavailable              the database or object store is unreachable or denies access; nothing was changed
    ├── SchemaBehind                 the database schema is older than this version; gives the migration command
    ├── SinkError                    the sink stopped; rows that were not committed stay uncommitted
    │   ├── PartitionSpecError       a partition spec does not fit the schema; names the column and its type
    │   ├── SchemaMismatch           a batch lacks a column, has an unknown one, or one of another type
    │   ├── RowRefused               a row breaks its type, NOT NULL or a check, and the policy is to stop
    │   ├── CheckError               a check is invalid, or names an unknown column
    │   ├── WriteFailed              a data file or temporary file could not be written; gives the path and reason
    │   ├── RowsLost                 written files have another row count than the input: a bug, found before the commit
    │   ├── WriterFenced             a newer writer owns this part of the sink; stop, do not retry
    │   └── ProgressMismatch         the rows do not continue where the table's progress ends
    └── ServiceError                 a server of the local stack failed; holds its name and the end of its log
        ├── PortInUse
        ├── JavaMissing
        ├── DiskFull
        ├── ServiceDied
        └── ServiceNotReady

There is a class for each case that a caller can handle differently. What the error is about is in its attributes
(`table`, `column`, `expected`, `got`, ...), so code and tests need not parse the message; `facts` holds all of them.
Errors can be pickled with their facts.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack


class Facts(TypedDict, total=False):
    """What an error may be about; each fact is an attribute of the error, None if it does not apply."""

    hint: str | None  # what to do next
    table: str | None
    column: str | None  # a column, or the path of a nested field
    name: str | None  # what was asked for and does not exist or fit: a namespace, pipeline, service, plan, ...
    option: str | None  # the setting, argument, option, property or request field that is wrong
    expected: object  # the type, value or state that was expected
    got: object  # the type, value or state that was found instead
    snapshot: int | str | None  # a snapshot id, or the version of a Delta table
    ref: str | None  # a branch or tag
    path: str | None  # a file, folder or location
    pipeline: str | None
    part: str | None  # a part of a sink, which has a progress of its own
    source: str | None  # a source partition
    check: str | None  # a check of a table's contract
    reason: str | None  # the cause, often in the words of the library or server that reported it
    problem: str | None  # which problem, if class and facts leave it open: "closed", "ambiguous", "expired"


class FrazilError(Exception):
    """Base of all errors: the message says what failed and what was found, the hint what to do next."""

    exit_code = 1

    hint: str | None = None
    table: str | None = None
    column: str | None = None
    name: str | None = None
    option: str | None = None
    expected: Any = None  # a string in most classes, a count in some
    got: Any = None
    snapshot: int | str | None = None
    ref: str | None = None
    path: str | None = None
    pipeline: str | None = None
    part: str | None = None
    source: str | None = None
    check: str | None = None
    reason: str | None = None
    problem: str | None = None

    def __init__(self, message: str, **facts: Unpack[Facts]) -> None:
        super().__init__(message)
        self.message = message
        self.__dict__.update(facts)

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # Exception would call the class with the message alone, and most classes take more.
        return _unpickle, (type(self), self.args, self.__dict__)

    @property
    def facts(self) -> dict[str, object]:
        """The facts that this error has, without its message and hint.

        >>> SchemaMismatch("l.t", "amount", expected="decimal(12,2)", got="string").facts
        {'table': 'l.t', 'column': 'amount', 'expected': 'decimal(12,2)', 'got': 'string'}
        """
        without = ("message", "hint")
        return {
            name: value
            for name, value in self.__dict__.items()
            if value is not None and name not in without and not name.startswith("_")
        }

    @property
    def found(self) -> Any:
        """The former name of `got`, for one release."""
        warnings.warn("the attribute 'found' of errors is 'got' now", DeprecationWarning, stacklevel=2)
        return self.got


def _unpickle(cls: type[FrazilError], args: tuple[object, ...], state: Mapping[str, object]) -> FrazilError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class ConfigError(FrazilError):
    """A setting is unknown or has a value of the wrong kind."""

    exit_code = 2


class MissingExtra(FrazilError):
    """A library of an optional extra is not installed."""

    def __init__(self, library: str, *, extra: str) -> None:
        super().__init__(
            f"{library} is not installed; it is part of the extra '{extra}'",
            hint=f"pip install 'frazil[{extra}]'",
        )
        self.library = library
        self.extra = extra


class ProjectError(FrazilError):
    """`lakehouse.py` is missing, does not load, or lacks the requested object."""


class OtherProject(ProjectError):
    """Tables that this project would write to belong to another project; `owners` maps each table to its project."""

    def __init__(self, project: str, owners: Mapping[str, str]) -> None:
        tables = "; ".join(f"{table} belongs to project '{owner}'" for table, owner in owners.items())
        owner = next(iter(owners.values()))
        super().__init__(
            f"{tables}, but this is project '{project}'; nothing was written",
            hint="if this is the wrong catalog: frazil --set catalog.uri=...; if both are the same project: "
            f'[project] name = "{owner}" in frazil.toml; to take the tables over: --adopt, or adopt=True in Python',
        )
        self.project = project
        self.owners = dict(owners)


class DeclarationError(FrazilError):
    """A table is declared wrongly, or the live table cannot become what is declared."""


class ChangeRefused(DeclarationError):
    """The declared change would break readers or lose data; `reasons` lists every reason with its table."""

    def __init__(self, table: str, reasons: Sequence[str]) -> None:
        self.reasons = tuple(f"{table}: {reason}" for reason in reasons)
        super().__init__(_listed(self.reasons))

    @classmethod
    def several(cls, errors: Sequence[ChangeRefused], others: Sequence[str] = ()) -> ChangeRefused:
        """One error with the reasons of all errors, followed by other reasons."""
        combined = cls("", ())
        combined.reasons = (*(reason for error in errors for reason in error.reasons), *others)
        combined.message = _listed(combined.reasons)
        return combined


def _listed(reasons: Sequence[str]) -> str:
    return "the declared change is refused; nothing was done:" + "".join(f"\n  {reason}" for reason in reasons)


class StalePlan(FrazilError):
    """The table has changed since the plan was made, in a part that the plan depends on."""

    def __init__(self, table: str, changed: Sequence[str]) -> None:
        lines = "".join(f"\n  {line}" for line in changed)
        super().__init__(
            f"the plan for {table} is stale; since it was made, the table changed:{lines}",
            hint="make a new plan: frazil plan",
            table=table,
        )
        self.changed = tuple(changed)


class TableBroken(FrazilError):
    """The table is in the catalog, but its metadata file is lost or corrupt. The name is taken: do not recreate it."""

    def __init__(self, table: str, reason: str) -> None:
        super().__init__(
            f"table {table} is in the catalog, but its metadata cannot be read: {reason}", table=table, reason=reason
        )


class PipelineError(FrazilError):
    """A run stopped; nothing of it was committed."""


class SourceDrift(PipelineError):
    """The source's columns differ from the table's, and the policy is to stop."""

    def __init__(self, message: str, *, columns: tuple[str, ...], **facts: Unpack[Facts]) -> None:
        super().__init__(message, **facts)
        self.columns = columns


class SourceChanged(PipelineError):
    """Loaded files have, or may have, different content now, and the pipeline does not declare what to do.

    For `unverified` files only the modification time or the ETag is known to differ: the ledger has no hash of the
    content that was loaded.
    """

    def __init__(self, pipeline: str, paths: Sequence[str], *, mode: str, unverified: Sequence[str] = ()) -> None:
        lines = [
            f"\n  {path}" + (" (same size; no hash in the ledger)" if path in unverified else "") for path in paths[:20]
        ]
        listed = "".join(lines) + (f"\n  and {len(paths) - 20:,} more" if len(paths) > 20 else "")
        change = "have different content now"
        if set(paths) <= set(unverified):
            change = (
                "have a different modification time or ETag now, and the ledger has no hash to compare their content to"
            )
        meaning = (
            'on_change="append" loads their whole content again, in addition to the rows in the table'
            if mode == "append"
            else f'on_change="replace" loads them again, by the rules of mode="{mode}"'
        )
        super().__init__(
            f"pipeline '{pipeline}': files that were loaded {change}:{listed}",
            hint=f"nothing was committed; put new rows into new files, or declare what a change means: {meaning}",
            pipeline=pipeline,
        )
        self.paths = tuple(paths)
        self.unverified = tuple(unverified)


class TooManyBadRows(PipelineError):
    """More rows were rejected than the pipeline allows."""

    def __init__(self, pipeline: str, *, bad: int, rows: int, limit: float, reasons: Mapping[str, int]) -> None:
        counts = "".join(f"\n  {count:>10,}  {reason}" for reason, count in reasons.items())
        share = bad / max(rows, 1)
        super().__init__(
            f"pipeline '{pipeline}': {bad:,} of {rows:,} rows are bad ({share:.2%}), expected at most "
            f"{limit:.2%}:{counts}",
            hint="nothing was committed; fix the files, or raise max_bad_share",
            pipeline=pipeline,
        )
        self.bad = bad
        self.rows = rows
        self.limit = limit
        self.reasons = dict(reasons)


class MessagesLost(PipelineError):
    """Kafka no longer has messages that were not read yet; `losses` has one line per range of offsets."""

    def __init__(self, pipeline: str, losses: Sequence[str], *, hint: str) -> None:
        super().__init__(
            f"pipeline '{pipeline}': messages are lost:" + "".join(f"\n  {loss}" for loss in losses),
            hint=hint,
            pipeline=pipeline,
        )
        self.losses = tuple(losses)


class AuditFailed(PipelineError):
    """A check of rows on a staging branch failed; `failures` has the number of violations per check."""

    def __init__(self, pipeline: str, table: str, branch: str, *, rows: int, failures: Mapping[str, int]) -> None:
        violations = "".join(f"\n  {count:,} x {check}" for check, count in failures.items())
        super().__init__(
            f"pipeline '{pipeline}': the audit failed; main of {table} is unchanged, {rows:,} new rows are on branch "
            f"'{branch}':{violations}",
            hint=f"inspect them: frazil log {table} --ref {branch}, frazil query --ref {branch} ...; fix the rows or "
            f"the check, and run again",
            pipeline=pipeline,
            table=table,
            ref=branch,
        )
        self.rows = rows
        self.failures = dict(failures)
        self.branch = branch


class HistoryError(FrazilError):
    """A snapshot, timestamp, branch or tag does not exist, or cannot be changed as requested."""


class UpkeepError(FrazilError):
    """Maintenance of a table is not possible as requested."""


class RowsMismatch(UpkeepError):
    """A rewrite would have changed the rows; the new files are deleted and the table is unchanged."""

    def __init__(self, table: str, expected: str, got: str, *, first_file: str) -> None:
        super().__init__(
            f"{table}: rewriting {first_file} and others: expected {expected}, got {got}; nothing was committed",
            hint="compare the file's row count with its manifest entry; the writer may have recorded it wrongly",
            table=table,
            expected=expected,
            got=got,
        )
        self.first_file = first_file


class ReferencesUnknown(FrazilError):
    """The files that a table references are unknown, so no file is deleted that it might reference."""

    def __init__(self, table: str, path: str, reason: str) -> None:
        super().__init__(
            f"no file was deleted: {table} cannot be read, so the files it references are unknown ({path}: {reason})",
            hint=f"restore the file, go back to an older version (frazil table recover {table}), or drop the table",
            table=table,
            path=path,
            reason=reason,
        )


class ScanError(FrazilError):
    """A scan cannot be planned: an unknown column, a value of another type, an expired snapshot."""


class ManifestUnreadable(ScanError):
    """A manifest or manifest list exists, but cannot be read."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"cannot read manifest {path}: {reason}",
            hint="read an older snapshot, or restore the file",
            path=path,
            reason=reason,
        )


class DataFileUnreadable(ScanError):
    """A data file or delete file of the table cannot be read."""

    def __init__(self, path: str, reason: str, /, **facts: Unpack[Facts]) -> None:
        facts["hint"] = facts.get("hint") or "restore the file, or read an older snapshot"
        facts["path"], facts["reason"] = path, reason
        super().__init__(f"cannot read {path}: {reason}", **facts)


class DataFileMissing(DataFileUnreadable):
    """A data file or delete file of the table does not exist."""

    def __init__(self, path: str) -> None:
        hint = "the file was deleted while the table still references it: restore it, or read a snapshot without it"
        super().__init__(path, "file not found", hint=hint)


class QueryError(FrazilError):
    """SQL cannot be run, or would write where only reads are allowed."""


class DownloadError(FrazilError):
    """An artifact could not be downloaded into the cache."""

    def __init__(self, artifact: str, reason: str, /, **facts: Unpack[Facts]) -> None:
        facts["reason"] = reason
        super().__init__(f"could not download {artifact}: {reason}", **facts)
        self.artifact = artifact


class CatalogError(FrazilError):
    """What the REST catalog answers with an error status."""


class BadRequest(CatalogError):
    """The request is malformed."""


class InvalidChange(BadRequest):
    """The change is well-formed, but not possible for this table or view."""


class MalformedLocation(BadRequest):
    """The location is ambiguous: it has `..`, an encoded separator or a control character."""


class UnknownRoute(CatalogError):
    """No operation has this path."""


class MethodNotAllowed(CatalogError):
    """The path exists, but not with this method."""

    def __init__(self, message: str, *, allowed: tuple[str, ...]) -> None:
        super().__init__(message)
        self.allowed = allowed


class NotFound(CatalogError):
    """Something that the request names does not exist."""


class NoSuchWarehouse(NotFound):
    """The server has no warehouse of this name."""


class NoSuchNamespace(NotFound):
    """The namespace does not exist."""

    def __init__(self, name: str, *, hint: str | None = None) -> None:
        super().__init__(f"Namespace does not exist: {name}", name=name, hint=hint)


class NoSuchTable(NotFound):
    """The table does not exist."""

    def __init__(self, name: str, *, hint: str | None = None) -> None:
        super().__init__(f"Table does not exist: {name}", name=name, hint=hint)


class NoSuchView(NotFound):
    """The view does not exist."""

    def __init__(self, name: str, *, hint: str | None = None) -> None:
        super().__init__(f"View does not exist: {name}", name=name, hint=hint)


class NoSuchFunction(NotFound):
    """The function does not exist."""

    def __init__(self, name: str, *, hint: str | None = None) -> None:
        super().__init__(f"Function does not exist: {name}", name=name, hint=hint)


class NoSuchPlan(NotFound):
    """This catalog did not issue the plan id for this table."""


class NoSuchPlanTask(NotFound):
    """This catalog did not issue the plan task for this table, or its snapshot has expired."""


class MetadataMissing(NotFound):
    """The catalog points to a metadata file that does not exist."""

    def __init__(self, location: str, *, table: str = "") -> None:
        # The Java client recognises a lost file by the status, the type and these first words.
        lost = f" (table {table} is in the catalog, but its metadata file does not exist)" if table else ""
        super().__init__(
            f"Failed to open input stream for file: {location}{lost}", hint=_how_to_recover(table), table=table or None
        )
        self.location = location

    def of(self, table: str) -> MetadataMissing:
        """The same error with the name of the table."""
        return MetadataMissing(self.location, table=table)


def _how_to_recover(table: str) -> str:
    return f"frazil table recover {table or 'NAME'} lists the readable versions"


class AlreadyExists(CatalogError):
    """The name is taken."""


class NamespaceNotEmpty(CatalogError):
    """The namespace still contains tables, views or namespaces."""


class LocationRefused(CatalogError):
    """The location is outside the warehouse and every prefix that the operator allowed."""

    def __init__(self, location: str, *, warehouse: str) -> None:
        super().__init__(
            f"Location {location} is outside the warehouse {warehouse}",
            hint="use a location inside the warehouse, or start the server with --allow-location PREFIX",
        )
        self.location, self.warehouse = location, warehouse


class PropertyRefused(CatalogError):
    """The property configures clients instead of the table or view, and the operator did not allow it."""

    def __init__(self, what: str, names: Sequence[str]) -> None:
        shown = ", ".join(name[:100] for name in names[:5]) + (", ..." if len(names) > 5 else "")
        super().__init__(
            f"Cannot set {shown} on {what}: the property makes clients load code or send credentials",
            hint="set it in the client's own configuration, or start the server with --allow-property NAME",
        )
        self.names = list(names)


class LocationOccupied(CatalogError):
    """The location overlaps that of another table or view, or contains a namespace's folder or a warehouse."""

    def __init__(self, location: str, *, occupant: str) -> None:
        super().__init__(
            f"Location {location} overlaps {occupant}",
            hint="use a location that is not inside another one and contains none, or start the server with "
            "--allow-overlap",
        )
        self.location, self.occupant = location, occupant


class Unprocessable(CatalogError):
    """The request is well-formed, but contradicts itself or the stored state."""


class KeyReused(Unprocessable):
    """The idempotency key was sent before with a different request."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"Idempotency-Key {key} was already used for a different request",
            hint="use a new key for each operation; reuse a key only to repeat the same request",
        )
        self.key = key


class MetadataCorrupt(Unprocessable):
    """The metadata file exists, but is not valid metadata."""

    def __init__(self, location: str, reason: str, *, table: str = "") -> None:
        whose = f" of table {table}" if table else ""
        super().__init__(
            f"Cannot read metadata file {location}{whose}: {reason}",
            hint=_how_to_recover(table),
            table=table or None,
            reason=reason,
        )
        self.location = location

    def of(self, table: str) -> MetadataCorrupt:
        """The same error with the name of the table."""
        return MetadataCorrupt(self.location, self.reason or "", table=table)


class BodyTooLarge(CatalogError):
    """The request's body is longer than the server accepts."""


class BodyTooSlow(CatalogError):
    """The request's body did not arrive in time."""


class RequestTooSlow(CatalogError):
    """The request head did not arrive in time."""


class UrlTooLong(CatalogError):
    """The request's URL is longer than the server accepts."""


class HeadersTooLarge(CatalogError):
    """The request's headers are larger than the server accepts."""


class TooBusy(CatalogError):
    """The server is at its limit of concurrent requests; nothing was done, the client may retry."""


class HostRefused(CatalogError):
    """The request's Host header is not a name of this server, for example after DNS rebinding."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"Host {host[:100]!r} is not a name of this server",
            hint="start the server with --allowed-host NAME for each name that clients or a proxy use for it",
        )
        self.host = host


class OriginRefused(CatalogError):
    """A web page of another site sent the request."""

    def __init__(self, origin: str) -> None:
        super().__init__(
            f"Origin {origin[:100]!r} is not this server: web pages of other sites have no access",
            hint="start the server with --allowed-host NAME if the page belongs to this server",
        )
        self.origin = origin


class UnsupportedBody(CatalogError):
    """The server does not support the encoding of the body."""


class NotSupported(CatalogError):
    """A part of the specification that this server does not implement, or not without an extra."""


class CommitConflict(CatalogError):
    """Nothing was committed: refresh and retry."""


class CommitUnknown(CatalogError):
    """The outcome of the commit is unknown: check whether it happened before you retry."""


class Unavailable(CatalogError):
    """The database or the object store is unreachable or denies access; nothing was changed."""

    def __init__(self, message: str, *, lasting: bool = False, **facts: Unpack[Facts]) -> None:
        super().__init__(message, **facts)
        self.lasting = lasting  # retrying does not help: keys, permissions or settings must change first


class SchemaBehind(FrazilError):
    """The schema of the catalog's database is older than this version of Frazil."""


class SinkError(FrazilError):
    """The sink stopped; rows that were not committed stay uncommitted."""


class PartitionSpecError(SinkError):
    """A partition spec names an unknown column, or one whose type its transform does not support."""


class SchemaMismatch(SinkError):
    """A batch lacks a column, has an unknown one, or one of another type."""

    expected: str
    got: str

    def __init__(self, table: str, column: str, *, expected: str, got: str, hint: str | None = None) -> None:
        super().__init__(
            f"{table}: {column}: expected {expected}, got {got}",
            hint=hint,
            table=table,
            column=column,
            expected=expected,
            got=got,
        )

    @property
    def field(self) -> str | None:
        """The former name of `column`, for one release."""
        warnings.warn("the attribute 'field' of SchemaMismatch is 'column' now", DeprecationWarning, stacklevel=2)
        return self.column


class RowRefused(SinkError):
    """A row breaks its type, NOT NULL or a check, and the policy is to stop."""

    def __init__(self, table: str, reason: str, *, position: str, row: str) -> None:
        super().__init__(
            f"{table}: row at {position} rejected: {reason}\n  row: {row}",
            hint="nothing of this batch was committed; fix the source, or open the sink with bad_rows='quarantine'",
            table=table,
            reason=reason,
        )
        self.position = position
        self.row = row


class CheckError(SinkError):
    """A check is not a SQL expression that the sink supports, or names an unknown column."""


class WriteFailed(SinkError):
    """A data file or a temporary file could not be written; nothing that it belongs to was committed."""

    def __init__(self, path: str, reason: str, *, lasting: bool = False, hint: str | None = None) -> None:
        super().__init__(f"cannot write {path}: {reason}", hint=hint, path=path, reason=reason)
        self.lasting = lasting  # retrying does not help


class RowsLost(SinkError):
    """The written files have another row count than the input: a bug in Frazil. Nothing was committed."""

    expected: int
    got: int

    def __init__(self, table: str, *, expected: int, got: int) -> None:
        super().__init__(
            f"{table}: internal error: expected {expected:,} rows in the written files, got {got:,}; "
            f"nothing was committed",
            hint="please report it, with the table's schema and partitioning; it is safe to write the rows again",
            table=table,
            expected=expected,
            got=got,
        )


class WriterFenced(SinkError):
    """A newer writer owns this part of the sink: stop this one. Its open rows are not committed.

    Or the table was dropped and recreated under the same name (`made_anew`). A writer that takes over with its first
    commit is `outrun` if another writer committed after it planned.
    """

    def __init__(
        self, table: str, part: str, *, ours: int, current: int, made_anew: bool = False, outrun: bool = False
    ) -> None:
        message = f"{table}: part '{part}' is owned by writer generation {current}; this writer is generation {ours}"
        hint = "stop this writer; the newer one continues from the table's progress"
        if outrun:
            message = f"{table}: another writer of part '{part}' committed first: the progress changed since planning"
            hint = "nothing was committed; run again to continue from the table's progress"
        if made_anew:
            message = f"{table} was dropped and recreated after this writer of part '{part}' was opened"
            hint = "open rows are not committed; open the sink again to continue from the new table's progress"
        super().__init__(message, hint=hint, table=table, part=part)
        self.made_anew = made_anew
        self.outrun = outrun
        self.ours = ours
        self.current = current


class ProgressMismatch(SinkError):
    """The rows do not continue where the table's progress ends."""


class ServiceError(FrazilError):
    """A server of the local stack failed; the message ends with the tail of its log."""

    def __init__(
        self, service: str, reason: str, *, hint: str | None = None, log: Path | None = None, log_tail: str = ""
    ) -> None:
        message = f"{service}: {reason}"
        if log_tail:
            message += f"\n  the end of {log}:\n" + "\n".join(f"    {line}" for line in log_tail.splitlines())
        super().__init__(message, hint=hint, reason=reason)
        self.service = service
        self.log = log
        self.log_tail = log_tail


class PortInUse(ServiceError):
    """Another process listens on the port of a service."""

    def __init__(self, service: str, port: int, *, owner: str | None = None, hint: str | None = None) -> None:
        by = f" by {owner}" if owner else ""
        super().__init__(service, f"port {port} is in use{by}", hint=hint)
        self.port = port
        self.owner = owner


class JavaMissing(ServiceError):
    """No installed Java has a supported version, and none could be installed."""


class DiskFull(ServiceError):
    """The disk of a service's folder is full."""


class ServiceDied(ServiceError):
    """The server's process exited while starting."""


class ServiceNotReady(ServiceError):
    """The server runs, but did not pass its health check before the deadline."""
