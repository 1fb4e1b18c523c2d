"""Indexes of a table: list, create, load, replace, drop. The catalog's record of an index is the one that counts.

Not of the specification, which has no indexes yet. A record says which column, how it is compared, and where the files
of the index are; the catalog checks what could do harm and keeps the rest as it is.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from frazil.catalog import fields, plan
from frazil.catalog.access.privileges import Target
from frazil.catalog.context import Context
from frazil.catalog.http import NO_CONTENT, Request, Response, json_response
from frazil.catalog.idempotency import transact
from frazil.catalog.locations import parse_location
from frazil.catalog.names import check_name
from frazil.catalog.operations.tables import find_relation
from frazil.catalog.store import access, indexes
from frazil.catalog.store.database import Sql
from frazil.catalog.store.indexes import StoredIndex
from frazil.catalog.store.relations import Relation
from frazil.errors import AlreadyExists, BadRequest, CommitConflict, NoSuchIndex
from frazil.protocol import INDEX_NAME, INDEX_TYPE, METRICS

WHERE = "Index"
MOST_INDEXES, MOST_SEGMENTS, MOST_BYTES = 16, 4096, 1_048_576


def list_indexes(ctx: Context, request: Request) -> Response:
    return json_response({"indexes": stored_indexes(ctx, request)})


def stored_indexes(ctx: Context, request: Request) -> list[dict[str, Any]]:
    """The indexes of the request's table as the catalog answers them."""
    sql = ctx.database.read()
    table = _table(ctx, request, sql)
    return [show_index(index) for index in indexes.list_of(sql, table.uuid)]


def load_index(ctx: Context, request: Request) -> Response:
    sql = ctx.database.read()
    return json_response(show_index(find_index(sql, _table(ctx, request, sql), request)))


def create_index(ctx: Context, request: Request) -> Response:
    body = request.json()
    name, record = _check_name(fields.text(body, "name", WHERE)), fields.mapping(body, "record", WHERE)
    text, files = _check(record)
    checked = _check_places(ctx, request, ctx.database.read(), files)
    index = StoredIndex(name, ctx.new_uuid(), 1, text, ctx.clock())

    def create(sql: Sql) -> Response:
        table = _check_places(ctx, request, sql, files, known=checked)
        if len(indexes.list_of(sql, table.uuid)) >= MOST_INDEXES:
            raise BadRequest(f"{WHERE}: a table has at most {MOST_INDEXES} indexes")
        if not indexes.create(sql, table.uuid, index):
            raise AlreadyExists(f"Index already exists: {request.name()}.{name}")
        place = request.name()
        ctx.gate.own(sql, request, [Target("index", ctx.warehouse(request).name, place.key, place.name, name)])
        return json_response(show_index(index))

    return transact(ctx, request, create)


def replace_index(ctx: Context, request: Request) -> Response:
    """The record is the new one, if the index still has the version that the client has seen."""
    body = request.json()
    expected = fields.integer(body, "version", WHERE, most=fields.LONG_MAX)
    text, files = _check(fields.mapping(body, "record", WHERE))
    checked = _check_places(ctx, request, ctx.database.read(), files)

    def replace(sql: Sql) -> Response:
        table = _check_places(ctx, request, sql, files, known=checked)
        known = find_index(sql, table, request)
        index = StoredIndex(known.name, known.uuid, expected + 1, text, ctx.clock())
        if not indexes.replace(sql, table.uuid, index, expected=expected):
            raise CommitConflict(
                f"Index {known.name} of {request.name()} has version {known.version}, the request expects {expected}"
            )
        return json_response(show_index(index))

    return transact(ctx, request, replace)


def drop_index(ctx: Context, request: Request) -> Response:
    """Removes the record. The files stay: searches that have begun may still read them."""

    def drop(sql: Sql) -> Response:
        table = _table(ctx, request, sql)
        index = find_index(sql, table, request)
        indexes.drop(sql, table.uuid, index.name)
        name = request.name()
        access.forget_index(sql, (ctx.warehouse(request).name, name.key, name.name, index.name))
        return NO_CONTENT

    return transact(ctx, request, drop)


