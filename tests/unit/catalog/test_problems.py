"""Every error of the catalog has a row in the table that makes it HTTP."""

from __future__ import annotations

from collections.abc import Iterator

from frazil.catalog.problems import PROBLEMS, problem_of
from frazil.errors import CatalogError, NoSuchTable, QueryError


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


def test_what_an_error_says_is_short_and_holds_no_token() -> None:
    token = f"frz_0123456789abcdef_{'x' * 43}"
    error = QueryError(f"no {token}", hint=f"not {token}", table=token, problem="y" * 100_000, line=3)
    status, said = problem_of(error)
    assert token not in str(said)
    assert (status, said["type"], said["line"], said["table"]) == (400, "QueryError", 3, "frz_0123456789abcdef_***")
    assert len(str(said)) < 3_000
    status, said = problem_of(NoSuchTable(f"{token}.t"))
    assert (status, said["type"], said["hint"], token in str(said)) == (404, "NoSuchTableException", None, False)
