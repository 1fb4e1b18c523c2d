"""The data of the pipelines page.

The graph comes in two steps: what the catalog has recorded is there at once; what the project declares is added when a
child process has loaded it, which takes a second or two after each change of its files. States of the project's nodes
come with the caller's token, as `frazil graph --state` finds them.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from threading import Lock
from typing import Any

from frazil.catalog import Context, Kept, Request, Response, peek_metadata
from frazil.console.answers import console_json, refuse_other_sites
from frazil.console.pipelines.facts import Behind, Facts, find_behind, find_facts
from frazil.console.pipelines.picture import Declared, Picture, Recorded
from frazil.console.pipelines.sight import Identifier, Sight, identify
from frazil.console.pipelines.streams import read_streams
from frazil.console.project import ChildFailed, Described, ask_child, has_project, projects
from frazil.errors import CatalogError
from frazil.protocol import COMPANION_SUFFIXES

LOOK_SECONDS = 1.5  # at tables that were not looked at before; the page asks again for the rest
MOST_KEPT = 20_000  # facts
STATE_SECONDS = 60.0  # that a child has for states: it lists landing files

Clock = Callable[[], float]


class KeptFacts:
    """What was found in metadata files lately; they never change."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most, self._lock = most, Lock()
        self._facts: OrderedDict[tuple[str, str], Facts | None] = OrderedDict()

    def get(self, ctx: Context, table: Kept, *, look: bool) -> tuple[bool, Facts | None]:
        """Whether the table was looked at, and what was found; None for metadata that cannot be read."""
        key = (table.metadata_location, table.uuid)
        with self._lock:
            if key in self._facts:
                self._facts.move_to_end(key)
                return True, self._facts[key]
        if not look:
            return False, None
        facts = _find(ctx, table)
        with self._lock:
            self._facts[key] = facts
            while len(self._facts) > self._most:
                self._facts.popitem(last=False)
        return True, facts


def _find(ctx: Context, table: Kept) -> Facts | None:
    try:
        return find_facts(peek_metadata(ctx, table.metadata_location))
    except (CatalogError, AttributeError, KeyError, TypeError, ValueError):
        return None  # the tables page says what is wrong with it


_kept = KeptFacts()


def show_pipelines(ctx: Context, request: Request) -> Response:
    """The graph, as far as the caller may see it; with `declared=wait`, after the project's files were loaded."""
    refuse_other_sites(request)
    sight = Sight(ctx, request)
    recorded, remaining = _look(ctx, request, sight)
    folder = ctx.project if has_project(ctx.project) else None
    described = None
    if folder is not None:
        wait = request.query.get("declared") == "wait"
        described = projects.describe(folder, request.check_client) if wait else projects.known(folder)
    picture = Picture(sight, recorded, _declared(described))
    picture.fill()
    answer = picture.as_json()
    if folder is not None:
        _add_streams(answer["boxes"], read_streams(folder), sight)
    return console_json(
        {
            **answer,
            "tables": len(sight.tables),
            "remaining": remaining,
            "project": project_status(ctx, sight, described),
        }
    )


def _look(ctx: Context, request: Request, sight: Sight, clock: Clock = time.monotonic) -> tuple[Recorded, int]:
    """What the tables say that the caller may read, and how many there was no time for."""
    deadline, facts, remaining = clock() + LOOK_SECONDS, dict[Identifier, Facts](), 0
    now_ms = ctx.clock()
    for name, table in sight.tables.items():
        request.check_client()
        if table.name.endswith(COMPANION_SUFFIXES) or not sight.knows(name):
            continue
        looked, own = _kept.get(ctx, table, look=clock() < deadline)
        remaining += not looked
        if own is not None:
            facts[name] = own
    return Recorded(facts, dict(_behind(ctx, sight, facts)), now_ms), remaining


def _behind(
    ctx: Context, sight: Sight, facts: Mapping[Identifier, Facts]
) -> Iterator[tuple[tuple[Identifier, str], Behind]]:
    """How far each writer is behind, where the caller may read all of its inputs."""
    for name, table_facts in facts.items():
        for writer in table_facts.writers:
            inputs = {label: sight.tables.get(identify(label)) for label in writer.inputs}
            if not inputs or not all(table is not None and sight.knows(table.identifier) for table in inputs.values()):
                continue
            try:
                metadata = {
                    label: peek_metadata(ctx, table.metadata_location) for label, table in inputs.items() if table
                }
                yield (name, writer.name), find_behind(writer, metadata)
            except (CatalogError, AttributeError, KeyError, TypeError, ValueError):
                continue


def _declared(described: Described | None) -> Declared:
    return Declared(described.nodes, described.tables) if described is not None else Declared()


def project_status(ctx: Context, sight: Sight, described: Described | None) -> dict[str, Any]:
    """What is known of the project: `none`, `unread`, `failed` or `read`; the error, for who manages the warehouse."""
    if not has_project(ctx.project):
        return {"status": "none"}
    if described is None:
        return {"status": "unread"}
    if described.error is None:
        return {"status": "read", "name": described.declared["name"]}
    error = ChildFailed(described.error, of_code=True).text_for(sight)
    return {"status": "failed", "error": error}


def _add_streams(boxes: list[dict[str, Any]], streams: Mapping[tuple[str, str], dict[str, Any]], sight: Sight) -> None:
    for box in boxes:
        if box["kind"] == "pipeline" and sight.knows(tuple(box["table"])):
            box["progress"] = streams.get((box["label"], ".".join(box["table"])))


# --- states ----------------------------------------------------------------------------------------------------------


def show_states(ctx: Context, request: Request) -> Response:
    """The states of the project's nodes, with the caller's rights: of those whose table and inputs it may read."""
    refuse_other_sites(request)
    if ctx.project is None or not has_project(ctx.project):
        return console_json({"states": {}, "error": None})
    sight, described = Sight(ctx, request), projects.describe(ctx.project, request.check_client)
    nodes = [
        node["name"]
        for node in described.nodes
        if sight.knows_all([identify(name) for name in (node["table"], *node["inputs"])])
    ]
    question = {"ask": "states", "nodes": nodes, **connection(ctx, request)}
    try:
        states = ask_child(ctx.project, question, check=request.check_client, seconds=STATE_SECONDS) if nodes else {}
    except ChildFailed as exc:
        return console_json({"states": {}, "error": exc.text_for(sight)})
    return console_json({"states": states.get("states", {}), "error": None})


def connection(ctx: Context, request: Request) -> dict[str, str | None]:
    """How a child reaches this server as the caller."""
    scheme, _, token = (request.header(b"authorization") or "").partition(" ")
    is_token = ctx.gate.on and scheme.lower() == "bearer"
    return {
        "uri": ctx.local_uri(request),
        "warehouse": ctx.warehouse(request).name,
        "token": token.strip() if is_token else None,
    }
