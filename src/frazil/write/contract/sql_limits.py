"""SQL texts that must not reach the parser, for it would not come back.

The compiled sqlglot has no guard of its own: some 10,000 nested levels overflow the stack and end the process; and each
more join in a row without a condition doubles its time, so that thirty of them take an hour. From some 350 levels on
Python's own limit ends the parse. That is an error which can be caught; but what the garbage collector finalises at
such a depth fails as well, without a message.
"""

from __future__ import annotations

import re

DEEPEST = 200  # under half of what Python allows, and more than anyone writes
MOST_BARE_JOINS = 16  # a fifth of a second

_PARENTHESIS = re.compile(r"(\()|\)")
_TYPE = re.compile(
    r"(\b(?:ARRAY|LIST|LOWCARDINALITY|MAP|NESTED|NULLABLE|OBJECT|RANGE|RECORD|ROW|STRUCT|TABLE|TUPLE|UNION|VECTOR)\s*<)|>",
    re.I,
)
_CONDITION = re.compile(r"\b(?:ON|USING)\b")


def is_query(check: str) -> bool:
    """Whether a check is a query that finds wrong rows, and not a condition.

    >>> is_query("SELECT 1 FROM {table}"), is_query("selected >= 0")
    (True, False)
    """
    return re.match(r"\s*(SELECT|WITH)\s", check, re.IGNORECASE) is not None


def why_unreadable(sql: str) -> str | None:
    """Why a text cannot be given to the parser, for an error message; None if it can. Texts and comments inside are not
    distinguished.

    >>> why_unreadable("SELECT " + "(" * 2000 + "1" + ")" * 2000)
    'nested more than 200 levels deep'
    >>> why_unreadable("SELECT 1 FROM a" + " JOIN b" * 30)
    'more than 16 joins in a row without a condition'
    >>> why_unreadable("SELECT (1)")
    """
    if len(sql) > DEEPEST and _levels(sql) > DEEPEST:
        return f"nested more than {DEEPEST} levels deep"
    words = sql.upper()
    if words.count("JOIN") > MOST_BARE_JOINS and _bare_joins(words) > MOST_BARE_JOINS:
        return f"more than {MOST_BARE_JOINS} joins in a row without a condition"
    return None


def _levels(sql: str) -> int:
    """How deep parentheses, types in angle brackets, or one FROM in another go; what cannot be deep enough is not
    looked at.
    """
    depth = 0
    if sql.count("(") > DEEPEST:
        depth = _depth(_PARENTHESIS, sql)
    if sql.count("<") > DEEPEST:
        depth = max(depth, _depth(_TYPE, sql))
    words = sql.upper()
    return max(depth, words.count("FROM") - words.count("SELECT"))


def _depth(brackets: re.Pattern[str], sql: str) -> int:
    """How many are open at once at most.

    >>> _depth(_PARENTHESIS, "f((a), (b))"), _depth(_TYPE, "CAST(a > 1 AS ARRAY<STRUCT<a INT>>)")
    (2, 2)
    """
    deepest = depth = 0
    for match in brackets.finditer(sql):
        depth = depth + 1 if match[1] else max(depth - 1, 0)
        deepest = max(deepest, depth)
    return deepest


def _bare_joins(words: str) -> int:
    """The longest row of joins without ON or USING, in a text of capitals.

    >>> _bare_joins("A JOIN B JOIN C ON X CROSS JOIN D JOIN E")
    2
    """
    longest = row = 0
    for joined in words.split("JOIN")[1:]:
        row = 0 if _CONDITION.search(joined) else row + 1
        longest = max(longest, row)
    return longest
