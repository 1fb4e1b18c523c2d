"""plan and apply on a running catalog: the first creates, the second does nothing, a difference is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog, load_catalog

from frazil import Table, column
from frazil.catalog.embedded import running_catalog
from frazil.errors import DeclarationError
from frazil.tables.apply import apply_steps, plan

SALES = Table("lakehouse.sales", column("id", "string", required=True), column("day", "date"), partition_by=["day"])


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with running_catalog(tmp_path) as server:
        yield load_catalog("lake", type="rest", uri=server.uri)


def test_apply_creates_what_is_declared_and_a_second_one_does_nothing(catalog: Catalog) -> None:
    done = [str(step) for step in apply_steps(plan(SALES, catalog), catalog)]
    assert done == ["+ namespace lakehouse", "+ table lakehouse.sales (2 columns, partitioned by day)"]
    assert catalog.load_table("lakehouse.sales").schema().as_struct() == SALES.schema().as_struct()
    assert plan(SALES, catalog) == []


def test_a_table_that_differs_from_its_declaration_is_refused_by_name(catalog: Catalog) -> None:
    list(apply_steps(plan(SALES, catalog), catalog))
    changed = Table("lakehouse.sales", column("id", "string", required=True), column("day", "timestamp"), partition_by=["day"])
    with pytest.raises(DeclarationError, match=r"'lakehouse.sales' exists and differs from its declaration in: day"):
        plan(changed, catalog)
