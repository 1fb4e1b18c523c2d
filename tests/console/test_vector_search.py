"""Vector search by text: the project's own process makes the vectors, and no other process loads its code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from frazil.client import FrazilCatalog
from frazil.console.project import FILE_NAME
from frazil.console.work.pool import Pool
from tests.console.conftest import OpenPage, sign_in
from tests.kit.access import Guarded, guarded_catalog, table
from tests.kit.browser import grid_rows

PROJECT = """
import os
from frazil import list_of, Table, column, vector_index

with open({path!r}, "a") as noted:
    noted.write(f"{{os.getpid()}}\\n")


def embed(texts):
    if "broken" in texts:
        raise RuntimeError("a secret of the code")
    return [[1.0, 0.0] if "cold" in text else [0.0, 1.0] for text in texts]


words = Table(
    "ns.words",
    column("word", "string"),
    column("embedding", list_of("float")),
    indexes=[vector_index("embedding", embed=embed)],
)
"""
ROWS = {"word": ["sand", "snow", "ice"], "embedding": [[0.0, 1.0], [0.8, 0.2], [1.0, 0.1]]}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "words"
    folder.mkdir()
    (folder / FILE_NAME).write_text(PROJECT.format(path=str(tmp_path / "pids")), encoding="utf-8")
    return folder


@pytest.fixture
def guarded(tmp_path: Path, project: Path) -> Iterator[Guarded]:
    """A catalog whose server has the folder of a project; its own current folder is another one."""
    database = f"sqlite:///{tmp_path / 'catalog.db'}"
    with guarded_catalog(tmp_path, database, routes_of=["frazil.console"], project=project) as guarded:
        catalog = FrazilCatalog("lake", uri=guarded.server.uri, token=token(guarded))
        words = pa.table(ROWS, schema=pa.schema([("word", pa.string()), ("embedding", pa.list_(pa.float32()))]))
        catalog.create_namespace("ns")
        for name in ("words", "others"):
            catalog.create_table(("ns", name), words.schema).append(words)
        yield guarded


def token(guarded: Guarded) -> str:
    return str(guarded.admin.session.headers["Authorization"]).removeprefix("Bearer ")


def search(caller: Any, text: str, name: str = "words", part: str = "") -> Any:
    sql = f"SELECT word FROM nearest('ns.{name}', 'embedding', '{text}', k := 2)"
    return caller.raw("POST", f"/console/api/default/query{part}", {"sql": sql})


def test_a_search_for_text_shows_the_nearest_row_first(guarded: Guarded, watch: OpenPage) -> None:
    page = sign_in(watch(guarded.server.uri), token(guarded)).open("sql/default")
    page.set_default_timeout(60_000)
    page.get_by_role("button", name="Vector search").click()
    form = page.locator(".search-form")
    form.locator("label", has_text="In").locator("select").first.select_option(label="ns.words")
    form.get_by_label("near to").select_option("text")
    form.get_by_role("textbox").fill("a cold morning")
    page.get_by_role("button", name="Search", exact=True).click()
    page.get_by_role("gridcell", name="ice", exact=True).wait_for()
    assert [row[0] for row in grid_rows(page)] == ["ice", "snow", "sand"]


def test_no_project_code_is_in_the_process_of_a_later_job(guarded: Guarded, tmp_path: Path) -> None:
    reader = guarded.user("reader", ("read", table("words")))
    assert search(reader, "cold").body["rows"] == [["ice"], ["snow"]]
    assert search(reader, "hot", part="/csv").body["csv"].split() == ["word", "sand", "snow"]
    (child,) = guarded.server.app.ctx._attached[Pool]._idle
    assert reader.raw("POST", "/console/api/default/query", {"sql": "SELECT 1"}).status == 200
    assert guarded.server.app.ctx._attached[Pool]._idle == [child], "the same process has done this job, too"
    pids = (tmp_path / "pids").read_text().split()
    assert len(set(pids)) == 2, "a process of the project for each search"
    assert str(child.process.pid) not in pids


def test_a_text_without_vectors_is_an_error_that_says_why(guarded: Guarded, tmp_path: Path) -> None:
    reader = guarded.user("reader", ("read", table("words")), ("read", table("others")))
    undeclared = search(reader, "cold", "others")
    assert (undeclared.status, undeclared.body["error"]["problem"]) == (400, "no-embedder")
    answers = [search(caller, "broken") for caller in (guarded.admin, reader)]
    assert [answer.status for answer in answers] == [400, 400]
    assert ["a secret" in answer.body["error"]["message"] for answer in answers] == [True, False]
    (tmp_path / "pids").unlink()
    assert search(guarded.user("stranger", ("discover", table("words"))), "cold").status == 403
    assert not (tmp_path / "pids").exists(), "no vector is made for a table that may not be read"
