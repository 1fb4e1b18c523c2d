"""The documentation site: it builds without a broken link, has every page, and asks no other host for anything."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from tools.site import DOCS, BrokenSite, build_site, copy_pages, link_to_repository, pages_in_navigation, run_zensical

# The release of the package iframe-worker that is in docs/assets: 1.0.4, shim/index.js.
SHIM = "e8e412dbcfea9b7e31b5ffa288d7b6035915e714c542f4176a0cdbe262fc9609"
LOADED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|object|embed)\b[^>]*?\b(?:src|data)=["']?(?:https?:)?//[^>]*"""
    r"""|<link\b(?=[^>]*\brel=["']?(?:stylesheet|icon|preload|preconnect|dns-prefetch|prefetch))[^>]*href=["']?(?:https?:)?//[^>]*"""
    r"""|@import[^;]*//[^;]*|url\(\s*["']?(?:https?:)?//[^)]*\)"""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_site(tmp_path_factory.mktemp("site"))


def test_every_page_is_in_the_navigation_once() -> None:
    pages = [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")]
    assert sorted(pages_in_navigation()) == sorted(pages)


def test_every_page_is_built(site: Path) -> None:
    assert [page for page in pages_in_navigation() if not (site / page).with_suffix(".html").exists()] == []


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    files = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert [(file.name, match) for file in files for match in LOADED.findall(file.read_text("utf-8"))] == []


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://unpkg.com/x.js"></script>',
        '<link rel="stylesheet" href="https://fonts.example/css">',
        "<link href=//fonts.example rel=preconnect>",
        '<img alt="" src="//images.example/x.png">',
        "@font-face { src: url(https://fonts.example/x.woff2) }",
        '@import "https://fonts.example/css";',
    ],
)
def test_a_file_of_another_host_is_noticed(text: str) -> None:
    assert LOADED.search(text)


def test_lists_are_lists(site: Path) -> None:
    # Unlike GitHub, the generator wants an empty line before a list.
    pages = {page.name: page.read_text("utf-8") for page in site.rglob("*.html")}
    assert {name: re.findall(r"<p>[^<]*\n- .*", text) for name, text in pages.items() if "\n- " in text} == {}


def test_broken_links_fail_the_build(tmp_path: Path) -> None:
    page = copy_pages(tmp_path) / "index.md"
    page.write_text(f"{page.read_text('utf-8')}\n[a](missing.md) [b](reads.md#no-such-heading)\n", encoding="utf-8")
    with pytest.raises(BrokenSite, match=r"missing\.md(.|\n)*no-such-heading"):
        run_zensical(tmp_path)


def test_links_to_code_lead_to_the_repository() -> None:
    code = "https://github.com/frazil-dev/frazil/blob/main/src/frazil/lake"
    assert link_to_repository("[code](../../src/frazil/lake)", DOCS / "decisions") == f"[code]({code})"
    assert link_to_repository("[web](https://x.example/a) [page](../reads.md)", DOCS / "decisions") == (
        "[web](https://x.example/a) [page](../reads.md)"
    )


def test_the_script_of_others_is_as_it_was_published() -> None:
    assert hashlib.sha256((DOCS / "assets" / "iframe-worker.js").read_bytes()).hexdigest() == SHIM
    assert "Martin Donath" in (DOCS / "assets" / "iframe-worker.LICENSE").read_text("utf-8")
