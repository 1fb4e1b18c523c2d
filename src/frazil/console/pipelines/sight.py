"""What of a project's graph a caller may see.

A table is shown to callers who may discover it; one that is declared and does not exist yet, to callers who may create
it. What is said about a table besides its name needs the right to read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from frazil.catalog import Context, Kept, Name, Need, Privilege, Readable, Request, Target, list_seen

Identifier = tuple[str, ...]


class Sight:
    """The view of one caller on one warehouse."""

    def __init__(self, ctx: Context, request: Request) -> None:
        self._ctx, self._request = ctx, request
        self._readable = Readable(ctx, request)
        self._creatable: dict[Identifier, bool] = {}

    @cached_property
    def tables(self) -> dict[Identifier, Kept]:
        """The tables that there are and that the caller may see, by name."""
        return {table.identifier: table for table in list_seen(self._ctx, self._request)}

    def shows(self, name: Identifier) -> bool:
        """Whether the caller may know of a table, be it there or declared."""
        return name in self.tables or self._may_create(name[:-1])

    def knows(self, name: Identifier) -> bool:
        """Whether the caller may know what is in a table, or is to be in it."""
        table = self.tables.get(name)
        return table in self._readable if table is not None else self._may_create(name[:-1])

    def knows_all(self, names: Sequence[Identifier]) -> bool:
        return all(map(self.knows, names))

    @cached_property
    def manages(self) -> bool:
        """Whether the caller may see errors of the project's code."""
        return self._allows(Privilege.MANAGE, ())

    def _may_create(self, namespace: Identifier) -> bool:
        """Grants on a namespace hold for all in it: where the caller may create, a table that it does not see is not
        there.
        """
        if namespace not in self._creatable:
            self._creatable[namespace] = self._allows(Privilege.CREATE, namespace)
        return self._creatable[namespace]

    def _allows(self, privilege: Privilege, namespace: Identifier) -> bool:
        warehouse = self._ctx.warehouse(self._request).name
        target = (
            Target("namespace", warehouse, Name(namespace, "").key) if namespace else Target("warehouse", warehouse)
        )
        return self._ctx.gate.allows(self._ctx.database.read(), self._request, Need(privilege, target))


def identify(name: str) -> Identifier:
    """The levels of a name as projects write it."""
    return tuple(name.split("."))
