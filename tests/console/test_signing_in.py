"""The console of a catalog with authentication: the caller's rights, and nothing more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from frazil.console import ROUTES
from tests.console.conftest import OpenPage
from tests.kit.access import Guarded, guarded_catalog, namespace, table
from tests.kit.browser import axe_violations, grid_rows


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    """A catalog with tables a, b and c, and one of another namespace."""
    database = f"sqlite:///{tmp_path / 'catalog.db'}"
    with guarded_catalog(tmp_path, database, routes_of=["frazil.console"]) as guarded:
        for name, tables in (("ns", "abc"), ("secret", "t")):
            for letter in tables:
                guarded.admin.create(letter, name)
        yield guarded


def test_a_wrong_key_is_refused_and_a_good_one_is_kept_in_this_tab_alone(guarded: Guarded, watch: OpenPage) -> None:
    token = guarded.token("ann")
    guarded.grant("read", namespace("ns"), "ann")
    watched = watch(guarded.server.uri)
    page = watched.open()
    page.get_by_label("API key").fill("frz_wrong")
    page.keyboard.press("Enter")
    page.get_by_text("The token is not valid").wait_for()
    page.get_by_label("API key").fill(token)
    page.keyboard.press("Enter")
    page.get_by_text("3 tables").wait_for()
    assert [row[0] for row in grid_rows(page)] == ["ns.a", "ns.b", "ns.c"]
    page.reload()
    page.get_by_text("3 tables").wait_for()
    assert page.evaluate("JSON.stringify(localStorage) + document.cookie").count(token) == 0
    assert token not in page.content()
    other = page.context.new_page()
    other.goto(guarded.server.uri)
    other.get_by_text("Sign in to Frazil").wait_for()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_text("Sign in to Frazil").wait_for()
    assert axe_violations(page) == []
    watched.faults = [fault for fault in watched.faults if "401" not in fault]  # the browser's own note


def test_a_list_has_what_the_caller_may_see_and_tells_only_what_it_may_read(guarded: Guarded) -> None:
    reader = guarded.user("reader", ("read", table("a")), ("discover", table("b")))
    lines = reader.raw("GET", "/console/api/default/tables").body["tables"]
    assert [(line["name"], line["health"]["level"], "rows" in line) for line in lines] == [
        ("a", "empty", True),
        ("b", "hidden", False),
    ]
    assert reader.raw("GET", "/console/api/session").body["warehouses"] == ["default"]


def test_what_may_not_be_seen_does_not_exist(guarded: Guarded) -> None:
    stranger = guarded.user("stranger")
    assert stranger.raw("GET", "/console/api/session").body["warehouses"] == []
    answers = [stranger.raw("GET", f"/console/api/{name}/tables") for name in ("default", "missing")]
    assert [answer.status for answer in answers] == [404, 404]
    assert answers[0].body["error"]["type"] == answers[1].body["error"]["type"]
    assert guarded.client("frz_nobody").raw("GET", "/console/api/session").status == 401


def test_details_of_a_table_need_read_and_are_missing_for_who_may_not_see_it(guarded: Guarded) -> None:
    path = "/console/api/default/namespaces/ns/tables/a"
    templates = [route.template for route in ROUTES if "{table}" in route.template and route.method == "GET"]
    parts = [template.partition("{table}")[2] for template in templates]
    callers = {
        200: guarded.user("reader", ("read", table("a"))),
        403: guarded.user("finder", ("discover", table("a"))),
        404: guarded.user("other", ("read", table("b"))),
    }
    for status, caller in callers.items():
        assert {part: caller.raw("GET", f"{path}{part}").status for part in parts} == dict.fromkeys(parts, status)


def test_every_route_of_data_needs_a_known_caller() -> None:
    data = [route for route in ROUTES if "/api/" in route.template]
    assert [route.endpoint for route in data if not route.needs.authenticated] == []
    changing = {route.operation: route.needs.text for route in ROUTES if route.writes}
    # its steps pass the gate one by one
    assert changing.pop("applyConsolePlan") == "discover on the warehouse"
    assert set(changing.values()) <= {"write on the table", "maintain on the table"}


def test_grants_are_shown_to_who_manages_the_table(guarded: Guarded, watch: OpenPage) -> None:
    guarded.user("ann", ("read", namespace("ns")))
    guarded.user("bob", ("manage", table("a")))
    root = str(guarded.admin.session.headers["Authorization"]).removeprefix("Bearer ")
    for token, shown in ((root, 3), (guarded.token("bob"), 1), (guarded.token("ann"), 0)):
        watched = watch(guarded.server.uri)
        keep = f"if (location.origin !== 'null') sessionStorage.setItem('frazil.token', '{token}')"
        watched.page.add_init_script(keep)
        watched.page.set_default_timeout(60_000)
        page = watched.open("table/default/ns/a/grants")
        page.get_by_role("heading", name="On the command line").wait_for()
        assert page.locator(".grants tbody tr").count() == shown
        assert axe_violations(page) == []
        watched.faults = [fault for fault in watched.faults if "status of 40" not in fault]  # the browser's own notes
    assert page.get_by_text("Grants are shown to who may manage the table.").count() == 1
