"""What a caller may do with the files of a table, with vended credentials or signed requests."""

from __future__ import annotations

from collections.abc import Iterable

from frazil.catalog.access.privileges import Privilege, Target
from frazil.catalog.context import Context
from frazil.catalog.http import Request
from frazil.catalog.names import Name
from frazil.catalog.storage import Rights
from frazil.errors import NotVendable

ANONYMOUS = "anonymous"


def allowed_rights(ctx: Context, request: Request, name: Name, *, staged: bool = False) -> tuple[str, Rights]:
    """The caller, and what it may do with the files of the table. Without authentication everyone may do everything.
    The caller may write the files of a table whose creation it stages: the place is free.
    """
    if request.caller is None:
        return ANONYMOUS, Rights.ALL
    rights = rights_of(ctx.gate.privileges(request, Target("table", ctx.warehouse(request).name, name.key, name.name)))
    if staged and Privilege.CREATE in request.caller.ceiling:
        rights |= Rights.READ | Rights.WRITE
    if Rights.READ not in rights:
        raise NotVendable(str(name), "the caller may not read the table")
    return request.caller.principal, rights


def rights_of(privileges: Iterable[Privilege]) -> Rights:
    """What privileges on a table allow with its files: writers may add files, and delete none.

    >>> rights_of([Privilege.READ, Privilege.WRITE]) == Rights.READ | Rights.WRITE
    True
    >>> rights_of([Privilege.READ, Privilege.DROP]) == Rights.READ | Rights.DELETE
    True
    """
    held, rights = frozenset(privileges), Rights(0)
    if Privilege.READ in held:
        rights |= Rights.READ
        if Privilege.WRITE in held:
            rights |= Rights.WRITE
        if held & {Privilege.DROP, Privilege.MAINTAIN}:
            rights |= Rights.DELETE
    return rights
