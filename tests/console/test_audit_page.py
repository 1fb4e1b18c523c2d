"""The audit log in a real browser: what was changed and refused, whatever the names are."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest

from tests.console.conftest import OpenPage, sign_in
from tests.console.lake import MARKUP, RIGHT_TO_LEFT
from tests.kit.access import SERVER, Guarded, guarded_catalog, namespace
from tests.kit.browser import axe_violations, grid_rows

REFUSED = (MARKUP, RIGHT_TO_LEFT, "x" * 1000, "a;b; c")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A catalog in which ann was refused to drop tables with odd names, and many tables were made."""
    folder = tmp_path_factory.mktemp("audit")
    with guarded_catalog(folder, f"sqlite:///{folder / 'catalog.db'}", routes_of=["frazil.console"]) as guarded:
        for number in range(3):
            guarded.admin.create(f"t{number}", "ns")
        ann = guarded.user("ann", ("read", namespace("ns")))
        for name in REFUSED:
            assert ann.delete(f"/namespaces/hidden/tables/{quote(name, safe='')}").status == 404
        assert len(guarded.refusals()) == len(REFUSED)
        yield guarded


@pytest.fixture(scope="module")
def root(guarded: Guarded) -> str:
    return guarded.token("operator", roles=["admin"])


def test_records_are_listed_newest_first_and_one_shows_all_of_it(guarded: Guarded, root: str, watch: OpenPage) -> None:
    page = sign_in(watch(guarded.server.uri), root).open("audit/default")
    page.get_by_text("a;b; c").first.wait_for()
    rows = grid_rows(page)
    assert [(row[1], row[2], row[3]) for row in rows if row[2] == "ann"] == [("refused", "ann", "dropTable")] * 4
    operations = [row[3] for row in rows]
    assert operations.index("dropTable") < operations.index("createTable") < operations.index("createNamespace")
    page.get_by_role("row").filter(has_text="createNamespace").click()
    record = page.get_by_label("Record")
    assert "create warehouse default" in record.inner_text()
    assert "127.0.0.1" in record.inner_text()
    assert axe_violations(page) == []


def test_names_that_are_markup_are_text(guarded: Guarded, root: str, watch: OpenPage) -> None:
    page = sign_in(watch(guarded.server.uri), root).open("audit/default?actor=ann")
    page.get_by_text("4 records").wait_for()
    objects = {row[4] for row in grid_rows(page)}
    assert f"drop table default: hidden.{MARKUP}" in objects
    page.get_by_role("row").filter(has_text="hidden.a").click()
    items = page.get_by_label("Record").get_by_role("listitem")
    assert items.all_inner_texts() == ["drop table default: hidden.a;b; c"]
    assert page.evaluate("window.hit") is None
    assert page.locator("main img").count() == 0


def test_filters_narrow_the_log_and_show_their_command(guarded: Guarded, root: str, watch: OpenPage) -> None:
    page = sign_in(watch(guarded.server.uri), root).open("audit/default")
    page.get_by_label("Operation", exact=True).fill("createTable")
    page.get_by_text("3 records").wait_for()
    page.get_by_label("Object contains").fill("ns.t1")
    page.get_by_text("1 record", exact=True).wait_for()
    assert page.get_by_text("frazil audit-log --operation=createTable --object=ns.t1", exact=True).is_visible()
    page.get_by_label("Decision", exact=True).select_option("refused")
    page.get_by_text("No record matches.").wait_for()
    page.reload()
    page.get_by_text("No record matches.").wait_for()
    assert page.get_by_label("Operation", exact=True).input_value() == "createTable"


def test_who_does_not_manage_the_server_sees_no_log(guarded: Guarded, watch: OpenPage) -> None:
    ann = guarded.token("ann")
    watched = sign_in(watch(guarded.server.uri), ann)
    page = watched.open()
    page.get_by_text("3 tables").wait_for()
    assert page.get_by_role("link", name="Audit log").count() == 0
    watched.open("audit/default").get_by_text("Not allowed").wait_for()
    watched.faults = [fault for fault in watched.faults if "403" not in fault]  # the browser's own note


def test_pages_of_the_log_follow_each_other(guarded: Guarded) -> None:
    path = "/console/api/audit"
    whole = guarded.admin.raw("GET", f"{path}?limit=500").body
    assert whole["next"] is None
    pages, before = [], ""
    while before is not None:
        answer = guarded.admin.raw("GET", f"{path}?limit=3{f'&before={before}' if before else ''}").body
        pages += answer["records"]
        before = answer["next"]
    assert pages == whole["records"]
    for query in ("limit=0", "limit=501", "before=x", f"before={2**63}", "decision=maybe", "since=-1"):
        assert guarded.admin.raw("GET", f"{path}?{query}").status == 400, query
    assert guarded.admin.raw("GET", f"{path}?object=%00").body["records"] == []
    assert guarded.user("chief", ("manage", SERVER)).raw("GET", path).status == 200
