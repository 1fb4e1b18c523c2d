"""The tables page: every table of a warehouse in one line, page by page.

A page ends when its time is up, so the first tables are shown at once, however many there are. What a line says follows
from a metadata file, which never changes: it is kept by the file's location.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import islice
from threading import Lock
from typing import Any

import orjson

from frazil.catalog import Context, Kept, Readable, Request, Response, key_of, list_seen, peek_metadata
from frazil.console.answers import console_json, refuse_other_sites
from frazil.console.light import light
from frazil.console.summary import count_commits, judge, summarise
from frazil.errors import CatalogError, UpkeepError
from frazil.logs import hide_tokens

PAGE_SECONDS = 0.2
MOST_LINES = 2000  # of a page
MOST_KEPT = 50_000  # lines; 1 to 3 kB each
MOST_CHARACTERS = 500  # of an error
RESCORE_MS = 3_600_000  # snapshots get old by themselves

Clock = Callable[[], float]
LinesOf = Callable[[Context, Request, Iterator[Kept]], Iterator[dict[str, Any]]]

log = logging.getLogger("frazil.catalog")


class Lines:
    """What was said about metadata files lately."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most, self._lock = most, Lock()
        self._lines: OrderedDict[tuple[str, str, int], dict[str, Any]] = OrderedDict()

    def line(self, ctx: Context, table: Kept) -> dict[str, Any]:
        """The line of a table, with its debt as of this hour."""
        # The UUID, too: a location may lie in another store once a warehouse has changed.
        key = (table.metadata_location, table.uuid, table.now_ms // RESCORE_MS)
        with self._lock:
            if key in self._lines:
                self._lines.move_to_end(key)
                return self._lines[key]
        line = _describe(ctx, table)
        if "error" not in line:  # the file may be back in a moment
            with self._lock:
                self._lines[key] = line
                while len(self._lines) > self._most:
                    self._lines.popitem(last=False)
        return line


def _describe(ctx: Context, table: Kept) -> dict[str, Any]:
    try:
        metadata = peek_metadata(ctx, table.metadata_location)
        activity = count_commits(metadata, now_ms=table.now_ms)
        return {**summarise(metadata), "activity": activity, "debt": debt_of_metadata(metadata, table)}
    except CatalogError as exc:
        return {"error": hide_tokens(exc.message)[:MOST_CHARACTERS]}
    except (
        AttributeError,
        KeyError,
        TypeError,
        ValueError,
    ) as exc:
        # Metadata that was registered may hold anything: one table must not end the list.
        log.warning("%s: %s cannot be summarised: %s", table.label, table.metadata_location, exc)
        return {"error": f"unexpected value in the table metadata ({type(exc).__name__})"}


def debt_of_metadata(metadata: dict[str, Any], table: Kept) -> dict[str, Any]:
    """The debt of a table, as a worker of upkeep would find it that has never looked at it."""
    from frazil.upkeep import Policy, debt_of

    try:
        policy = Policy.of(metadata["properties"], table="")
    except UpkeepError as exc:  # kept by the file, which may get another name
        return {"error": exc.message.removeprefix(": ")}
    debt = debt_of(light(metadata), policy, now_ms=table.now_ms)
    return {**debt.to_json(), "enabled": policy.enabled is not False}


def health_of(table: Kept, line: dict[str, Any]) -> dict[str, Any]:
    """The health of a table: from the score of a worker, which knows what upkeep has done, if it is about this
    version.
    """
    if "error" in line:
        return {"level": "error", "score": None, "reasons": [line["error"]]}
    return judge(debt_used(table, line), empty=line["committed_ms"] is None)


def debt_used(table: Kept, line: dict[str, Any]) -> dict[str, Any]:
    """The debt that a worker has found in this version of the table, else that of the metadata alone."""
    is_scored = table.debt is not None and table.scored_location == table.metadata_location
    debt: dict[str, Any] = orjson.loads(table.debt or "{}") if is_scored else line["debt"]
    return debt


_lines = Lines()


def list_tables(ctx: Context, request: Request) -> Response:
    """A page of tables in the order of their names; `next` is where the next page begins, null on the last one."""
    return console_json(page_of(ctx, request, _lines_of))


def page_of(ctx: Context, request: Request, lines_of: LinesOf) -> dict[str, Any]:
    """A page of lines about the tables that the caller may see, as far as there is time."""
    refuse_other_sites(request)
    tables, after = list_seen(ctx, request), request.query.get("after", "")
    # As the database sorts them: a namespace first, with all of its tables, then those inside of it.
    namespace, _, name = after.rpartition("\x1f")
    rest = (table for table in tables if (table.namespace, table.name) > (namespace, name)) if after else iter(tables)
    page = list(islice(_within(PAGE_SECONDS, lines_of(ctx, request, rest)), MOST_LINES))
    last = page[-1].pop("key") if page else ""
    for line in page[:-1]:
        del line["key"]
    done = not tables or not page or last == key_of(tables[-1])
    return {"tables": page, "total": len(tables), "next": None if done else last}


def _lines_of(ctx: Context, request: Request, tables: Iterator[Kept]) -> Iterator[dict[str, Any]]:
    for _, name, line in describe_lines(ctx, request, tables):
        shown = {key: value for key, value in (line or {}).items() if key not in ("debt", "error")}
        yield {**shown, **name}


def describe_lines(
    ctx: Context, request: Request, tables: Iterator[Kept]
) -> Iterator[tuple[Kept, dict[str, Any], dict[str, Any] | None]]:
    """Each table with its names and health, and what its metadata says; None if the caller may not read it."""
    readable = Readable(ctx, request)
    for table in tables:
        request.check_client()
        name: dict[str, Any] = {"key": key_of(table), "namespace": table.identifier[:-1], "name": table.name}
        if table not in readable:
            hidden = {"level": "hidden", "score": None, "reasons": ["you may not read this table"]}
            yield table, {**name, "health": hidden}, None
            continue
        line = _lines.line(ctx, table)
        yield table, {**name, "health": health_of(table, line), "working": table.holder is not None}, line


def _within(seconds: float, items: Iterator[dict[str, Any]], clock: Clock = time.monotonic) -> Iterator[dict[str, Any]]:
    """At least one of the items, and what else there is time for."""
    deadline = clock() + seconds
    for item in items:
        yield item
        if clock() >= deadline:
            return
