"""The warehouses of the database as a server uses them, and how a running server notices that they have changed.

A thread reads one number each second. A request that names an unknown warehouse has it read at once. Requests for
warehouses that are known cost nothing.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable

from frazil.catalog.logs import log
from frazil.catalog.storage.profile import WarehouseProfile
from frazil.catalog.storage.secrets import Sealed, SecretKeys, require_keys
from frazil.catalog.store import warehouses as store
from frazil.catalog.store.database import Database
from frazil.catalog.store.warehouses import StoredWarehouse
from frazil.catalog.warehouse import Warehouse, Warehouses, open_warehouse
from frazil.errors import CatalogError, FrazilError

LOOK_SECONDS = 1.0


def open_stored(row: StoredWarehouse, keys: SecretKeys | None) -> Warehouse:
    """The warehouse of a row, with its secret decrypted."""
    profile = WarehouseProfile.model_validate_json(row.profile)
    secret = None
    if row.secret is not None:
        sealed = Sealed(row.secret, row.secret_key_id or "")
        secret = require_keys(keys, row.name).decrypt(row.name, sealed)
    return open_warehouse(
        row.name,
        row.root,
        profile.access(secret),
        profile=profile.role(),
        delegation=profile.delegation,
        stored=True,
    )


class StoredWarehouses:
    """Keeps the warehouses of a server in step with the database."""

    def __init__(self, database: Database, keys: SecretKeys | None) -> None:
        self._database, self._keys = database, keys
        self._version = store.version(database.read())
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._warehouses: Warehouses | None = None
        self._changed: Callable[[], None] = lambda: None

    def open_into(self, warehouses: Warehouses) -> None:
        """Adds all of them, at the start of a server: what is wrong with one is an error."""
        rows = store.list_all(self._database.read())
        if conflicts := warehouses.replace_stored([open_stored(row, self._keys) for row in rows]):
            raise conflicts[0]
        warehouses.check_any()
        self._warehouses = warehouses

    def follow(self, changed: Callable[[], None]) -> None:
        """Has the warehouses follow the database from now on; calls `changed` after each change."""
        assert self._warehouses is not None
        self._changed = changed
        self._warehouses.look = self._look

    def watch(self) -> None:
        """Looks for changes until `close`."""
        self._thread = threading.Thread(target=self._watch, name="frazil-warehouses", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            try:
                self.refresh()
            except FrazilError as exc:  # the database is away, which every request says
                log.debug("cannot look for changed warehouses: %s", exc.message)
            except Exception:
                log.exception("unexpected error while looking for changed warehouses")

    def _look(self) -> bool:
        if not self._database.local and _in_event_loop():
            return False  # the same request comes again in a thread
        return self.refresh()

    def refresh(self) -> bool:
        """Whether the warehouses have changed since the last time."""
        assert self._warehouses is not None
        if store.version(self._database.read()) == self._version:
            return False
        with self._lock:
            sql = self._database.read()
            version = store.version(sql)  # before the rows: a change in between is seen the next time
            if version == self._version:
                return True
            conflicts = self._warehouses.replace_stored(self._open_good(store.list_all(sql)))
            self._version = version
        for conflict in conflicts:
            log.error("a warehouse of the database is not served: %s", conflict.message)
        self._changed()
        log.info("the warehouses of the database have changed", extra={"fields": {"version": version}})
        return True

    def _open_good(self, rows: Iterable[StoredWarehouse]) -> Iterable[Warehouse]:
        """Those that can be opened; what is known of one that cannot stays."""
        assert self._warehouses is not None
        known = {warehouse.name: warehouse for warehouse in self._warehouses if warehouse.stored}
        for row in rows:
            try:
                yield open_stored(row, self._keys)
            except (FrazilError, CatalogError, ValueError) as exc:
                log.error("warehouse %s of the database cannot be opened: %s", row.name, exc)
                if row.name in known and known[row.name].root == row.root:
                    yield known[row.name]


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
