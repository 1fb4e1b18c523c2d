"""The access page in a real browser: keys, roles and members, and who may do what; each change is in the catalog."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import pytest
import requests
from playwright.sync_api import Page

from frazil.catalog import all_members, create_role, list_keys, newest_records
from frazil.catalog.embedded import EmbeddedCatalog
from frazil.cli.main import cli
from tests.console.conftest import OpenPage, sign_in
from tests.console.lake import MARKUP
from tests.console.test_table_page import parse
from tests.kit.access import Guarded, bearer_session, guarded_catalog, now_ms, table
from tests.kit.browser import axe_violations, grid_rows


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A catalog with a table, a role and a reader."""
    folder = tmp_path_factory.mktemp("access")
    with guarded_catalog(folder, f"sqlite:///{folder / 'catalog.db'}", routes_of=["frazil.console"]) as guarded:
        guarded.admin.create("orders", "shop")
        create_role(guarded.database, "analyst", now_ms=now_ms())
        guarded.user("reader", ("read", table("orders", "shop")))
        yield guarded


@pytest.fixture(scope="module")
def root(guarded: Guarded) -> str:
    return guarded.token("operator", roles=["admin"])


def status(guarded: Guarded, token: str) -> int:
    """What the server answers to a key."""
    with bearer_session(token) as session:
        return session.get(f"{guarded.server.uri}/console/api/session", timeout=60).status_code


def press(page: Page, name: str, within: str = "dialog") -> None:
    page.get_by_role(within).get_by_role("button", name=name, exact=True).click()  # type: ignore[arg-type]


def same(page: Page) -> str:
    """The command that does what the open dialog does; the CLI has it."""
    line = page.get_by_role("dialog").locator(".command code").inner_text()
    parse(cli, shlex.split(line)[1:])
    return line


def new_key(page: Page) -> str:
    """The text of the key that is shown now; it is gone when the dialog is."""
    secret = page.locator(".secret").inner_text()
    press(page, "Done")
    page.locator(".secret").wait_for(state="detached")
    assert secret not in page.content()
    kept = "JSON.stringify([{...localStorage}, {...sessionStorage}, location.href, history.state])"
    assert secret not in page.evaluate(kept)
    return secret


def test_a_key_is_made_shown_once_rotated_and_revoked(guarded: Guarded, root: str, watch: OpenPage) -> None:
    watched = sign_in(watch(guarded.server.uri), root)
    page = watched.open("access/default")
    page.get_by_role("button", name="New key").click()
    page.get_by_label("Owner").fill(MARKUP)
    press(page, "Create")
    page.get_by_role("dialog").get_by_text("expected letters, digits").wait_for()
    assert page.evaluate("window.hit") is None
    page.get_by_label("Owner").fill("etl")
    page.get_by_label("analyst").check()
    page.get_by_label("write").check()
    page.get_by_role("dialog").get_by_label("Expires").select_option("in 90 days")
    line = "frazil token create etl --role analyst --scope write --expires 90d"
    assert page.get_by_text(line, exact=True).is_visible()
    assert axe_violations(page) == []
    press(page, "Create")
    page.get_by_text("it is shown only once").wait_for()
    assert axe_violations(page) == []
    first = new_key(page)
    (stored,) = [key for key in list_keys(guarded.database.read()) if key.principal == "etl"]
    assert (stored.scopes, all_members(guarded.database.read())["analyst"]) == ("write", ["etl"])
    assert status(guarded, first) == 200
    panel = page.get_by_label("Keys: the chosen one")
    assert f"frz_{stored.id}" in panel.inner_text()
    assert axe_violations(page) == []
    panel.get_by_role("button", name="Rotate", exact=True).click()
    assert same(page) == f"frazil token rotate {stored.id} --keep 24h"
    page.get_by_label("The old key stays valid for").last.select_option("no time")
    assert same(page) == f"frazil token rotate {stored.id} --keep 0h"
    press(page, "Rotate")
    page.get_by_text("it is shown only once").wait_for()
    second = new_key(page)
    assert (status(guarded, first), status(guarded, second)) == (401, 200)
    panel.get_by_role("button", name="Revoke", exact=True).click()
    press(page, "Cancel")
    assert status(guarded, second) == 200
    panel.get_by_role("button", name="Revoke", exact=True).click()
    press(page, "Revoke")
    panel.get_by_text("revoked", exact=True).wait_for()
    assert status(guarded, second) == 401
    records = newest_records(guarded.database.read(), limit=100, actor="operator")
    done = [record.operation for record in records if "etl" in record.objects and record.request_id]
    assert done == ["createToken", "rotateToken", "revokeToken"]
    watched.faults = [fault for fault in watched.faults if "400" not in fault]  # the browser's own note
    assert not any(part in str(records) for secret in (first, second) for part in secret.split("_")[2:])


