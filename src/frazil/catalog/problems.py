"""Errors become HTTP here, in one table: the status, and the type name that Java clients know."""

from __future__ import annotations

import orjson

from frazil import errors
from frazil.catalog.http import JSON_TYPE, Response
from frazil.logs import hide_tokens

MESSAGE_LENGTH = 1000  # characters of an error message, and of its hint

# Looked up along the class's ancestors: a subclass without a row of its own answers like its parent, but a test demands
# a row for each.
PROBLEMS: dict[type[errors.CatalogError], tuple[int, str]] = {
    errors.CatalogError: (500, "InternalServerError"),
    errors.BadRequest: (400, "BadRequestException"),
    errors.InvalidChange: (400, "IllegalArgumentException"),
    errors.MalformedLocation: (400, "BadRequestException"),
    errors.UnknownRoute: (404, "NoSuchRouteException"),
    errors.MethodNotAllowed: (405, "MethodNotAllowedException"),
    errors.NotFound: (404, "NotFoundException"),
    errors.NoSuchWarehouse: (404, "NoSuchWarehouseException"),
    errors.NoSuchNamespace: (404, "NoSuchNamespaceException"),
    errors.NoSuchTable: (404, "NoSuchTableException"),
    errors.NoSuchView: (404, "NoSuchViewException"),
    errors.NoSuchFunction: (404, "NoSuchFunctionException"),
    errors.NoSuchIndex: (404, "NoSuchIndexException"),
    errors.NoSuchPlan: (404, "NoSuchPlanIdException"),
    errors.NoSuchPlanTask: (404, "NoSuchPlanTaskException"),
    errors.MetadataMissing: (404, "NotFoundException"),
    errors.AlreadyExists: (409, "AlreadyExistsException"),
    errors.NamespaceNotEmpty: (409, "NamespaceNotEmptyException"),
    errors.LocationRefused: (403, "ForbiddenException"),
    errors.ForeignFile: (403, "ForbiddenException"),
    errors.PropertyRefused: (403, "ForbiddenException"),
    # 403 as in other catalogs: a 409 would make Java retry a commit that can never succeed.
    errors.LocationOccupied: (403, "ForbiddenException"),
    errors.UuidTaken: (403, "ForbiddenException"),
    errors.Unprocessable: (422, "UnprocessableEntityException"),
    errors.KeyReused: (422, "UnprocessableEntityException"),
    errors.MetadataCorrupt: (422, "UnprocessableEntityException"),
    errors.BodyTooLarge: (413, "PayloadTooLargeException"),
    errors.BodyTooSlow: (408, "RequestTimeoutException"),
    errors.RequestTooSlow: (408, "RequestTimeoutException"),
    errors.UrlTooLong: (414, "UriTooLongException"),
    errors.HeadersTooLarge: (431, "HeadersTooLargeException"),
    errors.TooBusy: (429, "TooManyRequestsException"),
    errors.QuotaExceeded: (429, "TooManyRequestsException"),
    errors.NotAuthenticated: (401, "NotAuthorizedException"),
    errors.Forbidden: (403, "ForbiddenException"),
    errors.HostRefused: (403, "ForbiddenException"),
    errors.OriginRefused: (403, "ForbiddenException"),
    errors.UnsupportedBody: (415, "UnsupportedMediaTypeException"),
    errors.NotSupported: (406, "UnsupportedOperationException"),
    errors.NotVendable: (406, "UnsupportedOperationException"),
    errors.NotSigned: (403, "ForbiddenException"),
    errors.CommitConflict: (409, "CommitFailedException"),
    errors.CommitUnknown: (500, "CommitStateUnknownException"),
    errors.Unavailable: (503, "ServiceUnavailableException"),
}


def status_of(error: errors.CatalogError) -> int:
    return _row(type(error))[0]


def _row(kind: type[BaseException]) -> tuple[int, str]:
    return next(PROBLEMS[ancestor] for ancestor in kind.__mro__ if ancestor in PROBLEMS)


def problem_response(error: errors.CatalogError) -> Response:
    """The error in the specification's shape; the hint, when there is one, follows the message."""
    status, kind = _row(type(error))
    message = f"{cut(error.message)}. {cut(error.hint)}" if error.hint else cut(error.message)
    response = problem(status, kind, message)
    if isinstance(error, errors.MethodNotAllowed):
        response.headers.append((b"allow", ", ".join(error.allowed).encode()))
    elif status == 401:
        response.headers.append((b"www-authenticate", b'Bearer realm="frazil"'))
    elif status in (429, 503):
        seconds = error.retry_seconds if isinstance(error, errors.QuotaExceeded) else 1
        response.headers.append((b"retry-after", b"%d" % seconds))
    return response


def problem_of(error: errors.FrazilError) -> tuple[int, dict[str, object]]:
    """The status of any error, and what it says: its message and hint in the specification's shape, and its facts. What
    is wrong with a call of the Python API is wrong with the request that asks for it.
    """
    status, kind = _row(type(error)) if isinstance(error, errors.CatalogError) else (400, type(error).__name__)
    texts = {"message": error.message, "hint": error.hint or None, **error.facts}
    shown = {name: hide_tokens(cut(text)) if isinstance(text, str) else text for name, text in texts.items()}
    known = {name: fact for name, fact in shown.items() if isinstance(fact, int | str) or name == "hint"}
    return status, known | {"type": kind, "code": status}


def cut(message: str) -> str:
    """The message at a length that is fit to send: it may repeat what the client sent, and that may be long.

    >>> len(cut("x" * 100_000)), cut("short")
    (1030, 'short')
    """
    return (
        message
        if len(message) <= MESSAGE_LENGTH
        else f"{message[:MESSAGE_LENGTH]}... ({len(message)} characters in all)"
    )


def problem(status: int, kind: str, message: str) -> Response:
    text = hide_tokens(message).encode("utf-8", "replace").decode()
    body = {"error": {"message": text, "type": kind, "code": status}}
    return Response(status, orjson.dumps(body), [JSON_TYPE])
