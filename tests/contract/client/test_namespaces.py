"""Namespaces with names that a URL must encode."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.exceptions import NoSuchNamespaceError

from frazil.catalog.embedded import running_catalog
from frazil.cli.main import cli
from frazil.client import FrazilCatalog
from frazil.lake import Lake
from tests.contract.client.conftest import SCHEMA, rows

NAMES = ("my space", "é", "100%", "a+b", "a/b", "a&b=c", "日本", "%20", "x" * 500)


@pytest.fixture(scope="module")
def odd() -> Iterator[FrazilCatalog]:
    """A catalog whose namespaces have odd names, each with a child `in` and a table `t` of one row."""
    with running_catalog() as server:
        catalog = FrazilCatalog("lake", uri=server.uri)
        for name in NAMES:
            catalog.create_namespace((name,))
            catalog.create_namespace((name, "in"))
            catalog.create_table((name, "t"), SCHEMA).append(rows(1))
        yield catalog
        catalog.close()


@pytest.mark.parametrize("name", NAMES)
def test_the_children_of_a_namespace_are_listed_whatever_its_name_is(odd: FrazilCatalog, name: str) -> None:
    assert odd.list_namespaces((name,)) == [(name, "in")]
    assert odd.list_namespaces((name, "in")) == []


def test_all_namespaces_are_listed_in_pages(odd: FrazilCatalog) -> None:
    odd.properties["rest-page-size"] = "2"
    try:
        assert sorted(odd.list_namespaces()) == sorted((name,) for name in NAMES)
    finally:
        del odd.properties["rest-page-size"]


def test_a_missing_namespace_is_pyicebergs_error(odd: FrazilCatalog) -> None:
    with pytest.raises(NoSuchNamespaceError):
        odd.list_namespaces(("no such",))


@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cc",)), min_size=1, max_size=20))
def test_any_name_can_be_listed_below(odd: FrazilCatalog, name: str) -> None:
    odd.create_namespace_if_not_exists((name,))
    odd.create_namespace_if_not_exists((name, "in"))
    assert odd.list_namespaces((name,)) == [(name, "in")]


def test_query_import_and_the_list_of_tables_know_such_namespaces(
    odd: FrazilCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRAZIL_CATALOG__URI", odd.properties["uri"])
    asked = CliRunner().invoke(cli, ["query", 'SELECT count(*) AS n FROM "my space".t, "é".t', "--output", "json"])
    wrong = CliRunner().invoke(cli, ["query", "SELECT * FROM nowhere.t"])
    imported = CliRunner().invoke(cli, ["import"])
    assert (asked.exit_code, json.loads(asked.output)) == (0, [{"n": 1}])
    assert (imported.exit_code, '"my space.t"' in imported.output, '"é.t"' in imported.output) == (0, True, True)
    assert "my space.t" in wrong.output + wrong.stderr + str(wrong.exception)
    assert {"my space.t", "é.t"} <= set(Lake(catalog=odd).table_names())
