"""A browser for all tests of the console, and pages that are watched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.client import FrazilCatalog
from tests.console.lake import build_lake
from tests.kit.browser import Watched, running_browser

OpenPage = Callable[..., Watched]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser of each file: while it runs, its event loop is that of the thread, and other tests could run none."""
    with running_browser() as browser:
        yield browser


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCatalog]:
    """A catalog with the console and tables with rows and a past; tests only read it."""
    with running_catalog(tmp_path_factory.mktemp("lake"), routes_of=["frazil.console"]) as server:
        build_lake(FrazilCatalog("lake", **server.properties))
        yield server


@pytest.fixture
def watch(browser: Browser) -> Iterator[OpenPage]:
    """Opens pages, each in a browser without a past; in the end none of them may have broken a rule."""
    contexts, pages = [], []

    def open_page(uri: str, **options: Any) -> Watched:
        contexts.append(browser.new_context(**options))
        pages.append(Watched(contexts[-1], uri))
        return pages[-1]

    yield open_page
    faults = [fault for page in pages for fault in page.faults]
    for context in contexts:
        context.close()
    assert faults == []


def sign_in(watched: Watched, token: str) -> Watched:
    """The same page for the owner of a key: each load of it finds the key in its tab."""
    keep = f"sessionStorage.setItem('frazil.token', '{token}')"
    watched.page.add_init_script(f"if (location.protocol !== 'about:') {keep}")
    return watched


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedCatalog]:
    """An empty catalog with the console, for one test."""
    with running_catalog(tmp_path, routes_of=["frazil.console"]) as running:
        yield running
