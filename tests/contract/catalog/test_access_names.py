"""Names that no database can hold: with authentication every route answers as without, never with a 5xx."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from frazil.catalog import running_catalog
from frazil.catalog.routes import OWN_ROUTES, ROUTES
from tests.contract.catalog.test_access import kind_of, request_of, restore
from tests.kit.access import guarded_catalog
from tests.kit.catalog_databases import SCHEMA, Client

ODD = ("a%00b", "%ED%A0%80")  # a NUL, and half of a surrogate pair
NUL = "a\0b"
BODIES: list[tuple[str, str, Any]] = [
    ("POST", "/namespaces", {"namespace": [NUL]}),
    ("POST", "/namespaces", {"namespace": ["ns", NUL]}),
    ("POST", "/namespaces/ns/tables", {"name": NUL, "schema": SCHEMA}),
    ("POST", "/namespaces/ns/tables", {"name": "new", "schema": SCHEMA, "location": f"file:///{NUL}"}),
    ("POST", "/namespaces/ns/register", {"name": NUL, "metadata-location": "nowhere", "overwrite": True}),
    ("POST", "/namespaces/ns/register", {"name": "r", "metadata-location": NUL}),
    ("POST", "/tables/references", {"files": [NUL], "other-than": {"namespace": ["ns"], "name": NUL}}),
    ("POST", "/namespaces/ns/tables/t/indexes", {"name": NUL, "record": {}}),
    ("POST", "/namespaces/ns/grants", {"grant": [{"grantee": NUL, "privilege": "read"}]}),
    ("POST", "/namespaces/ns/grants", {"revoke": [{"grantee": NUL, "privilege": "read"}]}),
    ("POST", "/namespaces/ns/tables/t/metrics", {"report-type": NUL}),
    ("GET", "/namespaces?parent=a%00b", None),
    ("GET", f"/namespaces/ns/tables?pageSize=1&pageToken={base64.urlsafe_b64encode(NUL.encode()).decode()}", None),
    ("GET", "/../../access/roles?names=a%00b", None),
]


def odd_requests() -> Iterator[tuple[str, str, Any]]:
    """A request of every route for each odd name in its path, and those above. Warehouses are not in the database."""
    for route in (*ROUTES, *OWN_ROUTES):
        method, path, body, _ = request_of(route.operation, "ns")
        for variable in set(re.findall(r"{([\w-]+)}", route.template)) - {"prefix"}:
            for odd in ODD:
                segments = zip(path.split("/"), route.template.split("/"), strict=True)
                yield method, "/".join(odd if part == f"{{{variable}}}" else name for name, part in segments), body
    yield from ((method, f"/v1/default{path}".replace("/v1/default/../..", ""), body) for method, path, body in BODIES)


def test_odd_names_are_refused_as_without_authentication(database: str, tmp_path: Path) -> None:
    with guarded_catalog(tmp_path, database) as guarded, running_catalog(tmp_path, database=database) as plain:
        without, stranger = Client(plain.uri), guarded.client(guarded.token("stranger"))
        restore(guarded.admin, "ns")  # none of the requests changes it
        for request in odd_requests():
            expected, answer, refused = (client.raw(*request) for client in (without, guarded.admin, stranger))
            statuses = (expected.status, answer.status, refused.status)
            assert (answer.status, kind_of(answer)) == (expected.status, kind_of(expected)), (request, statuses)
            assert max(statuses) < 500, (request, statuses)
        without.session.close()
