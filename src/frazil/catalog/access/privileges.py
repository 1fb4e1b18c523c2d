"""The privileges, what each one includes, and the objects that they are granted on."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

SEPARATOR = "\x1f"
ADMIN = "admin"  # the role that has `manage` on the server from the start


class Privilege(StrEnum):
    """What a caller may do with an object and with everything in it."""

    DISCOVER = "discover"  # see that it exists
    READ = "read"  # load its metadata, plan scans, search
    WRITE = "write"  # commit
    CREATE = "create"  # namespaces, tables and views in it
    DROP = "drop"  # remove it from the catalog; its files stay
    PURGE = "purge"  # drop it and delete its files
    REGISTER = "register"  # add tables and views for metadata files that exist
    MAINTAIN = "maintain"  # upkeep: ask which files are referenced, build indexes
    MANAGE = "manage"  # everything, locations included


_P = Privilege
_INCLUDES: dict[Privilege, tuple[Privilege, ...]] = {
    _P.DISCOVER: (),
    _P.READ: (_P.DISCOVER,),
    _P.WRITE: (_P.READ,),
    _P.CREATE: (_P.DISCOVER,),
    _P.DROP: (_P.DISCOVER,),
    _P.PURGE: (_P.DROP,),
    _P.REGISTER: (_P.DISCOVER,),
    _P.MAINTAIN: (_P.WRITE,),
    _P.MANAGE: (_P.MAINTAIN, _P.CREATE, _P.PURGE, _P.REGISTER),
}


def _closure(privilege: Privilege) -> frozenset[Privilege]:
    return frozenset((privilege,)).union(*(_closure(included) for included in _INCLUDES[privilege]))


_CLOSURES = {privilege: _closure(privilege) for privilege in Privilege}


def included(privileges: Iterable[str]) -> frozenset[Privilege]:
    """These privileges, and all that they include.

    >>> [sorted(map(str, included(names))) for names in (["write"], ["purge", "create"])]
    [['discover', 'read', 'write'], ['create', 'discover', 'drop', 'purge']]
    >>> included(["manage"]) == frozenset(Privilege)
    True
    """
    return frozenset[Privilege]().union(*(_CLOSURES[Privilege(privilege)] for privilege in privileges))


class Target(NamedTuple):
    """An object that a request is about. Names are empty where the object is further up; `namespace` is its key."""

    kind: str  # server, warehouse, namespace, table, view or index
    warehouse: str = ""
    namespace: str = ""
    name: str = ""
    index_name: str = ""

    def __str__(self) -> str:
        """
        >>> str(Target("table", "w", "a\\x1fb", "t")), str(Target("warehouse", "w")), str(Target("server"))
        ('table w: a.b.t', 'warehouse w', 'server')
        """
        names = ".".join(filter(None, (*self.namespace.split(SEPARATOR), self.name, self.index_name)))
        if self.kind in ("server", "warehouse"):
            return f"{self.kind} {self.warehouse}".strip()
        return f"{self.kind} {self.warehouse}: {names}"


SERVER = Target("server")


class Need(NamedTuple):
    """A privilege that a request needs on an object."""

    privilege: Privilege
    target: Target


class Caller(NamedTuple):
    """Who sends a request: the principal, its roles, and what its key is good for."""

    principal: str
    key_id: str
    grantees: tuple[str, ...]  # the principal itself as `user:NAME`, and its roles
    ceiling: frozenset[Privilege]  # what the key may be used for, whatever the principal may do


def grantee_of(principal: str) -> str:
    """A principal as the grantee of its own grants; no role has such a name."""
    return f"user:{principal}"