def _table(ctx: Context, request: Request, sql: Sql) -> Relation:
    return find_relation(sql, ctx.warehouse(request), request.name(), "table")


def find_index(sql: Sql, table: Relation, request: Request) -> StoredIndex:
    """The index of the path."""
    name = check_name(request.variables["index"], "index name")
    index = indexes.find(sql, table.uuid, name)
    if index is None:
        raise NoSuchIndex(f"{request.name()}.{name}")
    return index


def show_index(index: StoredIndex) -> dict[str, Any]:
    """An index as the catalog answers it."""
    return {
        "name": index.name,
        "uuid": index.uuid,
        "version": index.version,
        "updated-ms": index.updated_ms,
        "record": orjson.loads(index.record),
    }


# --- what is checked -------------------------------------------------------------------------------------------------


def _check_name(name: str) -> str:
    if not re.fullmatch(INDEX_NAME, name):
        raise BadRequest(
            f"{WHERE}: expected a name of letters, digits, '_', '.' and '-', at most 128, got {name[:60]!r}",
            option="name",
        )
    return name


def _check(record: dict[str, Any]) -> tuple[str, list[str]]:
    """The record as it is stored, with known fields of known types, and the files that it names."""
    if fields.text(record, "type", WHERE) != INDEX_TYPE:
        raise BadRequest(
            f"{WHERE}: expected type {INDEX_TYPE}, got {record['type'][:60]!r}", option="type", expected=INDEX_TYPE
        )
    if fields.text(record, "metric", WHERE) not in METRICS:
        raise BadRequest(f"{WHERE}: expected one of {', '.join(METRICS)} as 'metric'", option="metric")
    for field, most in (("field-id", fields.INT_MAX), ("dimension", 65_536), ("probes", 65_536)):
        if not 1 <= fields.integer(record, field, WHERE) <= most:
            raise BadRequest(f"{WHERE}: expected '{field}' from 1 to {most:,}", option=field, got=record[field])
    fields.integer({"seed": record.get("seed", 0)}, "seed", WHERE, most=fields.LONG_MAX)
    segments = fields.objects(record, "segments", WHERE)
    if len(segments) > MOST_SEGMENTS:
        raise BadRequest(f"{WHERE}: expected at most {MOST_SEGMENTS:,} segments, got {len(segments):,}")
    files = [fields.text(fields.mapping(record, "codebook", WHERE), "path", WHERE)]
    for segment in segments:
        files.append(fields.text(segment, "path", WHERE))
        for field in ("size", "vectors", "files"):
            if fields.integer(segment, field, WHERE, most=fields.LONG_MAX) < 0:
                raise BadRequest(f"{WHERE}: expected '{field}' of a segment from 0", option=field)
    text = orjson.dumps(record)
    if len(text) > MOST_BYTES:
        raise BadRequest(f"{WHERE}: the record has {len(text):,} bytes; at most {MOST_BYTES:,} are accepted")
    return text.decode(), files


def _check_places(
    ctx: Context, request: Request, sql: Sql, files: list[str], *, known: Relation | None = None
) -> Relation:
    """The table, below whose location all files are: a search reads them with the server's or the client's own keys.
    It may be `known` from a check before the transaction, so that its metadata is not read in it, unless it changed.
    """
    relation = _table(ctx, request, sql)
    if known is not None and known.metadata_location == relation.metadata_location:
        return relation
    location = plan.load_current(ctx, request.name(), relation).metadata["location"]
    home = parse_location(location)
    for file in files:
        place = parse_location(file)
        if not home.contains(place) or place == home:
            raise BadRequest(f"{WHERE}: the file {file[:200]} is not below the location of the table, {location}")
    return relation
