"""The documentation site in a browser, opened as files: it searches by itself, and asks no host."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser

from tests.kit.browser import Watched, axe_violations
from tools.site import build_site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> str:
    return build_site(tmp_path_factory.mktemp("site")).as_uri()


def test_a_search_finds_a_page_without_a_server(browser: Browser, site: str) -> None:
    watched = Watched(browser.new_context(), site)
    watched.page.goto(f"{site}/index.html")
    watched.page.keyboard.press("/")
    watched.page.keyboard.type("quarantine")
    watched.page.get_by_text(re.compile(r"^\d+ results$")).wait_for()
    watched.page.keyboard.press("Enter")
    watched.page.wait_for_url("**/quarantine.html*")
    assert watched.faults == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("page", ["index.html", "tables.html", "cli.html"])
def test_pages_are_fit_for_everyone(browser: Browser, site: str, page: str, theme: str) -> None:
    watched = Watched(browser.new_context(color_scheme=theme), site)
    watched.page.goto(f"{site}/{page}")
    assert watched.faults == []
    assert (
        axe_violations(watched.page) == []
    )  # after the faults: it reads style sheets, which Chromium refuses for files
