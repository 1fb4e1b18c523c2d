"""Texts instead of vectors: by the embedder that is given, or the one that the project declares; in Python, SQL and on
the command line.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import frazil
from frazil import Lake
from frazil.catalog import running_catalog
from frazil.cli.context import Context
from frazil.cli.search import search
from frazil.errors import DeclarationError, VectorError
from tests.kit.raising import raises

WORDS = ["glacier", "harbour", "meadow", "frazil"]
LAKEHOUSE = """
from frazil import Table, column, list_of, vector_index

def embed(texts):
    return [[float(ord(letter) - 96) for letter in text[:4]] for text in texts]

words = Table("lake.words", column("word", "string"), column("embedding", list_of("float")),
              indexes=[vector_index("embedding", metric="l2", embed=embed)])
"""


def embed(texts: list[str]) -> list[list[float]]:
    """As the project's: the first four letters as numbers."""
    return [[float(ord(letter) - 96) for letter in text[:4]] for text in texts]


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    """A table of words in a folder without a project."""
    monkeypatch.chdir(tmp_path)
    with running_catalog(tmp_path / "catalog") as server, frazil.connect(server.uri) as lake:
        columns = [frazil.column("word", "string"), frazil.column("embedding", frazil.list_of("float"))]
        lake.apply(frazil.Table("lake.words", *columns))
        rows = [{"word": word, "embedding": vector} for word, vector in zip(WORDS, embed(WORDS), strict=True)]
        lake.table("lake.words").append(rows)
        yield lake


@pytest.fixture
def project(lake: Lake, tmp_path: Path) -> Lake:
    """The same in a project that declares an embedder."""
    (tmp_path / "lakehouse.py").write_text(LAKEHOUSE)
    return lake


def nearest(lake: Lake, query: Any, **how: Any) -> list[str]:
    scan = lake.table("lake.words").scan(columns="word")
    words: list[str] = scan.nearest("embedding", query, k=1, metric="l2", **how).to_arrow()["word"].to_pylist()
    return words


def test_a_text_is_searched_by_the_embedder_that_is_given(lake: Lake) -> None:
    assert nearest(lake, "glacial", embed=embed) == ["glacier"]
    assert nearest(lake, ["harbours", "meads"], embed=embed) == ["harbour", "meadow"]
    assert nearest(lake, embed(["meads"])[0], embed=embed) == ["meadow"]  # numbers are taken as they are


def test_a_text_is_searched_by_the_embedder_of_the_project(project: Lake) -> None:
    assert nearest(project, "glacial") == ["glacier"]
    sql = "SELECT word FROM nearest('lake.words', 'embedding', 'meads', k := 1, metric := 'l2')"
    assert project.sql(sql).to_arrow()["word"].to_pylist() == ["meadow"]


def test_without_an_embedder_the_error_says_where_to_declare_one(lake: Lake, tmp_path: Path) -> None:
    with raises(VectorError, table="lake.words", column="embedding", problem="no-embedder"):
        nearest(lake, "glacial")
    (tmp_path / "lakehouse.py").write_text("import frazil\n")
    with raises(VectorError, table="lake.words", column="embedding", problem="no-embedder"):
        nearest(lake, "glacial")


@pytest.mark.parametrize(
    "vectors",
    [[[1.0, 2.0]], [1.0, 2.0], [["a"], ["b"]], None, [[1.0], [1.0, 2.0]]],
    ids=["too few", "one vector", "words", "nothing", "two lengths"],
)
def test_an_embedder_that_gives_no_vector_for_each_text_is_named(lake: Lake, vectors: object) -> None:
    with raises(VectorError, table="lake.words", column="embedding", problem="embedder"):
        nearest(lake, ["a", "b"], embed=lambda _: vectors)


@pytest.mark.parametrize("vectors", [[[1.0, 2.0]], [[np.nan] * 4]], ids=["dimension", "NaN"])
def test_what_an_embedder_gives_is_checked_as_any_vector(lake: Lake, vectors: object) -> None:
    with raises(VectorError, table="lake.words"):
        nearest(lake, "a", embed=lambda _: vectors)


def test_an_embedder_that_cannot_be_called_is_no_declaration() -> None:
    with raises(DeclarationError, table="lake.words", option="indexes"):
        frazil.Table(
            "lake.words",
            frazil.column("embedding", frazil.list_of("float")),
            indexes=[frazil.vector_index("embedding", embed="minilm")],  # type: ignore[arg-type]
        )


def test_an_embedder_changes_no_plan(project: Lake) -> None:
    from frazil.project import load_project

    (declared,) = load_project(Path.cwd()).tables
    project.apply(declared)
    assert project.plan(declared) == []
    assert list(declared.embedders) == ["embedding"]


# --- the command line ------------------------------------------------------------------------------------------------


def run(lake: Lake, *arguments: str) -> Any:
    context = Context()
    context.__dict__["catalog"] = lake.catalog
    return CliRunner().invoke(search, ["lake.words", *arguments], obj=context)


def test_the_command_shows_the_nearest_rows_without_their_vectors(project: Lake) -> None:
    result = run(project, "glacial", "-k", "2", "--metric", "l2", "--output", "json")
    rows = json.loads(result.output)
    assert [list(row) for row in rows] == [["word", "_distance"]] * 2
    assert rows[0]["word"] == "glacier"


def test_the_command_takes_a_vector_a_filter_and_columns(lake: Lake) -> None:
    vector = json.dumps(embed(["glacial"])[0])
    arguments = ["--vector", vector, "--where", "word <> 'glacier'", "--columns", "word", "--column", "embedding"]
    rows = json.loads(run(lake, *arguments, "-k", "1", "--metric", "l2", "--output", "json").output)
    assert [row["word"] for row in rows] == ["meadow"]


@pytest.mark.parametrize(
    "arguments",
    [[], ["text", "--vector", "[1]"], ["--vector", "nonsense"], ["text", "--column", "word"], ["text"]],
    ids=["nothing", "both", "no JSON", "no vectors", "no embedder"],
)
def test_the_command_refuses_what_it_cannot_search(lake: Lake, arguments: list[str]) -> None:
    assert isinstance(run(lake, *arguments).exception, VectorError)


def test_the_command_leaves_the_logs_as_they_were(lake: Lake) -> None:
    logger = logging.getLogger("frazil")
    before = (logger.level, logger.propagate, list(logger.handlers))
    run(lake, "--vector", json.dumps(embed(["glacial"])[0]), "--output", "json")
    assert (logger.level, logger.propagate, list(logger.handlers)) == before
