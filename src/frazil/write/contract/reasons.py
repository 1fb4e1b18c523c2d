"""Reads the reasons that are stored with quarantined rows, in the present wording and in that of older releases.

Rows are stored with `expected decimal(12, 2), got 'abc'`. Releases before wrote `found` instead of `got`.
"""

from __future__ import annotations

import re

_VALUE = re.compile(r"^(?!check ')(.*?\bexpected .*?), (?:got|found) (.*)$", re.DOTALL)
_CHECK = re.compile(r"check '(.*)' failed", re.DOTALL)


def reason_kind(reason: str) -> str:
    """A reason without the value, so that rows with the same fault count together, whichever release stored them.

    >>> reason_kind("field 'amount': expected decimal(12, 2), got 'abc'"), reason_kind("field 'id': expected a value, found NULL")
    ("field 'amount': expected decimal(12, 2)", "field 'id': expected a value, got NULL")
    """  # noqa: E501
    match = _VALUE.match(reason)
    if match is None:
        return reason
    expected, value = match.groups()
    return f"{expected}, got NULL" if value == "NULL" else expected


def failed_check(reason: str) -> str | None:
    """The check that a row has failed; None if it was rejected for something else.

    >>> failed_check("check 'amount >= 0' failed"), failed_check("field 'id': expected a value, got NULL")
    ('amount >= 0', None)
    """
    match = _CHECK.fullmatch(reason)
    return match[1] if match else None


def reason_contains(reason: str, text: str) -> bool:
    """Whether a text is part of a reason, in the wording of either release.

    >>> reason_contains("field 'id': expected a value, found NULL", "a value, got NULL"), reason_contains("expected long, got 'x'", "int")
    (True, False)
    """  # noqa: E501
    match = _VALUE.match(reason)
    if match is None:
        return text in reason
    expected, value = match.groups()
    return text in f"{expected}, got {value}" or text in f"{expected}, found {value}"
