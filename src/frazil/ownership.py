"""Which project a table belongs to: a property of the table, compared with the name of the project before it writes.

Two projects that declare the same table and use the same catalog would load their rows into one table. The name is `project.name` of
frazil.toml, which is the same in every clone and in CI; without it, the name of the project's folder.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from frazil.config import Settings
from frazil.errors import CommitConflict, CommitUnknown

if TYPE_CHECKING:
    from pyiceberg.table import Table as LiveTable

    from frazil.client import FrazilCatalog

OWNER = "frazil.project"  # a property of tables that a project made or writes


def project_name(settings: Settings, folder: Path) -> str:
    """The name by which tables know a project."""
    return settings.project.name or folder.resolve().name or "project"


def other_owners(tables: Iterable[LiveTable], project: str) -> dict[str, str]:
    """The tables of other projects, and which these are. A table without an owner was made before owners were kept."""
    owners = {".".join(table.name()): table.properties.get(OWNER, project) for table in tables}
    return {name: owner for name, owner in owners.items() if owner != project}


def claim_tables(tables: Iterable[LiveTable], project: str, catalog: FrazilCatalog) -> None:
    """Makes the project the owner of tables that have none or another. If another commit comes first, the next write claims them."""
    from pyiceberg.table.update import AssertTableUUID, SetPropertiesUpdate

    for table in tables:
        if table.properties.get(OWNER) != project:
            guard = AssertTableUUID(uuid=table.metadata.table_uuid)
            with suppress(CommitConflict, CommitUnknown):
                catalog.commit_table(table, (guard,), (SetPropertiesUpdate(updates={OWNER: project}),))
