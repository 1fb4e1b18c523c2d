"""The tables of a whole warehouse, as far as a caller may see them: for pages that show all of them at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby

from frazil.catalog.access.privileges import Need, Privilege, Target
from frazil.catalog.context import Context
from frazil.catalog.fields import Json
from frazil.catalog.http import Request
from frazil.catalog.metadata import Version
from frazil.catalog.names import Name
from frazil.catalog.store import relations
from frazil.catalog.store import upkeep as store
from frazil.catalog.store.database import Sql
from frazil.catalog.store.upkeep import Kept


def list_seen(ctx: Context, request: Request) -> list[Kept]:
    """The tables of the request's warehouse that its caller may see, by name, with what is known of their upkeep."""
    sql, warehouse = ctx.database.read(), ctx.warehouse(request).name
    tables = store.list_of(sql, warehouse)
    if ctx.gate.sees_all(request, Target("warehouse", warehouse)):
        return tables
    seen: list[Kept] = []
    for namespace, group in groupby(tables, key=lambda table: table.namespace):
        condition = ctx.gate.seen_relations(request, warehouse, namespace)
        if condition is None:
            seen += group
        else:
            names = set(relations.list_names(sql, warehouse, namespace, "table", seen=condition)[0])
            seen += (table for table in group if table.name in names)
    return seen


def list_warehouses_seen(ctx: Context, request: Request) -> list[str]:
    """The names of the warehouses that the caller may see, the default one first."""
    names = [warehouse.name for warehouse in ctx.warehouses]
    seen = [name for name in names if ctx.gate.sees(request, Target("warehouse", name))]
    return sorted(seen, key=lambda name: name != ctx.warehouses.default.name)


@dataclass
class Readable:
    """Which tables a caller may read: those of a namespace are asked for together, where a grant covers them all."""

    ctx: Context
    request: Request
    _namespaces: dict[str, bool] = field(default_factory=dict)

    def __contains__(self, table: Kept) -> bool:
        if self.request.caller is None:
            return True
        sql, known = self.ctx.database.read(), self._namespaces
        if table.namespace not in known:
            known[table.namespace] = self._may_read(sql, Target("namespace", table.warehouse, table.namespace))
        target = Target("table", table.warehouse, table.namespace, table.name)
        return known[table.namespace] or self._may_read(sql, target)

    def _may_read(self, sql: Sql, target: Target) -> bool:
        return self.ctx.gate.allows(sql, self.request, Need(Privilege.READ, target))


def peek_metadata(ctx: Context, location: str) -> Json:
    """The metadata of a table. What was not in memory is not kept: a look at thousands of tables must not push out
    those that clients use.
    """
    version = ctx.files.cache.peek(location)
    return version.metadata if version is not None else ctx.files.read(location)


def find_kept(ctx: Context, request: Request, version: Version) -> Kept | None:
    """What is known of the upkeep of the request's table."""
    name = request.name()
    wanted = (ctx.warehouse(request).name, (*name.namespace, name.name))
    tables = store.find(ctx.database.read(), version.metadata["table-uuid"])
    return next((table for table in tables if (table.warehouse, table.identifier) == wanted), None)


def key_of(table: Kept) -> str:
    """What tables are sorted by: the namespace, then the name."""
    return f"{table.namespace}\x1f{table.name}"


def find_readable(ctx: Context, request: Request, name: Name) -> str | None:
    """Where the metadata of a table of the request's warehouse is; None if there is none that the caller may read."""
    sql, warehouse = ctx.database.read(), ctx.warehouse(request).name
    relation = relations.find(sql, warehouse, name)
    if relation is None or relation.kind != "table":
        return None
    target = Target("table", warehouse, name.key, name.name)
    may = request.caller is None or ctx.gate.allows(sql, request, Need(Privilege.READ, target))
    return relation.metadata_location if may else None
