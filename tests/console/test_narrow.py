"""Every page in a narrow window, and every page in the dark theme with something on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from frazil.client import FrazilCatalog
from tests.console.conftest import OpenPage, sign_in
from tests.console.lake import build_lake
from tests.console.test_table_page import TABS
from tests.kit.access import Guarded, guarded_catalog
from tests.kit.browser import Watched, axe_violations
from tests.kit.project_lake import copy_project

PHONE = {"width": 390, "height": 844}
# addresses with what is on the page when it is there
PAGES = {
    "tables/default": ".grid-row",
    "pipelines/default/graph": ".tab-body > :not(.loading)",
    "pipelines/default/list": ".grid-row",
    "pipelines/default/runs": ".tab-body > :not(.loading)",
    "pipelines/default/streams": ".tab-body > :not(.loading)",
    "plan/default": ".plan-steps",
    "sql/default": ".sql-line .command",
    "upkeep/default?all=": ".side-panel .command",
    "connect/default/spark": ".code pre",
    "access/default": ".side-panel .command",
    "access/default/roles": ".side-panel .command",
    "access/default/who-can": ".question",
    "audit/default": ".side-panel .pairs",
    **{f"table/default/shop/sales/{tab}": ".tab-body > :not(.loading)" for tab in TABS},
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A catalog with authentication and a project, and tables with long names and a past."""
    folder = tmp_path_factory.mktemp("narrow")
    project, database = copy_project(folder / "sales"), f"sqlite:///{folder / 'catalog.db'}"
    with guarded_catalog(folder, database, routes_of=["frazil.console"], project=project) as guarded:
        build_lake(FrazilCatalog("lake", uri=guarded.server.uri, token=token(guarded)))
        guarded.token("etl", scopes=["write"])
        yield guarded


def token(guarded: Guarded) -> str:
    return str(guarded.admin.session.headers["Authorization"]).removeprefix("Bearer ")


def show(watched: Watched, address: str) -> Page:
    page = watched.open(address)
    page.locator(PAGES[address]).first.wait_for()
    return page


def test_no_page_is_wider_than_a_narrow_window_and_axe_finds_nothing(guarded: Guarded, watch: OpenPage) -> None:
    watched = sign_in(watch(guarded.server.uri, viewport=PHONE), token(guarded))
    watched.page.set_default_timeout(120_000)  # processes start for the project and for queries
    wide, violations = [], []
    for address in PAGES:
        page = show(watched, address)
        width = page.evaluate("Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)")
        wide += [(address, width)] if width > PHONE["width"] else []
        violations += [(address, each) for each in axe_violations(page)]
    assert (wide, violations) == ([], [])


def test_axe_finds_nothing_in_the_dark_theme(guarded: Guarded, watch: OpenPage) -> None:
    watched = sign_in(watch(guarded.server.uri, color_scheme="dark"), token(guarded))
    watched.page.set_default_timeout(120_000)
    pages = [address for address in PAGES if address.split("/")[0] in ("plan", "upkeep", "access", "audit", "connect")]
    assert [(address, each) for address in pages for each in axe_violations(show(watched, address))] == []
