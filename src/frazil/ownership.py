"""Which project a table belongs to: a property of the table, compared with the name of the project before it writes.

Two projects that declare the same table and use the same catalog would load their rows into one table. The name is `project.name` of
frazil.toml, which is the same in every clone and in CI; without it, the name of the project's folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from frazil.config import Settings
from frazil.errors import CommitConflict, CommitUnknown

if TYPE_CHECKING:
    from pyiceberg.table import Table as LiveTable

    from frazil.client import FrazilCatalog

OWNER = "frazil.project"  # a property of tables that a project made or writes
ATTEMPTS = 3


def project_name(settings: Settings, folder: Path) -> str:
    """The name by which tables know a project."""
    return settings.project.name or folder.resolve().name or "project"


def other_owners(tables: Iterable[LiveTable], project: str) -> dict[str, str]:
    """The tables of other projects, and which these are. A table without an owner was made before owners were kept."""
    owners = {".".join(table.name()): table.properties.get(OWNER, project) for table in tables}
    return {name: owner for name, owner in owners.items() if owner != project}


def claim_tables(load: Callable[[], Iterable[LiveTable]], project: str, catalog: FrazilCatalog) -> None:
    """Makes the project the owner of tables that have none or another: of all of them in one commit, or of none.

    `load` gives the tables as they are when it is called.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with catalog.transaction() as tx:
                for table in load():
                    if table.properties.get(OWNER) != project:
                        tx.table(table).set_properties({OWNER: project})
            return
        except (CommitConflict, CommitUnknown):  # the next attempt reads whether the commit happened
            if attempt == ATTEMPTS:
                raise