def test_roles_get_members_lose_them_and_are_dropped(guarded: Guarded, root: str, watch: OpenPage) -> None:
    def members() -> dict[str, list[str]]:
        return all_members(guarded.database.read())

    page = sign_in(watch(guarded.server.uri), root).open("access/default/roles")
    page.get_by_role("button", name="New role").click()
    assert same(page) == "frazil role create NAME"
    page.get_by_label("Name", exact=True).fill("crew")
    assert same(page) == "frazil role create crew"
    press(page, "Create")
    panel = page.get_by_label("Roles: the chosen one")
    panel.get_by_role("heading", name="crew").wait_for()
    panel.get_by_label("Principal", exact=True).fill("reader")
    assert panel.get_by_text("frazil role add crew reader", exact=True).is_visible()
    panel.get_by_role("button", name="Add", exact=True).click()
    panel.get_by_role("button", name="Remove reader").wait_for()
    assert members()["crew"] == ["reader"]
    assert axe_violations(page) == []
    panel.get_by_role("button", name="Remove reader").click()
    assert same(page) == "frazil role remove crew reader"
    press(page, "Remove")
    panel.get_by_text("No members.").wait_for()
    assert members()["crew"] == []
    panel.get_by_role("button", name="Drop the role").click()
    assert same(page) == "frazil role drop crew"
    press(page, "Drop")
    panel.get_by_role("heading", name="crew").wait_for(state="detached")
    assert "crew" not in members()
    page.get_by_role("row").filter(has_text="admin").click()
    panel.get_by_text("may do everything").wait_for()
    assert panel.get_by_role("button", name="Drop the role").count() == 0


def test_who_can_and_why_are_answered_with_the_grants(guarded: Guarded, root: str, watch: OpenPage) -> None:
    watched = sign_in(watch(guarded.server.uri), root)
    page = watched.open("access/default/who-can")
    page.get_by_label("Object", exact=True).select_option("the table or view")
    page.get_by_label("Name", exact=True).fill("shop.orders")
    page.get_by_role("button", name="Ask").click()
    page.get_by_text("table default: shop.orders").first.wait_for()
    rows = page.get_by_role("region", name="Grants").get_by_role("row").all_inner_texts()
    assert any(row.split("\t")[:3] == ["reader", "read", "itself"] for row in rows)
    assert any(row.split("\t")[:3] == ["root", "manage", "role admin"] for row in rows)
    assert page.get_by_text("frazil who-can read shop.orders", exact=True).is_visible()
    page.get_by_label("Question", exact=True).select_option("What may")
    page.get_by_label("Principal", exact=True).fill("stranger")
    page.get_by_role("button", name="Ask").click()
    page.get_by_text("there is no principal").wait_for()
    page.get_by_label("Principal", exact=True).fill("reader")
    page.get_by_role("button", name="Ask").click()
    page.get_by_text("table default: shop.orders: 1 grant").wait_for()
    watched.faults = [fault for fault in watched.faults if "400" not in fault]
    assert axe_violations(page) == []


def test_the_page_says_that_authentication_is_off_and_changes_nothing(server: EmbeddedCatalog, watch: OpenPage) -> None:
    page = watch(server.uri).open("access/default")
    page.get_by_text("Authentication is off").wait_for()
    assert page.get_by_role("button", name="New key").is_disabled()
    assert grid_rows(page) == []
    for path, body in (
        ("tokens", {"principal": "me", "roles": ["admin"]}),
        ("roles", {"name": "me"}),
        ("members", {"role": "admin", "principal": "corp/me", "member": True}),
    ):
        answer = requests.post(f"{server.uri}/console/api/access/{path}", json=body, timeout=60)
        assert (answer.status_code, "Authentication is off" in answer.text) == (400, True), path
    assert all_members(server.app.ctx.database.read()) == {"admin": []}
