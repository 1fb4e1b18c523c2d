"""plan and apply on a running catalog: the first creates, the second does nothing, what cannot be is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog, load_catalog

from frazil import Table, column
from frazil.catalog.embedded import running_catalog
from frazil.errors import ChangeRefused
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


def test_a_change_that_old_files_do_not_bear_is_refused_by_name(catalog: Catalog) -> None:
    list(apply_steps(plan(SALES, catalog), catalog))
    changed = Table("lakehouse.sales", column("id", "string", required=True), column("day", "timestamp"), partition_by=["day"])
    with pytest.raises(ChangeRefused, match=r"lakehouse.sales: column 'day' is date and cannot become timestamp"):
        plan(changed, catalog)
