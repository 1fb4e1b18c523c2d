"""The documentation site: `python -m tools.site` copies docs/ and builds it with Zensical; a broken link is an error.

In docs/, links to code are relative, so that they work in a clone and on GitHub. The site has only docs/: in the copy,
such links lead to the repository.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
CONFIG = ROOT / "zensical.toml"
REPOSITORY = "https://github.com/frazil-dev/frazil/blob/main"
LINK = re.compile(r"(?<=\]\()(?!\w+:)([^)#\s]+)")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class BrokenSite(Exception):
    """The site cannot be built; the text says which page has which fault."""


def build_site(root: Path) -> Path:
    """Builds the site below `root`, and returns its folder. The copy of an earlier build is replaced."""
    copy_pages(root)
    return run_zensical(root)


def copy_pages(root: Path) -> Path:
    """The copy of docs/ from which the site below `root` is built, with its configuration."""
    if root != ROOT:
        shutil.copy(CONFIG, root)
    copy = root / str(config()["docs_dir"])
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(DOCS, copy)
    for page in copy.rglob("*.md"):
        folder = (DOCS / page.relative_to(copy)).parent
        page.write_text(link_to_repository(page.read_text(encoding="utf-8"), folder), encoding="utf-8")
    return copy


def run_zensical(root: Path) -> Path:
    """Builds the site from the copy below `root`; a broken link raises `BrokenSite`."""
    zensical = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    done = subprocess.run(zensical, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BrokenSite(COLOUR.sub("", done.stdout + done.stderr))
    return root / str(config()["site_dir"])


def link_to_repository(text: str, folder: Path) -> str:
    """A page of that folder whose links out of docs/ lead to the repository.

    >>> link_to_repository("[code](../tools/site.py), [page](reads.md#options)", DOCS)
    '[code](https://github.com/frazil-dev/frazil/blob/main/tools/site.py), [page](reads.md#options)'
    """

    def address(link: re.Match[str]) -> str:
        target = (folder / link[1]).resolve()
        outside = target.is_relative_to(ROOT) and not target.is_relative_to(DOCS)
        return f"{REPOSITORY}/{target.relative_to(ROOT)}" if outside else link[1]

    return LINK.sub(address, text)


def pages_in_navigation() -> list[str]:
    """The pages that the navigation of the site names, in order."""
    return list(_pages(config()["nav"]))


def _pages(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
        return
    for child in entry.values() if isinstance(entry, dict) else entry:
        yield from _pages(child)


def config() -> dict[str, Any]:
    """The settings of the site."""
    settings: dict[str, Any] = tomllib.loads(CONFIG.read_text(encoding="utf-8"))["project"]
    return settings


if __name__ == "__main__":
    try:
        print(f"site: {build_site(ROOT) / 'index.html'}")
    except BrokenSite as error:
        sys.exit(str(error))
