"""Which project a table belongs to: a property of the table, compared with the name of the project before it writes.

Two projects that declare the same table and use the same catalog would load their rows into one table. The name is
`project.name` of frazil.toml, which is the same in every clone and in CI; without it, the name of the project's folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from frazil.config import Settings, load_settings
from frazil.errors import CommitConflict, CommitUnknown, OtherProject
from frazil.protocol import LEDGER_SUFFIX, PROPERTY_PROJECT, QUARANTINE_SUFFIX, RUNS_SUFFIX

if TYPE_CHECKING:
    from pyiceberg.table import Table as LiveTable
    from pyiceberg.typedef import Identifier

    from frazil.client import FrazilCatalog

ATTEMPTS = 3


def project_name(settings: Settings, folder: Path) -> str:
    """The name by which tables know a project."""
    return settings.project.name or folder.resolve().name or "project"


@dataclass
class PipelineOwner:
    """The project that a pipeline runs for. `claim` makes the pipeline's tables belong to it."""

    catalog: FrazilCatalog
    project: str
    tables: Sequence[Identifier]
    is_claimed: bool = False

    def claim(self) -> None:
        """To be called before the first write; later calls do nothing."""
        if not self.is_claimed:
            claim_tables(lambda: existing_tables(self.catalog, self.tables), self.project, self.catalog)
            self.is_claimed = True


def check_pipeline(
    target: Identifier,
    catalog: FrazilCatalog,
    folder: Path,
    *,
    project: str | None = None,
    adopt: bool = False,
    tables: Sequence[LiveTable] | None = None,
) -> PipelineOwner:
    """The project in `folder` as the owner of a pipeline's tables. Changes nothing.

    Raises `OtherProject` if the table or its ledger belongs to another project, unless the project is to `adopt` them.
    `project` is the name of the project, if it is known; `tables` are the table and its ledger, if they were loaded a
    moment ago.
    """
    name = project or project_name(load_settings(folder=folder), folder)
    loaded = existing_tables(catalog, ledgered(target)) if tables is None else tables
    others = other_owners(loaded, name)
    if others and not adopt:
        raise OtherProject(name, others)
    # Companion tables are made with the owner of their table, and change hands with it.
    is_claimed = all(table.properties.get(PROPERTY_PROJECT) == name for table in loaded)
    return PipelineOwner(catalog, name, [target, *companions(target)], is_claimed)


def ledgered(target: Identifier) -> list[Identifier]:
    """The tables whose owner decides who may run a pipeline: the target and its ledger."""
    return [target, companions(target)[0]]


def companions(target: Identifier) -> list[Identifier]:
    """The names of the tables that Frazil keeps for a table, the ledger first."""
    return [(*target[:-1], f"{target[-1]}{suffix}") for suffix in (LEDGER_SUFFIX, RUNS_SUFFIX, QUARANTINE_SUFFIX)]


def existing_tables(catalog: FrazilCatalog, names: Sequence[Identifier]) -> list[LiveTable]:
    """Those of the tables that are there and can be loaded."""
    from pyiceberg.table import Table

    return [table for table in catalog.load_each(names) if isinstance(table, Table)]


def other_owners(tables: Iterable[LiveTable], project: str) -> dict[str, str]:
    """The tables of other projects, and which these are. A table without an owner was made before owners were kept."""
    owners = {".".join(table.name()): table.properties.get(PROPERTY_PROJECT, project) for table in tables}
    return {name: owner for name, owner in owners.items() if owner != project}


def claim_tables(load: Callable[[], Iterable[LiveTable]], project: str, catalog: FrazilCatalog) -> None:
    """Makes the project the owner of tables that have none or another: of all of them in one commit, or of none.

    `load` gives the tables as they are when it is called.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with catalog.transaction() as tx:
                for table in load():
                    if table.properties.get(PROPERTY_PROJECT) != project:
                        tx.table(table).set_properties({PROPERTY_PROJECT: project})
            return
        except (CommitConflict, CommitUnknown):  # the next attempt reads whether the commit happened
            if attempt == ATTEMPTS:
                raise
