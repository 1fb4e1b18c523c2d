"""A receiver of OpenLineage events over HTTP, and what the standard's client knows of their shape."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import ModuleType
from typing import Any

Event = Mapping[str, Any]


@contextmanager
def receiver(status: int = 201) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server that keeps the events that it gets."""
    events: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            events.append(json.loads(body))
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", events
        server.shutdown()
        thread.join()


def facets_of(event: Event) -> Iterator[dict[str, Any]]:
    """All facets of an event."""
    for holder in (event["run"], event["job"], *event["inputs"], *event["outputs"]):
        for kind in ("facets", "inputFacets", "outputFacets"):
            yield from holder.get(kind, {}).values()


def check_event(event: Event) -> None:
    """Refuses an event that the client's own classes, which are made from the standard's schemas, do not know: the
    package has no schemas. Required fields are there, and no other ones than theirs.
    """
    import attr
    from openlineage.client import facet_v2
    from openlineage.client.event_v2 import RunEvent

    _check(event, RunEvent, "event")
    kinds = {
        kind._get_schema(): kind
        for module in vars(facet_v2).values()
        if isinstance(module, ModuleType)
        for kind in vars(module).values()
        if isinstance(kind, type) and attr.has(kind) and hasattr(kind, "_get_schema")
    }
    for facet in facets_of(event):
        _check(facet, kinds[facet["_schemaURL"]], facet["_schemaURL"])


def _check(value: Event, kind: type, what: str) -> None:
    import attr

    fields = attr.fields_dict(kind)
    required = {name for name, field in fields.items() if field.default is attr.NOTHING and field.init}
    assert required <= set(value) <= {*fields, "_producer", "_schemaURL"}, (what, sorted(value), sorted(fields))
