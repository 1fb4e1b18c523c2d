"""Credentials for tables, kept in memory for a part of their life."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from frazil.catalog.locations import Place
from frazil.catalog.storage.policy import Rights, check_apart, session_policy
from frazil.catalog.storage.sts import Credentials, RoleAssumer, open_role, partition_of
from frazil.catalog.warehouse import Warehouse, Warehouses

KEPT = 4096  # credentials per warehouse
REUSED_SHARE = 0.5  # of their life: what a client gets lasts at least the other half
_STRIPES = 64


@dataclass(frozen=True, slots=True)
class _Kept:
    credentials: Credentials
    until_ms: int


class Vendor:
    """Gives each caller credentials for the files of one table."""

    def __init__(self, assume: RoleAssumer, *, clock: Callable[[], int], partition: str = "aws") -> None:
        self._assume, self._clock, self._partition = assume, clock, partition
        self._kept: OrderedDict[tuple[str, str, str], _Kept] = OrderedDict()
        self._lock = threading.Lock()
        self._stripes = [threading.Lock() for _ in range(_STRIPES)]

    def __repr__(self) -> str:
        return f"Vendor({len(self._kept)} credentials)"

    def vend(
        self, principal: str, table_uuid: str, places: Iterable[Place], rights: Rights, others: Callable[[], list[str]]
    ) -> Credentials:
        """Credentials of this caller for these places of a table. `others` lists the places of all other tables; it is
        called only when new credentials are made.
        """
        places = list(places)
        policy = session_policy(places, rights, partition=self._partition)
        key = (principal, table_uuid, policy)
        # One request asks the store, the others of the same table and caller wait for its answer.
        with self._stripes[hash(key) % _STRIPES]:
            if (kept := self._reusable(key)) is not None:
                return kept
            check_apart(places, others())
            started_ms = self._clock()
            credentials = self._assume(policy, session=principal)
            self._keep(key, credentials, started_ms)
            return credentials

    def _reusable(self, key: tuple[str, str, str]) -> Credentials | None:
        with self._lock:
            kept = self._kept.get(key)
            if kept is None or self._clock() >= kept.until_ms:
                return None
            self._kept.move_to_end(key)
            return kept.credentials

    def _keep(self, key: tuple[str, str, str], credentials: Credentials, started_ms: int) -> None:
        until_ms = started_ms + int((credentials.expires_ms - started_ms) * REUSED_SHARE)
        with self._lock:
            self._kept[key] = _Kept(credentials, until_ms)
            self._kept.move_to_end(key)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)


class Vendors(Mapping[str, Vendor]):
    """The vendors of all warehouses that vend, by name; one is opened when it is first asked for, and again when keys
    or role of its warehouse have changed.
    """

    def __init__(self, warehouses: Warehouses, *, clock: Callable[[], int]) -> None:
        self._warehouses, self._clock = warehouses, clock
        self._opened: dict[str, tuple[Warehouse, Vendor]] = {}
        self._lock = threading.Lock()

    def __contains__(self, name: object) -> bool:
        return name in self._warehouses.vending

    def __iter__(self) -> Iterator[str]:
        return iter(self._warehouses.vending)

    def __len__(self) -> int:
        return len(self._warehouses.vending)

    def __getitem__(self, name: str) -> Vendor:
        warehouse = self._warehouses.find(name)
        if warehouse is None or not warehouse.vends:
            raise KeyError(name)
        with self._lock:
            opened = self._opened.get(name)
            if opened is None or opened[0] != warehouse:
                opened = self._opened[name] = (warehouse, self._open(warehouse))
            return opened[1]

    def _open(self, warehouse: Warehouse) -> Vendor:
        partition = partition_of(warehouse.profile.role_arn or "")
        return Vendor(open_role(warehouse.profile, warehouse.access), clock=self._clock, partition=partition)
