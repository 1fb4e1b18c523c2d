"""The plan page in a real browser: what is declared against what there is, and apply with its effect in the catalog."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page
from pyiceberg.types import StringType

from frazil.catalog import create_role
from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.cli.main import cli
from frazil.client import FrazilCatalog
from frazil.config import load_settings
from frazil.console.project import FILE_NAME
from frazil.console.project.plan import make_plan
from tests.console.conftest import OpenPage
from tests.console.test_table_page import parse
from tests.kit.access import Guarded, guarded_catalog, namespace, now_ms, table
from tests.kit.browser import Watched, axe_violations

MARKUP = '<img src=x onerror="window.hit=1">'
BY_HAND = '<img src=x onerror="hit=1">'  # the name of a column
CHILD_MS = 120_000  # two processes import Frazil and the project: seconds, on a machine with other work more
PROJECT = f"""
from frazil import Table, column, model

orders = Table("shop.orders", column("id", "long", required=True), column("note", "string", doc={MARKUP!r}))
days = Table("shop.days", column("day", "date"), partition_by=["day"])
revenue = model("gold.revenue", "SELECT id FROM shop.orders", columns=[column("id", "long")])
unsure = model("gold.unsure", "SELECT * FROM shop.orders")
"""
WITHOUT_NOTE = (', column("note", "string", doc=', f", dropped=['note', {BY_HAND!r}]) #")
API = "/console/api/default/plan"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / FILE_NAME).write_text(PROJECT, encoding="utf-8")
    return folder


@pytest.fixture
def shop(tmp_path: Path, project: Path) -> Iterator[EmbeddedCatalog]:
    """A catalog that knows the project, and has none of its tables."""
    with running_catalog(tmp_path / "home", routes_of=["frazil.console"], project=project) as server:
        yield server


def client(server: EmbeddedCatalog) -> FrazilCatalog:
    return FrazilCatalog("lake", **server.properties)


def opened(watched: Watched) -> Page:
    watched.page.set_default_timeout(CHILD_MS)
    page = watched.open("plan/default")
    page.get_by_text("project shop").wait_for()
    return page


def steps(page: Page, scope: str = ".plan") -> list[str]:
    lines = page.locator(f"{scope} .plan-steps > li .when")
    return [" ".join(line.split()) for line in lines.evaluate_all("all => all.map(one => one.innerText)")]


def apply(page: Page, count: str) -> None:
    """Applies what is shown, after a look at the steps in the dialog."""
    page.get_by_role("button", name="Apply…").click()
    dialog = page.get_by_role("dialog", name="Apply the plan")
    if (read := dialog.get_by_label("I have read what is removed")).count():
        read.check()
    dialog.get_by_role("button", name=f"Apply {count}").click()
    dialog.get_by_text(f"{count} done.").wait_for()
    dialog.get_by_role("button", name="Close").click()


def test_steps_are_applied_after_a_look_at_them(shop: EmbeddedCatalog, project: Path, watch: OpenPage) -> None:
    page = opened(watch(shop.uri))
    assert steps(page) == [
        "new namespace shop",
        "new table shop.orders",
        "new table shop.days",
        "new namespace gold",
        "new table gold.revenue",
    ]
    assert page.locator(".block", has_text="Left out").get_by_text("gold.unsure").count() == 1
    for command in page.locator(".command code").all_text_contents():
        parse(cli, shlex.split(command)[1:])
    assert axe_violations(page) == []
    page.get_by_role("button", name="Apply…").click()
    dialog = page.get_by_role("dialog", name="Apply the plan")
    assert steps(page, "dialog") == steps(page, "main")
    assert dialog.locator(".command code").all_text_contents() == ["frazil apply"]
    assert axe_violations(page) == []
    dialog.get_by_role("button", name="Cancel").click()
    assert client(shop).list_namespaces() == []
    apply(page, "5 steps")
    page.get_by_text("All 3 declared tables are as declared.").wait_for()
    assert client(shop).load_table("shop.orders").schema().column_names == ["id", "note"]
    assert client(shop).load_table("shop.orders").properties["frazil.project"] == "shop"

    with client(shop).load_table("shop.orders").update_schema() as update:
        update.add_column(BY_HAND, StringType())
    client(shop).create_table("shop.other", client(shop).load_table("shop.days").schema())
    (project / FILE_NAME).write_text(PROJECT.replace(*WITHOUT_NOTE), encoding="utf-8")
    page.keyboard.press("r")
    page.locator(".plan .plan-steps", has_text="change of").wait_for()
    assert page.locator(".block", has_text="Changed by hand").get_by_text(BY_HAND).count() == 1
    assert page.locator(".block", has_text="Not declared").get_by_text("shop.other").count() == 1
    page.get_by_role("button", name="Apply…").click()
    assert dialog.get_by_role("button", name="Apply 1 step").is_disabled(), "what is removed has to be read"
    assert dialog.locator(".command code").all_text_contents() == ["frazil apply --yes"]
    page.keyboard.press("Escape")
    apply(page, "1 step")
    page.get_by_text("All 3 declared tables are as declared.").wait_for()
    assert client(shop).load_table("shop.orders").schema().column_names == ["id"]
    assert page.evaluate("window.hit") is None


def test_without_a_project_the_page_says_what_to_do(lake: EmbeddedCatalog, watch: OpenPage) -> None:
    page = watch(lake.uri, color_scheme="dark").open("plan/default")
    page.get_by_text("There is no lakehouse.py where this server runs.").wait_for()
    assert axe_violations(page) == []


@pytest.fixture
def guarded(tmp_path: Path, project: Path) -> Iterator[Guarded]:
    database = f"sqlite:///{tmp_path / 'catalog.db'}"
    with guarded_catalog(tmp_path, database, routes_of=["frazil.console"], project=project) as guarded:
        guarded.admin.create("other", "gold")
        guarded.admin.create("other", "shop")
        yield guarded


def test_callers_plan_and_apply_what_they_may(guarded: Guarded) -> None:
    maker = guarded.user("maker", ("create", namespace("gold")), ("read", namespace("shop")))
    assert maker.raw("GET", API).body["steps"] == [], "gold.revenue reads a table that is not there for this caller"
    shown = guarded.admin.raw("GET", API).body
    assert [step["name"] for step in shown["steps"]] == ["shop.orders", "shop.days", "gold.revenue"]
    assert maker.raw("POST", API, {"digest": shown["digest"]}).status == 409, "it is not the plan of this caller"
    guarded.grant("create", namespace("shop"), "maker")
    answer = maker.raw("POST", API, {"digest": shown["digest"]}).body
    assert ([step["name"] for step in answer["done"]], answer["error"]) == (
        ["shop.orders", "shop.days", "gold.revenue"],
        None,
    )


def test_a_plan_without_its_digest_is_refused(guarded: Guarded) -> None:
    for body in ({}, {"digest": 7}, {"digest": ["a"]}):
        assert guarded.admin.raw("POST", API, body).status == 400


def test_grants_are_planned_and_drift_where_the_caller_may_list_them(guarded: Guarded, project: Path) -> None:
    code = 'Table("shop.other", column("id", "long", required=True), column("data", "string"), grants={"etl": "read"})'
    (project / FILE_NAME).write_text(f"from frazil import Table, column\nother = {code}\n")
    create_role(guarded.database, "etl", now_ms=now_ms())
    reader = guarded.token("reader")
    guarded.grant("read", table("other", "shop"), "reader")
    shown = {}
    for token in (str(guarded.admin.session.headers["Authorization"]).removeprefix("Bearer "), reader):
        flags = {"catalog.uri": guarded.server.uri, "catalog.warehouse": "default", "catalog.token": token}
        shown[token] = make_plan(project, load_settings(flags=flags, folder=project), ["shop.other"])
    chief, theirs = shown.values()
    assert "change-grants" in [step["step"] for step in chief["steps"]]
    assert {(each["sign"], each["text"]) for each in chief["drift"]["shop.other"] if each["about"] == "grant"} == {
        ("-", "grant read to etl"),
        ("+", "grant read to user:reader"),
    }
    assert chief["note"] == ""
    assert not [each for each in (*theirs["steps"], *theirs["drift"].values()) if "grant" in str(each)]
    assert theirs["note"] == "grants of shop.other are left out: they are shown with manage on the table"
