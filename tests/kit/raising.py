"""Compares the errors that tests expect by type and facts, so that messages can be reworded freely."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

from frazil.errors import FrazilError

E = TypeVar("E", bound=FrazilError)


@contextmanager
def raises(error: type[E], **facts: object) -> Iterator[pytest.ExceptionInfo[E]]:
    """Like `pytest.raises`: expects an error of this type whose attributes have these values.

    A compiled pattern stands for every text in which it is found.
    """
    with pytest.raises(error) as caught:
        yield caught
    actual = {name: getattr(caught.value, name) for name in facts}
    expected = {name: _matched(value, actual[name]) for name, value in facts.items()}
    assert actual == expected, f"{type(caught.value).__name__}: {caught.value}\n  facts: {caught.value.facts}"


def _matched(wanted: object, value: object) -> object:
    if not isinstance(wanted, re.Pattern):
        return wanted
    return value if isinstance(value, str) and wanted.search(value) else wanted
