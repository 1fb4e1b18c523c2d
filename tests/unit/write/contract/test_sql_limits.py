"""SQL that would end the parser's process, or hold it for hours, is refused before the parser sees it."""

from __future__ import annotations

import pytest

from frazil.errors import CheckError
from frazil.write.contract.checks import compile_checks
from frazil.write.contract.sql_limits import DEEPEST, why_unreadable
from tests.kit.raising import raises
from tests.unit.write.contract.test_checks import ROWS

DEEP = f"nested more than {DEEPEST} levels deep"
# What the compiled parser of sqlglot 30.30 does not survive, found by trying every construct that can hold itself.
DEADLY = {
    "subqueries": "SELECT * FROM " + "(SELECT * FROM " * 20_000 + "t" + ")" * 20_000,
    "parentheses never closed": "SELECT " + "(" * 20_000,
    "types": "SELECT CAST(a AS " + "STRUCT<a " * 20_000 + "INT" + ">" * 20_000 + ")",
    "types in small letters": "SELECT CAST(a AS " + "array < " * 20_000 + "INT" + ">" * 20_000 + ")",
    "FROM first": "FROM " * 20_000 + "t",
}


@pytest.mark.parametrize("kind", DEADLY)
def test_what_overflows_the_stack_is_called_too_deep(kind: str) -> None:
    assert why_unreadable(DEADLY[kind]) == DEEP


@pytest.mark.parametrize("joined", [" JOIN a", " cross join a", " LEFT OUTER JOIN a"])
def test_joins_without_a_condition_are_counted_in_a_row(joined: str) -> None:
    assert why_unreadable("SELECT 1 FROM a" + joined * 17) == "more than 16 joins in a row without a condition"
    assert why_unreadable("SELECT 1 FROM a" + (joined * 10 + " JOIN b ON x = y") * 3) is None


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        "SELECT " + " + ".join(["(a)"] * 3000),
        "SELECT " + " OR ".join(["a < 1"] * 3000),
        " UNION ALL ".join(["SELECT a FROM t"] * 3000),
        "SELECT " + ", ".join(["CAST(a AS ARRAY<INT>)"] * 3000),
        "SELECT 1 FROM a" + " JOIN b ON a.x = b.x" * 100,
        "SELECT 1 FROM a" + " JOIN b USING (x)" * 100,
    ],
)
def test_what_is_long_and_not_deep_is_left_to_the_parser(sql: str) -> None:
    assert why_unreadable(sql) is None


@pytest.mark.parametrize(
    "text",
    ["(" * 20_000 + "id > 0" + ")" * 20_000, "NOT " * 2_000 + "id > 0"],
    ids=["parentheses", "NOT"],
)
@pytest.mark.usefixtures("uncollected")
def test_a_check_that_is_too_deep_is_refused_by_name(text: str) -> None:
    with raises(CheckError, check=text, problem="too-deep") as caught:
        compile_checks([text], ROWS.schema)
    assert len(caught.value.message) < 200
