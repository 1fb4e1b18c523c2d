"""Starting the catalog: the context from settings, and uvicorn around the application."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn

from frazil.catalog.app import CatalogApp, endpoints
from frazil.catalog.cache import VersionCache
from frazil.catalog.context import Context, Limits
from frazil.catalog.logs import log_to_stderr
from frazil.catalog.places import store_missing_places
from frazil.catalog.protocol import CatalogProtocol
from frazil.catalog.store import open_database
from frazil.catalog.store.migrations import check_schema, migrate
from frazil.catalog.store.sqlite import SqliteDatabase
from frazil.catalog.telemetry import Telemetry
from frazil.catalog.warehouse import MetadataFiles, Warehouses
from frazil.properties import PropertyRule


@dataclass(frozen=True)
class ServerOptions:
    """What a server is started with."""

    database: str
    warehouses: Mapping[str, str]
    allow_locations: Sequence[str] = ()
    limits: Limits = field(default_factory=Limits)
    log_level: str = "info"
    allow_properties: Sequence[str] = ()  # patterns
    metrics_folder: str | None = None  # where several workers put their counts together
    allow_overlap: bool = False  # tables and warehouses may lie in each other


def open_context(options: ServerOptions) -> Context:
    """The context of a server. A new SQLite file gets its schema; any other database must have it."""
    warehouses = Warehouses(options.warehouses, options.allow_locations, allow_overlap=options.allow_overlap)
    database = open_database(options.database)
    try:
        if isinstance(database, SqliteDatabase) and database.is_new:
            migrate(database)
        check_schema(database, options.database)
        cache = VersionCache(options.limits.cache_bytes)
        files = MetadataFiles(cache, PropertyRule(options.allow_properties))
        store_missing_places(database, files)
    except BaseException:
        database.close()
        raise
    telemetry = Telemetry(Path(options.metrics_folder) if options.metrics_folder else None)
    telemetry.watch(cache.gauges)
    return Context(database, warehouses, files, limits=options.limits, endpoints=tuple(endpoints()), telemetry=telemetry)


def build_app(options: ServerOptions) -> CatalogApp:
    return CatalogApp(open_context(options))


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError:
        listener.close()
        raise
    listener.listen(2048)
    os.set_inheritable(listener.fileno(), True)
    return listener


def serve_here(options: ServerOptions, listener: socket.socket, *, opened: Callable[[], None] | None = None) -> None:
    """Serves in this process until a signal says stop; then finishes what is in flight. Calls `opened` once the database is open."""
    log_to_stderr(options.log_level)
    sys.setswitchinterval(0.0005)  # a thread that comes back from an fsync must not wait 5 ms for its turn
    app = build_app(options)
    if opened is not None:
        opened()
    _Server(uvicorn_config(app)).run(sockets=[listener])


class _Server(uvicorn.Server):
    """uvicorn that ends with success when a signal asked it to end: its own way is to die of the signal once more."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def uvicorn_config(app: CatalogApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        http=CatalogProtocol,
        ws="none",
        proxy_headers=False,
        timeout_keep_alive=75,  # longer than the idle time after which clients and proxies close: they close first
    )
