"""Idempotency keys: a request that is sent again with its key is answered again, not carried out again.

The answer is kept in the transaction that carries the request out, so there is no moment at which one exists without
the other. A key belongs to one request (a hash of method, path, query and body). Final answers are kept: 2xx, and the
4xx that would be the same next time; never a 5xx.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable

from frazil.catalog.access.privileges import Need, Privilege, Target
from frazil.catalog.context import Context
from frazil.catalog.http import JSON_TYPE, NO_CONTENT, Request, Response
from frazil.catalog.metadata import Version, parse_file
from frazil.catalog.problems import problem_response, status_of
from frazil.catalog.store import idempotency as store
from frazil.catalog.store import relations
from frazil.catalog.store.database import Fence, Sql
from frazil.errors import (
    BadRequest,
    CatalogError,
    CommitUnknown,
    KeyReused,
    MetadataCorrupt,
    MetadataMissing,
    Unavailable,
)

LIFETIME = "PT30M"  # what clients see
KEEP_MS = 2 * 30 * 60 * 1000  # what is kept: with an hour, clocks may differ and retries may be late
FINAL = frozenset((400, 404, 409, 422))
HEADER = b"idempotency-key"


class KeyTaken(Exception):
    """The same request is carried out at the same time, and was first: its answer is ours."""


class FenceBroken(Exception):
    """Keys, roles or grants have changed, or may have, since the caller was allowed to make a change; nothing was
    changed.
    """


def answer_once(ctx: Context, run: Callable[[Context, Request], Response], request: Request) -> Response:
    """The operation's answer, or the one that was given before to the same request with the same key."""
    text = request.header(HEADER)
    if text is None:
        return run(ctx, request)
    _read_key(request, text)
    known = _replay(ctx, request)
    if known is not None:
        return known
    try:
        return run(ctx, request)
    except KeyTaken:
        known = _replay(ctx, request)
        assert known is not None, "a key that is taken has a record"
        return known
    except CatalogError as exc:
        return _settle(ctx, request, exc)


def replay_empty(ctx: Context, request: Request) -> Response | None:
    """The answer that was given before to a request that its caller lacks the rights for, if it has no content: a drop
    or a rename that is sent again has taken the grants of its table along.
    """
    text = request.header(HEADER)
    if text is None or request.caller is None:
        return None
    _read_key(request, text)
    assert request.key is not None
    record = store.find(ctx.database.read(), request.key)
    empty = record is not None and record.request == request.fingerprint and record.status == NO_CONTENT.status
    return NO_CONTENT if empty else None


def _read_key(request: Request, text: str) -> None:
    """Notes the key and what it belongs to. Each principal has keys of its own."""
    key = _check_key(text)
    request.key = f"{key} {request.caller.principal}" if request.caller is not None else key
    request.fingerprint = _fingerprint(request)


def _settle(ctx: Context, request: Request, failure: CatalogError) -> Response:
    """The answer after a failure. The same request may have been carried out meanwhile by another connection, or by
    this one whose COMMIT went unheard: then there is a record, and the failure is only its echo. Else the failure is
    final, and kept if it may be.
    """
    try:
        known = _replay(ctx, request)
        if known is None and status_of(failure) in FINAL and not _keep_final(ctx, request, problem_response(failure)):
            # The same request was carried out by another connection since we looked: its answer is the true one.
            known = _replay(ctx, request)
    except Unavailable:
        known = None  # what is said about the request matters more than that it cannot be kept
    if known is not None:
        return known
    raise failure


def _keep_final(ctx: Context, request: Request, answer: Response) -> bool:
    """Whether the key was free for this answer, or the database cannot tell."""
    try:
        return ctx.database.write(lambda sql: _keep(ctx, sql, request, answer))
    except CommitUnknown:
        return True


def transact(ctx: Context, request: Request, work: Callable[[Sql], Response]) -> Response:
    """The answer of `work`, which is carried out in one transaction together with the record of its idempotency key."""

    def work_and_record(sql: Sql) -> Response:
        ctx.gate.recheck(sql, request)
        response = work(sql)
        ctx.gate.record(sql, request, response.status)
        return _with_key(ctx, sql, request, response)

    return ctx.database.write(work_and_record)


