"""The tables that a query reads, and other names for them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from frazil.errors import ArgumentError, DeclarationError
from frazil.pipelines.models import find_tables, normalise_sql, rename_tables
from tests.kit.raising import raises

NAMES = {"s.x": "v_sx", "s.y": "v_sy", "t.x": "v_tx", "a.b.c": "v_abc"}


def read_cases(name: str) -> list[tuple[str, str, str, str]]:
    """Title, query, kind of result and result of each case in a file."""
    text = (Path(__file__).parent / name).read_text(encoding="utf-8")
    cases = re.findall(r"^-- case: (.+)\n((?:.*\n)+?)(=>|!!) ?(.*)$", text, re.MULTILINE)
    assert len(cases) == text.count("-- case: ")
    return [(title, query.rstrip("\n"), kind, result) for title, query, kind, result in cases]


def names(result: str) -> tuple[str, ...]:
    return tuple(result.split("|") if "|" in result else result.split())


@pytest.mark.parametrize(("title", "query", "kind", "result"), read_cases("tables.sql"))
def test_a_query_reads_these_tables(title: str, query: str, kind: str, result: str) -> None:
    if kind == "!!":
        with raises(DeclarationError, option="sql", problem=result):
            find_tables(query)
    else:
        assert find_tables(query) == names(result)


@pytest.mark.parametrize(("title", "query", "kind", "result"), read_cases("renamed.sql"))
def test_tables_get_other_names(title: str, query: str, kind: str, result: str) -> None:
    renamed = rename_tables(query, NAMES)
    assert renamed == result
    assert not set(find_tables(renamed)) & set(NAMES)


@pytest.mark.parametrize("query", [query for _, query, kind, _ in read_cases("tables.sql") if kind == "=>"])
def test_a_renamed_query_reads_only_the_new_names(query: str) -> None:
    tables = find_tables(query)
    new = {name: f"frazil_input_{number}" for number, name in enumerate(tables)}
    assert find_tables(rename_tables(query, new)) == tuple(new.values())


def test_a_new_name_that_a_cte_has_is_refused() -> None:
    with raises(ArgumentError, option="names"):
        rename_tables("WITH v AS (SELECT 1) SELECT * FROM v, s.x", {"s.x": "V"})


def test_a_syntax_error_names_its_line() -> None:
    with raises(DeclarationError, line=2, problem="syntax"):
        find_tables("SELECT *\nFROM s.x WHERE (")


def test_a_query_that_would_not_come_back_from_the_parser_is_refused() -> None:
    with raises(DeclarationError, problem="too-deep"):
        find_tables("SELECT " + "(" * 20_000 + "1" + ")" * 20_000)


def test_comments_and_layout_do_not_make_another_query() -> None:
    assert normalise_sql("SELECT 'a  b' FROM s.x") == normalise_sql("-- doc: x\nSELECT\n 'a  b' /* y */\n FROM s.x ;\n")
    assert normalise_sql("SELECT 'a  b' FROM s.x") != normalise_sql("SELECT 'a b' FROM s.x")
