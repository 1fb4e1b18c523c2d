"""Grants of a declared table: `Table(..., grants={"analyst": "read"})`, against those that the catalog has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frazil.errors import AccessError, DeclarationError
from frazil.tables.compare import Change
from frazil.tables.fields import TableFields
from frazil.tables.steps import ChangeGrants

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from frazil.client import FrazilCatalog

USER = "user:"
FORBIDDEN = "403"
Pair = tuple[str, str]  # grantee and privilege


@dataclass(frozen=True)
class DeclaredGrants:
    """The catalog that keeps the grants of declared tables, or why there is none."""

    catalog: FrazilCatalog | None
    note: str = ""  # for people: why grants are left out
    hidden: frozenset[str] = frozenset()  # tables whose grants the caller may not list; they are left out

    def step(self, table: TableFields, *, exists: bool) -> ChangeGrants | None:
        """The step that makes the live grants what is declared; None if they are that already."""
        if self.catalog is None or table.grants is None or table.name in self.hidden:
            return None
        granted, revoked = self._difference(table, exists=exists)
        return ChangeGrants(table.name, tuple(granted), tuple(revoked)) if granted or revoked else None

    def drift(self, table: TableFields, *, exists: bool) -> list[Change]:
        """What the live grants have, or lack, and the declaration does not have."""
        if self.catalog is None or table.grants is None or table.name in self.hidden or not exists:
            return []
        missing, added = self._difference(table, exists=True)
        changes = [Change("-", ("grant", *pair), f"grant {pair[1]} to {pair[0]}") for pair in missing]
        return [*changes, *(Change("+", ("grant", *pair), f"grant {pair[1]} to {pair[0]}") for pair in added)]

    def _difference(self, table: TableFields, *, exists: bool) -> tuple[list[Pair], list[Pair]]:
        """What is declared and not live, and what is live and not declared. What came with the creation of the table
        belongs to its creator.
        """
        assert self.catalog is not None
        declared = pairs_of(table.grants or {})
        held = self.catalog.list_grants(table.identifier) if exists else []
        live = {(grant.grantee, grant.privilege) for grant in held}
        created = {(grant.grantee, grant.privilege) for grant in held if grant.creator}
        return [pair for pair in declared if pair not in live], sorted(live - created - set(declared))


def pairs_of(grants: Mapping[str, Sequence[str]]) -> list[Pair]:
    """
    >>> pairs_of({"etl": ("write", "drop"), "analyst": ("read",)})
    [('analyst', 'read'), ('etl', 'drop'), ('etl', 'write')]
    """
    return sorted({(grantee, privilege) for grantee, privileges in grants.items() for privilege in privileges})


def open_grants(tables: Iterable[TableFields], catalog: Catalog, *, where_listed: bool = False) -> DeclaredGrants:
    """The grants of the catalog, for tables that declare some; DeclarationError if they name a role that it lacks.

    With `where_listed`, those of tables that the caller does not manage are left out, with a note; else they are an
    error when they are listed.
    """
    from frazil.client import FrazilCatalog

    declaring = [table for table in tables if table.grants is not None]
    if not declaring:
        return DeclaredGrants(None)
    names = ", ".join(table.name for table in declaring)
    if not isinstance(catalog, FrazilCatalog):
        return DeclaredGrants(None, f"grants of {names} are left out: this catalog keeps none")
    roles = sorted({name for table in declaring for name in table.grants or () if not name.startswith(USER)})
    check = catalog.check_roles(roles)
    if check is None:
        return DeclaredGrants(None, f"grants of {names} are left out: this catalog keeps none")
    if not check.enforced:
        return DeclaredGrants(None, f"grants of {names} are left out: the catalog has authentication off")
    for table in declaring:
        if unknown := sorted(set(check.unknown) & set(table.grants or ())):
            raise DeclarationError(
                f"table '{table.name}': grants: there is no role '{unknown[0]}'",
                hint=f"frazil role create {unknown[0]}",
                table=table.name,
                option="grants",
            )
    hidden = [table.name for table in declaring if where_listed and _is_hidden(table, catalog)]
    note = f"grants of {', '.join(hidden)} are left out: they are shown with manage on the table" if hidden else ""
    return DeclaredGrants(catalog, note, frozenset(hidden))


def _is_hidden(table: TableFields, catalog: FrazilCatalog) -> bool:
    """Whether the table is there, and its grants may not be listed."""
    try:
        catalog.list_grants(table.identifier)
    except AccessError as exc:
        return exc.problem == FORBIDDEN
    return False