def transact_fenced(
    ctx: Context, request: Request, fence: Fence | None, work: Callable[[Sql, Fence | None], Response]
) -> Response:
    """The same for work that carries the fence in its own statements: the check of the caller and the record of the
    audit log take no round trips. If keys, roles or grants have changed, it runs again and they are looked at.
    """
    if fence is not None:
        request.assumed = False  # the fence decides
        try:
            return ctx.database.write(lambda sql: _with_key(ctx, sql, request, work(sql, fence)))
        except FenceBroken:
            pass
    return transact(ctx, request, lambda sql: work(sql, None))


def _with_key(ctx: Context, sql: Sql, request: Request, response: Response) -> Response:
    """The response, with its idempotency key recorded."""
    if not keep_key(ctx, sql, request, response):
        raise KeyTaken
    return response


def keep_key(ctx: Context, sql: Sql, request: Request, response: Response) -> bool:
    """Whether the request has no key, or its key was free and is recorded with this response."""
    return request.key is None or _keep(ctx, sql, request, response)


def _keep(ctx: Context, sql: Sql, request: Request, response: Response) -> bool:
    assert request.key is not None
    now = ctx.clock()
    store.forget(sql, before_ms=now - KEEP_MS)
    body = None if response.metadata_location else response.body.decode()
    record = store.Record(
        request.fingerprint, response.status, body, response.metadata_location, response.kind, response.uuid
    )
    return store.keep(sql, request.key, record, now_ms=now)


def _replay(ctx: Context, request: Request) -> Response | None:
    assert request.key is not None
    record = store.find(ctx.database.read(), request.key)
    if record is None:
        return None
    if record.request != request.fingerprint:
        raise KeyReused(request.key.partition(" ")[0])
    if record.metadata_location is None:
        return Response(record.status, (record.body or "").encode(), [JSON_TYPE] if record.body else [])
    try:
        version = ctx.files.load(record.metadata_location, kind=record.kind or _kind_of(ctx, record.metadata_location))
    except (MetadataMissing, MetadataCorrupt):
        version = _load_current(ctx, request, record)
    return Response(record.status, version.reply, [JSON_TYPE, (b"etag", version.etag.encode())])


def _kind_of(ctx: Context, location: str) -> str:
    """What a metadata file describes, for a record that does not say so."""
    return "view" if "view-uuid" in parse_file(location, ctx.files.read_bytes(location)) else "table"


def _load_current(ctx: Context, request: Request, record: store.Record) -> Version:
    """The table or view as it is now, for a request whose own metadata file is gone: its change is part of that. It may
    have another name by now, and the caller must be allowed to read it there.

    If that is not available either, the client gets an unknown outcome. It must not get a failure: after a 4xx Java
    deletes the files of its commit.
    """
    sql, warehouse = ctx.database.read(), ctx.warehouse(request).name
    pointers = relations.having_uuid(sql, record.uuid) if record.kind and record.uuid else []
    try:
        for pointer in pointers:
            target = Target(pointer.kind, pointer.warehouse, pointer.namespace, pointer.name)
            is_same = (pointer.warehouse, pointer.kind) == (warehouse, record.kind)
            if is_same and ctx.gate.allows(sql, request, Need(Privilege.READ, target)):
                return ctx.files.load(pointer.metadata_location, kind=pointer.kind)
    except (MetadataMissing, MetadataCorrupt) as exc:
        raise _outlived(record) from exc
    raise _outlived(record)


def _outlived(record: store.Record) -> CommitUnknown:
    return CommitUnknown(
        f"The request was carried out (status {record.status}), but its metadata file {record.metadata_location} no "
        f"longer exists",
        hint="load the table: it was changed, dropped or replaced after this request",
    )


def _check_key(text: str) -> str:
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise BadRequest(f"Invalid Idempotency-Key {text[:60]!r}: expected a UUID") from None


def _fingerprint(request: Request) -> str:
    digest = hashlib.sha256()
    for part in (
        request.method.encode(),
        request.path.encode("utf-8", "surrogatepass"),
        request.query_string,
        request.body,
    ):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()
