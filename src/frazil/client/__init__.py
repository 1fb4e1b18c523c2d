"""The client: PyIceberg's REST catalog, with what it lacks.

    from frazil.client import connect
    from frazil.errors import CommitConflict, CommitUnknown

    catalog = connect()                          # frazil.toml, .pyiceberg.yaml, environment; or
    connect(uri="http://...") with catalog.transaction() as tx:            # several tables, all or nothing
        tx.table("sales.orders").append(orders)
        tx.table("sales.lines").append(lines)

What is promised:
- A commit that returns has happened. `CommitConflict`: it has not, and never will; refresh and try again.
  `CommitUnknown`: the outcome is unknown; check before you try again. Before the last one is raised, the tables were
  looked at, and the request was repeated under its own key where the server promises to answer a repeated request once.
- Nothing is retried behind your back after a conflict: a batch that another writer may have brought in is not appended
  again.
- No data file or manifest is deleted after a conflict or in doubt; `frazil catalog sweep` and table maintenance collect
  them by age.
- Loading a table that has not changed costs one small request and no parsing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.client.catalog import FrazilCatalog, connect
    from frazil.client.catalog import catalog_properties as catalog_properties
    from frazil.client.changes import Change as Change
    from frazil.client.moment import READS as READS
    from frazil.client.moment import load_at_once as load_at_once
    from frazil.client.moment import load_changed as load_changed
    from frazil.client.transaction import CatalogTransaction

__all__ = [
    "CatalogTransaction",
    "FrazilCatalog",
    "connect",
]

__getattr__ = lazy_names(__name__)
