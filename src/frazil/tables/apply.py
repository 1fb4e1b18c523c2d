"""Performs steps on a catalog, one commit each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from frazil.tables.declare import Table
from frazil.tables.diff import CreateNamespace, Step, diff

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


def plan(declared: Table, catalog: Catalog) -> list[Step]:
    """The steps that `apply_steps` would take for this table now."""
    from pyiceberg.exceptions import NoSuchTableError

    try:
        live = catalog.load_table(declared.identifier)
    except NoSuchTableError:
        live = None
    return diff(declared, namespace_exists=live is not None or catalog.namespace_exists(declared.namespace), live=live)


def apply_steps(steps: list[Step], catalog: Catalog) -> Iterator[Step]:
    """Each step, after it was done."""
    for step in steps:
        if isinstance(step, CreateNamespace):
            catalog.create_namespace_if_not_exists(step.namespace)
        else:
            table = step.table
            catalog.create_table(table.identifier, table.schema(), partition_spec=table.partition_spec(), properties=dict(table.properties))
        yield step
