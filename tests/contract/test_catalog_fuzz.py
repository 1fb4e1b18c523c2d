"""The server fuzzed from its own OpenAPI document: no 500, and every error in the specification's shape."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.catalog.routes import ROUTES, openapi_document
from frazil.catalog.routing import Route
from tests.conftest import Campaign
from tests.contract.test_catalog_views import create as create_view
from tests.kit.catalog_databases import Client

DOCUMENT = schemathesis.openapi.from_dict(json.loads(openapi_document()))
REMOVING = ("dropTable", "dropView", "unregisterTable")  # would take away what the others ask about
CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance, status_code_conformance]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCatalog]:
    logging.getLogger("frazil.catalog").setLevel("CRITICAL")
    with running_catalog(tmp_path_factory.mktemp("fuzz")) as running:
        Client(running.uri).create("t")
        create_view(Client(running.uri), "v")
        yield running
    logging.getLogger("frazil.catalog").setLevel("NOTSET")


def fuzz(server: EmbeddedCatalog, route: Route, mode: GenerationMode, examples: int, **known: str) -> None:
    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(case=DOCUMENT[route.template][route.method].as_strategy(generation_mode=mode))
    def ask(case: schemathesis.Case) -> None:
        case.path_parameters = {name: known.get(name, value) for name, value in (case.path_parameters or {}).items()}
        response = case.call(base_url=server.uri)
        case.validate_response(response, checks=CHECKS)
        if response.status_code >= 400 and case.method != "HEAD":
            error = response.json()["error"]
            if route.form and isinstance(error, str):  # the shape of OAuth2
                return
            assert (error["code"], bool(error["type"]), bool(error["message"])) == (response.status_code, True, True)

    ask()


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.operation)
def test_any_request_gets_an_answer_of_the_documents_shape(
    server: EmbeddedCatalog, route: Route, campaign: Campaign
) -> None:
    fuzz(server, route, GenerationMode.POSITIVE, campaign.size(short=6, full=200), prefix="default")


def _may_be_wrong(route: Route) -> bool:
    """Whether the document forbids anything: of requests that have names alone it does not, for any text is a name."""
    places = {parameter["in"] for parameter in DOCUMENT[route.template][route.method].definition.raw["parameters"]}
    return route.method == "POST" or places != {"path"}


CASES = [(route, mode) for mode in GenerationMode for route in ROUTES if route.operation not in REMOVING]
CASES = [(route, mode) for route, mode in CASES if mode is not GenerationMode.NEGATIVE or _may_be_wrong(route)]


@pytest.mark.parametrize(
    ("route", "mode"), CASES, ids=lambda item: item.operation if isinstance(item, Route) else item.value
)
def test_any_request_about_things_that_exist_gets_an_answer_of_the_documents_shape(
    server: EmbeddedCatalog, route: Route, mode: GenerationMode, campaign: Campaign
) -> None:
    fuzz(server, route, mode, campaign.size(short=8, full=400), prefix="default", namespace="ns", table="t", view="v")
