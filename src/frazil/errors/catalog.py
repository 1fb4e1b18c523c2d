"""What the REST catalog answers with an error status; the status of each class is in catalog/problems.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from frazil.errors.base import Facts, FrazilError


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


class NoSuchIndex(NotFound):
    """The table has no index of this name."""

    def __init__(self, name: str, *, hint: str | None = None) -> None:
        super().__init__(f"Index does not exist: {name}", name=name, hint=hint)


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


class ForeignFile(CatalogError):
    """The table names a file outside of its own places: the server does not read it on behalf of a caller."""

    def __init__(self, table: str, path: str) -> None:
        super().__init__(
            f"Table {table} names {path[:500]}, which is not in its location or its data and metadata paths: "
            "the server does not read it",
            hint="read the table in the client, or rewrite it",
        )
        self.table, self.path = table, path


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


class UuidTaken(CatalogError):
    """Another table or view has the UUID that a new one is to have."""

    def __init__(self, uuid: str) -> None:
        super().__init__(f"The UUID {uuid} belongs to another table or view", hint="leave the UUID to the catalog")
        self.uuid = uuid


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


class QuotaExceeded(TooBusy):
    """The principal has sent more than its limit allows; nothing was done, the client may retry later."""

    def __init__(self, principal: str, limit: str, retry_seconds: int) -> None:
        super().__init__(f"{principal} is over the limit of {limit} per second", hint=f"retry in {retry_seconds} s")
        self.principal, self.limit, self.retry_seconds = principal, limit, retry_seconds


class NotAuthenticated(CatalogError):
    """The request has no token, or one that is not valid."""


class Forbidden(CatalogError):
    """The caller may see the object, but not do this with it."""

    def __init__(self, principal: str, privilege: str, target: str) -> None:
        super().__init__(
            f"{principal} lacks the privilege {privilege} on {target}",
            hint=f"frazil why {principal} NAME shows what is granted",
        )
        self.principal, self.privilege, self.target = principal, privilege, target


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


class NotVendable(NotSupported):
    """No credentials can be given for this table alone."""

    def __init__(self, location: str, reason: str, *, hint: str | None = None) -> None:
        super().__init__(f"Cannot vend credentials for {location}: {reason}", hint=hint, path=location, reason=reason)
        self.location = location


class NotSigned(CatalogError):
    """A request to the object store that is not signed for this caller and this table."""

    def __init__(self, reason: str, *, hint: str | None = None) -> None:
        super().__init__(f"The request is not signed: {reason}", hint=hint, reason=reason)
        self.reason = reason


class CommitConflict(CatalogError):
    """Nothing was committed: refresh and retry."""


class CommitUnknown(CatalogError):
    """The outcome of the commit is unknown: check whether it happened before you retry."""


class Unavailable(CatalogError):
    """The database or the object store is unreachable or denies access; nothing was changed."""

    def __init__(self, message: str, *, lasting: bool = False, **facts: Unpack[Facts]) -> None:
        super().__init__(message, **facts)
        self.lasting = lasting  # retrying does not help: keys, permissions or settings must change first


class AccessError(FrazilError):
    """A key, role or grant does not exist, or cannot be changed so."""


class WarehouseError(FrazilError):
    """A warehouse of the database does not exist, or cannot be created or changed so."""


class SchemaBehind(FrazilError):
    """The schema of the catalog's database is older than this version of Frazil."""
