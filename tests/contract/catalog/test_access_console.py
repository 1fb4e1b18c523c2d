"""The routes of the console pass the gate as those of the REST API do: what a caller may not see is missing.

Each new route is asked as a stranger by itself; `NEEDS`, `ABOVE` or `KNOWN` must say what it needs, and `BODIES` how it
is asked if it is no GET.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

from frazil.catalog import Target
from frazil.catalog.access.privileges import Privilege, included
from frazil.catalog.routing import Route
from frazil.console import ROUTES
from tests.kit.access import SERVER, Guarded, guarded_catalog, namespace, table
from tests.kit.catalog_databases import SCHEMA, Answer, Client

FILES = {"showConsole", "headConsole", "getConsoleFile"}  # hold no data: anyone may load them
KNOWN = {"getConsoleSession"}  # of every known caller: answers what this caller may see
# the privilege on the server that other routes without {prefix} need
ABOVE: dict[str, str] = {
    "listConsoleAuditLog": "manage",
    "listAccess": "manage",
    "explainAccess": "manage",
    "createToken": "manage",
    "rotateToken": "manage",
    "revokeToken": "manage",
    "createRole": "manage",
    "dropRole": "manage",
    "changeMember": "manage",
}
# The privilege that a route needs on the last object in its path.
NEEDS = {
    "runConsoleQuery": "read",  # on what it reads
    "writeConsoleCsv": "read",
    "prepareConsoleQueries": "discover",
    "listConsoleTables": "discover",
    "listConsoleUpkeep": "discover",
    "showConsoleUpkeep": "read",
    "requestUpkeep": "maintain",
    "planUpkeep": "maintain",
    "showConsoleConnections": "discover",
    "showConsolePipelines": "discover",
    "showConsoleStates": "discover",
    "showConsoleTable": "read",
    "listConsoleSnapshots": "read",
    "showConsoleRows": "read",
    "showConsoleFiles": "read",
    "showConsolePartitions": "read",
    "showConsoleCompaction": "read",
    "showConsoleMetadata": "read",
    "listConsoleIndexes": "read",
    "listConsoleRuns": "read",
    "showConsoleQuarantine": "read",
    "listConsoleQuarantine": "read",
    "listConsoleChecks": "discover",
    "showConsoleChecks": "read",
    "previewConsoleReplay": "read",
    "doConsoleReplay": "write",
    "previewConsoleRollback": "read",
    "doConsoleRollback": "write",
    "previewConsoleDropRef": "read",
    "doConsoleDropRef": "write",
    "createConsoleRef": "write",
    "showConsolePlan": "discover",
    "applyConsolePlan": "discover",
}
ROLLBACK = {"ref": "main", "head": "1", "snapshot": "2", "with_progress": False}
REF = {"kind": "tag", "name": "march", "snapshot": "1"}
REPLAY = {"head": "1", "reason": None, "extra_fields": "error"}
# of requests that have one, about a table of a namespace
BODIES: dict[str, Callable[[str, str], Any]] = {
    "applyConsolePlan": lambda _space, _name: {},
    "requestUpkeep": lambda _space, _name: {"steps": ["compact"]},
    "planUpkeep": lambda _space, _name: {"steps": ["compact"]},
    "createToken": lambda _space, _name: {"principal": "made"},
    "rotateToken": lambda _space, _name: {"id": "0123456789abcdef", "keep_seconds": 0},
    "revokeToken": lambda _space, _name: {"id": "0123456789abcdef"},
    "createRole": lambda _space, _name: {"name": "made"},
    "dropRole": lambda _space, _name: {"name": "made"},
    "changeMember": lambda _space, _name: {"role": "made", "principal": "made", "member": True},
    "runConsoleQuery": lambda space, name: {"sql": f"SELECT * FROM {space}.{name}"},
    "writeConsoleCsv": lambda space, name: {"sql": f"SELECT * FROM {space}.{name}"},
    "prepareConsoleQueries": lambda _space, _name: {},
    "listConsoleQuarantine": lambda _space, _name: {"head": "1", "reason": "amount", "skip": 0},
    "previewConsoleReplay": lambda _space, _name: REPLAY,
    "doConsoleReplay": lambda _space, _name: REPLAY,
    "previewConsoleRollback": lambda _space, _name: ROLLBACK,
    "doConsoleRollback": lambda _space, _name: ROLLBACK,
    "previewConsoleDropRef": lambda _space, _name: REF,
    "doConsoleDropRef": lambda _space, _name: REF,
    "createConsoleRef": lambda _space, _name: REF,
}

# Pairs of an object and a missing one have names of one length, so that all headers are the same, too.
NAMES = {"prefix": "default", "namespace": "shown", "table": "orders"}
MISSING = {"prefix": "missing", "namespace": "other", "table": "absent"}
OBJECTS = {"prefix": Target("warehouse", "default"), "namespace": namespace("shown"), "table": table("orders", "shown")}
FOREIGN = [({"table": "hidden"}, {"table": "absent"}), ({"namespace": "guard"}, {"namespace": "other"})]

DATA = [route for route in ROUTES if route.operation not in FILES]
OF_WAREHOUSES = [route for route in ROUTES if "{prefix}" in route.template]
OTHERS = [route for route in DATA if "{prefix}" not in route.template]
ABOUT_TABLES = [
    route
    for route in OF_WAREHOUSES
    if "{table}" in route.template or BODIES.get(route.operation, lambda *_: {})("shown", "orders") != {}
]

# headers that differ in any two answers; a connection is closed or kept by how much of the body had arrived
ANY_TWO = ("date", "x-request-id", "connection")
OTHER_SITES = [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Site", "same-site"), ("Origin", "http://evil.test")]

Caller = Callable[..., Client]


def name_of(route: Route) -> str:
    return route.operation


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A catalog with the console, and tables in two namespaces."""
    folder = tmp_path_factory.mktemp("console")
    with guarded_catalog(folder, f"sqlite:///{folder / 'catalog.db'}", routes_of=["frazil.console"]) as running:
        for name, space in (("orders", "shown"), ("hidden", "shown"), ("orders", "guard")):
            running.admin.create(name, space)
        yield running


