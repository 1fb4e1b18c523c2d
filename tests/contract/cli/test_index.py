"""`frazil index`: what its commands print and end with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from pyiceberg.schema import Schema
from pyiceberg.types import FloatType, ListType, LongType, NestedField

from frazil import Lake
from frazil.catalog.embedded import EmbeddedCatalog
from frazil.cli.main import cli
from frazil.client import FrazilCatalog
from frazil.errors import VectorError

NAME = "lake.words"
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "embedding", ListType(3, FloatType(), element_required=False)),
)


@pytest.fixture
def words(
    lake_server: EmbeddedCatalog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[tuple[FrazilCatalog, str]]:
    """A table of 200 vectors; the settings lead to its catalog."""
    monkeypatch.setenv("FRAZIL_CATALOG__URI", lake_server.uri)
    monkeypatch.chdir(tmp_path)
    catalog = FrazilCatalog("lake", **lake_server.properties)
    catalog.create_table(NAME, SCHEMA)
    append(catalog, 0)
    yield catalog, NAME
    catalog.drop_table(NAME)


def append(catalog: FrazilCatalog, start: int) -> None:
    vectors = np.random.default_rng(start).standard_normal((200, 16))
    rows = [{"id": start + number, "embedding": vector.tolist()} for number, vector in enumerate(vectors)]
    Lake(catalog=catalog).table(NAME).append(rows)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["index", *arguments])


def as_json(*arguments: str) -> dict[str, object]:
    document: dict[str, object] = json.loads(run(*arguments, "--output", "json").stdout)
    return document


def test_an_index_is_created_refreshed_listed_checked_and_dropped(words: tuple[FrazilCatalog, str]) -> None:
    catalog, name = words
    created = as_json("create", name, "embedding", "--metric", "l2", "--lists", "8")
    assert (created["name"], created["vectors"], created["segments"]) == ("embedding_l2", 200, 1)
    append(catalog, 200)
    assert as_json("check", name, "embedding")["uncovered"] == 1
    assert run("refresh", name, "embedding").stdout == (
        "index 'embedding_l2' of lake.words is up to date: 400 vectors in 1 segment\n"
    )
    assert [index["vectors"] for index in json.loads(run("list", name, "--output", "json").stdout)] == [400]
    assert run("check", name, "embedding").stdout == "index 'embedding_l2' of lake.words covers 2 of 2 files\n"
    assert run("drop", name, "embedding", "--yes").exit_code == 0
    assert run("list", name).stdout == "lake.words has no vector indexes\n"


def test_a_damaged_index_is_an_exit_code_and_the_command_that_repairs_it(words: tuple[FrazilCatalog, str]) -> None:
    catalog, name = words
    run("create", name, "embedding")
    (record,) = Lake(catalog=catalog).table(name).indexes.records()
    Path(record.segments[0].path.removeprefix("file://")).unlink()
    result = run("check", name, "embedding")
    assert result.exit_code == 1
    assert "frazil index refresh lake.words embedding_cosine" in result.stdout
    assert run("refresh", name, "embedding").exit_code == 0
    assert run("check", name, "embedding").exit_code == 0


def test_a_drop_without_a_terminal_needs_yes(words: tuple[FrazilCatalog, str]) -> None:
    _, name = words
    run("create", name, "embedding")
    result = run("drop", name, "embedding")
    assert isinstance(result.exception, VectorError)
    assert result.exception.problem == "no-terminal"
    assert "embedding_cosine" in run("list", name).stdout
