"""Every error of the catalog has a row in the table that makes it HTTP."""

from __future__ import annotations

from collections.abc import Iterator

from frazil.catalog.problems import PROBLEMS
from frazil.errors import CatalogError


def family(kind: type[CatalogError]) -> Iterator[type[CatalogError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from family(child)


def test_every_catalog_error_has_its_own_row() -> None:
    ours = {kind for kind in family(CatalogError) if kind.__module__ == "frazil.errors"}
    assert ours == set(PROBLEMS)


def test_only_doubt_and_outage_are_5xx() -> None:
    high = {kind.__name__ for kind, (status, _) in PROBLEMS.items() if status >= 500}
    assert high == {"CatalogError", "CommitUnknown", "Unavailable"}
