"""What every operation gets besides its request: the database, the warehouses, the files, the clock."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Protocol, TypeVar, cast
from zlib import crc32

from frazil.catalog.access.gate import Gate
from frazil.catalog.access.quotas import Quota, quota_of
from frazil.catalog.appends.state import Appends
from frazil.catalog.bodies import Budget
from frazil.catalog.guard import Guard
from frazil.catalog.http import Request
from frazil.catalog.origins import HostGuard, local_uri
from frazil.catalog.storage import Signer, Vendor
from frazil.catalog.storage.stored import StoredWarehouses
from frazil.catalog.store.database import Database
from frazil.catalog.telemetry import Telemetry
from frazil.catalog.warehouse import MetadataFiles, Warehouse, Warehouses
from frazil.config import Limits

if TYPE_CHECKING:
    from frazil.catalog.access.tokens import Tokens
    from frazil.scan.planning import ScanCache
    from frazil.vector import OpenIndexes


class Closing(Protocol):
    """Something that ends with the server."""

    def close(self) -> None: ...


T = TypeVar("T", bound=Closing)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def new_uuid() -> str:
    return str(uuid.uuid4())


class TableLocks:
    """Commits to one table take turns, in one process and (on SQLite) among those of one machine, so that the later one
    decides on what the earlier one wrote.

    Only an economy: the compare-and-set in the database is what keeps commits apart. There are a fixed number of locks,
    taken in order, so that commits of several tables cannot block each other for good.
    """

    def __init__(self, database: Database, count: int = 256) -> None:
        self._database = database
        self._locks = [threading.Lock() for _ in range(count)]

    @contextmanager
    def hold(self, keys: Iterable[tuple[str, ...]]) -> Iterator[None]:
        # crc32, not hash(): the same table must have the same stripe in every process.
        chosen = sorted({crc32("\x1f".join(key).encode("utf-8", "surrogatepass")) % len(self._locks) for key in keys})
        with ExitStack() as held:
            for stripe in chosen:
                held.enter_context(self._locks[stripe])
                self._database.lock_stripe(stripe)
                held.callback(self._database.unlock_stripe, stripe)
            yield


@dataclass(slots=True)
class Context:
    """One server's state: nothing of it is the truth; that is in the database and in the files."""

    database: Database
    warehouses: Warehouses
    files: MetadataFiles
    locks: TableLocks = field(init=False)
    guard: Guard = field(init=False)
    background: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="frazil-background")
    )
    clock: Callable[[], int] = now_ms
    new_uuid: Callable[[], str] = new_uuid
    limits: Limits = field(default_factory=Limits)
    endpoints: tuple[str, ...] = ()
    vending_endpoints: tuple[str, ...] = ()  # further ones, of warehouses that vend credentials
    signing_endpoints: tuple[str, ...] = ()  # and of those that sign requests
    telemetry: Telemetry = field(default_factory=Telemetry)
    hosts: HostGuard = field(default_factory=HostGuard)
    vendors: Mapping[str, Vendor] = field(default_factory=dict)  # by warehouse that can vend credentials
    stored: StoredWarehouses | None = None  # has the warehouses follow the database
    signers: Mapping[str, Signer] = field(default_factory=dict)  # by warehouse that signs requests
    pepper: InitVar[bytes | None] = None  # of API keys; None: authentication is off
    tokens: Tokens | None = None  # of OAuth2 and OpenID Connect; None: API keys only
    public_uri: str = ""  # where clients reach the server; empty: what their Host header says
    scheme: str = "http"
    gate: Gate = field(init=False)
    budget: Budget = field(init=False)
    request_quota: Quota | None = field(init=False)  # limits per principal; None: no limit
    body_quota: Quota | None = field(init=False)
    plan_quota: Quota | None = field(init=False)
    appends: Appends = field(default_factory=Appends)
    project: Path | None = None  # the folder whose lakehouse.py the console shows
    behind_proxy: bool = False  # the address of a client is the last one of X-Forwarded-For
    searches: BoundedSemaphore | None = field(init=False)  # how many run at a time; None: none are served
    options: str = field(default="", repr=False)  # `ServerOptions` as JSON, for further processes of this server
    _attached: dict[type, Closing] = field(default_factory=dict)
    _attaching: threading.Lock = field(default_factory=threading.Lock)
    _manifests: dict[str, ScanCache] = field(default_factory=dict)
    _indexes: dict[str, OpenIndexes] = field(default_factory=dict)

    def __post_init__(self, pepper: bytes | None) -> None:
        self.gate = Gate(self.database, self.warehouses, pepper=pepper, clock=self.clock, tokens=self.tokens)
        self.locks = TableLocks(self.database)
        self.guard = Guard(self.database, self.warehouses, self.files, self.limits)
        limits = self.limits
        self.request_quota = quota_of(limits.principal_requests, "requests")
        self.body_quota = quota_of(limits.principal_body_bytes, "bytes of bodies")
        self.plan_quota = quota_of(limits.principal_plan_files, "planned files")
        self.budget = Budget(self.limits.in_flight_bytes)
        self.searches = BoundedSemaphore(self.limits.searches) if self.limits.searches else None

    def uri(self, request: Request) -> str:
        """Where the client of a request reaches this server."""
        return self.public_uri or f"{self.scheme}://{request.header(b'host') or 'localhost'}"

    def local_uri(self, request: Request) -> str:
        """Where a process of this machine reaches this server."""
        tls = self.scheme == "https" and not self.behind_proxy
        return local_uri(request.served_at, self.hosts.own_name(request.header(b"host") or ""), tls=tls)

    def warehouse(self, request: Request) -> Warehouse:
        return self.warehouses.of_request(request)

    def folds(self, warehouse: Warehouse) -> bool:
        """Whether places that differ only in the case of letters overlap: where credentials are vended, or may be."""
        return self.gate.on or bool(warehouse.delegation)

    def manifests(self, request: Request) -> ScanCache:
        """The decoded manifests of a warehouse. What lies outside of it, and of what is allowed, is not read,
        whatever points there.
        """
        from frazil.scan.planning import ScanCache

        warehouse, caches = self.warehouse(request).name, self._manifests

        def read(location: str) -> bytes:
            self.warehouses.check(self.warehouses.named(warehouse), location)  # as it is now
            return self.files.read_bytes(location)

        if warehouse not in caches:
            caches.setdefault(warehouse, ScanCache(read, max_bytes=self.limits.manifest_bytes))
        return caches[warehouse]

    def indexes(self, request: Request) -> OpenIndexes:
        """What searches have read of the vector indexes of a warehouse."""
        from frazil.vector import OpenIndexes

        warehouse, caches = self.warehouse(request).name, self._indexes
        if warehouse not in caches:
            caches.setdefault(warehouse, OpenIndexes(max_bytes=self.limits.index_bytes))
        return caches[warehouse]

    def forget_files(self) -> None:
        """Reads all files again: warehouses have changed, so that a location may be in another object store, or in
        another warehouse.
        """
        self.files.forget_all()
        self._manifests, self._indexes = {}, {}
        self.appends.forget_files()

    def attached(self, kind: type[T], make: Callable[[], T]) -> T:
        """The object of this kind that the server has once, made at the first call and closed with the server."""
        with self._attaching:
            if kind not in self._attached:
                self._attached[kind] = make()
            return cast(T, self._attached[kind])

    def close(self) -> None:
        for part in self._attached.values():
            part.close()
        if self.stored is not None:
            self.stored.close()
        self.background.shutdown(wait=True)
        self.telemetry.close()
        self.gate.close()
        self.database.close()