@pytest.fixture(scope="module")
def caller(guarded: Guarded) -> Caller:
    """A client with these grants and no others."""

    @cache
    def client(*grants: tuple[str, Target]) -> Client:
        return guarded.user(
            "-".join(("user", *(f"{privilege}-{target.kind}" for privilege, target in grants))), *grants
        )

    return client


def ask(client: Client, route: Route, **names: str) -> Answer:
    """The answer about objects of these names; without them, about the table shown.orders of the default warehouse."""
    names, path = NAMES | names, route.template
    for name, value in names.items():
        path = path.replace(f"{{{name}}}", value)
    assert "{" not in path, f"NAMES has no name for a variable of {route.template}"
    body = BODIES[route.operation](names["namespace"], names["table"]) if route.method != "GET" else None
    return client.raw(route.method, path, body)


def shown(answer: Answer, names: dict[str, str]) -> tuple[int, str, dict[str, str]]:
    """All of an answer but what it repeats of these names, and what differs in any two answers: also whether the server
    had read the body before it refused the request, else it closes the connection.
    """
    text, headers = str(answer.body), answer.headers.items()
    for kind, name in names.items():
        text = text.replace(name, kind)
    return answer.status, text, {key: value for key, value in headers if key not in ANY_TWO}


def test_only_the_files_of_the_console_are_open_to_all() -> None:
    assert {route.operation for route in ROUTES if not route.needs.authenticated} == FILES


def test_every_route_of_the_console_says_what_it_needs() -> None:
    assert set(NEEDS) == {route.operation for route in OF_WAREHOUSES}
    assert FILES | KNOWN | set(ABOVE) | set(NEEDS) == {route.operation for route in ROUTES}
    assert set(BODIES) == {route.operation for route in DATA if route.method != "GET"}


@pytest.mark.parametrize("route", DATA, ids=name_of)
def test_an_unknown_caller_gets_no_data(guarded: Guarded, route: Route) -> None:
    unknown = guarded.client("frz_0123456789abcdef_nobody")
    answers = [ask(unknown, route), ask(unknown, route, **MISSING)]
    assert [answer.status for answer in answers] == [401, 401]
    assert shown(answers[0], NAMES) == shown(answers[1], MISSING)


@pytest.mark.parametrize("route", DATA, ids=name_of)
def test_a_page_of_another_site_gets_no_data(guarded: Guarded, route: Route) -> None:
    client = guarded.client(str(guarded.admin.session.headers["Authorization"]).removeprefix("Bearer "))
    for name, value in OTHER_SITES:
        client.session.headers[name] = value
        assert ask(client, route).error[:2] == (403, "ForbiddenException")
        del client.session.headers[name]


@pytest.mark.parametrize("route", OF_WAREHOUSES, ids=name_of)
def test_without_a_grant_a_warehouse_is_missing(caller: Caller, route: Route) -> None:
    for names in ({}, {"table": MISSING["table"]}, {"namespace": MISSING["namespace"]}):
        answer = ask(caller(), route, **names)
        assert (answer.status, answer.body["error"]["type"]) == (404, "NoSuchWarehouseException")
        missing = ask(caller(), route, **names, prefix="missing")
        assert shown(answer, {"prefix": "default"}) == shown(missing, {"prefix": "missing"})


@pytest.mark.parametrize("route", ABOUT_TABLES, ids=name_of)
@pytest.mark.parametrize(("foreign", "missing"), FOREIGN, ids=["table", "namespace"])
def test_a_foreign_table_is_answered_as_a_missing_one(
    caller: Caller, route: Route, foreign: dict[str, str], missing: dict[str, str]
) -> None:
    client = caller(("manage", OBJECTS["table"]))
    answers = [ask(client, route, **names) for names in (foreign, missing)]
    assert answers[0].status == 404 if "{table}" in route.template else answers[0].status >= 400
    assert shown(answers[0], foreign) == shown(answers[1], missing)


@pytest.mark.parametrize("route", OF_WAREHOUSES, ids=name_of)
def test_a_privilege_on_the_object_is_needed_and_is_enough(guarded: Guarded, caller: Caller, route: Route) -> None:
    target = OBJECTS[next(kind for kind in ("table", "namespace", "prefix") if f"{{{kind}}}" in route.template)]
    for privilege in Privilege:
        if route.method != "GET":  # it may have changed or dropped it
            guarded.admin.post("/namespaces/shown/tables", {"name": "orders", "schema": SCHEMA})
        answer = ask(caller((privilege.value, target)), route)
        assert (answer.status in (401, 403, 404)) == (NEEDS[route.operation] not in included([privilege])), privilege
        assert answer.status != 404, privilege  # each privilege lets its holder see the object


@pytest.mark.parametrize("route", OTHERS, ids=name_of)
def test_a_privilege_on_a_warehouse_is_none_on_the_server(caller: Caller, route: Route) -> None:
    answers = [ask(caller(*grants), route) for grants in ((), (("manage", OBJECTS["prefix"]),))]
    assert [answer.status == 403 for answer in answers] == [route.operation in ABOVE] * 2
    assert ask(caller((ABOVE.get(route.operation, "discover"), SERVER)), route).status not in (401, 403, 404)
