"""The route table against the specification's list of operations, and the document that is built from it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from frazil.catalog.openapi import OPERATIONS
from frazil.catalog.routes import OWN_ROUTES, ROUTES, SCANS, openapi_document
from frazil.catalog.routing import Router
from frazil.errors import BadRequest, MethodNotAllowed, UnknownRoute
from tests.kit.raising import raises

OFFICIAL = (Path(__file__).parent / "official_operations.txt").read_text().splitlines()


def test_every_operation_of_the_specification_is_served() -> None:
    assert {f"{route.method} {route.template} {route.operation}" for route in ROUTES} == set(OFFICIAL)


def test_the_document_describes_exactly_what_is_served() -> None:
    paths = json.loads(openapi_document())["paths"]
    described = {(m.upper(), path, op["operationId"]) for path, methods in paths.items() for m, op in methods.items()}
    assert described == {(r.method, r.template, r.operation) for r in (*ROUTES, *OWN_ROUTES)}
    assert {r.operation for r in (*ROUTES, *OWN_ROUTES)} == set(OPERATIONS)


def test_every_operation_that_changes_something_takes_an_idempotency_key() -> None:
    changing = {route.operation for route in ROUTES if route.method in ("POST", "DELETE")} - {
        "reportMetrics",
        "getToken",
        "signRequest",
        *SCANS,
    }
    assert {route.operation for route in ROUTES if route.writes} == changing


def test_an_encoded_slash_stays_inside_its_name() -> None:
    route, variables = Router(ROUTES).find("GET", b"/v1/w/namespaces/a%1Fb/tables/x%2Fy%20z")
    assert (route.operation, variables) == ("loadTable", {"prefix": "w", "namespace": "a\x1fb", "table": "x/y z"})


def test_names_that_look_like_paths_are_names() -> None:
    route, variables = Router(ROUTES).find("GET", b"/v1/w/namespaces/tables/tables/views")
    assert (route.operation, variables["namespace"], variables["table"]) == ("loadTable", "tables", "views")


@pytest.mark.parametrize(
    "path", [b"/", b"/v1", b"/v1/w/namespaces/", b"/v1/w/namespaces//tables", b"/v1/config/", b"/v1/w/x/y/z"]
)
def test_a_path_that_leads_nowhere_is_unknown(path: bytes) -> None:
    with pytest.raises(UnknownRoute):
        Router(ROUTES).find("GET", path)


def test_a_wrong_method_says_which_are_right() -> None:
    with pytest.raises(MethodNotAllowed) as raised:
        Router(ROUTES).find("PATCH", b"/v1/w/namespaces/a")
    assert raised.value.allowed == ("GET", "HEAD", "DELETE")


def test_a_segment_that_is_no_utf8_is_refused() -> None:
    with raises(BadRequest, option="path", got="%ff"):
        Router(ROUTES).find("GET", b"/v1/w/namespaces/%ff")
