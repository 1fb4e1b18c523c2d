"""Starting the catalog: the context from settings, and uvicorn around the application."""

from __future__ import annotations

import ctypes
import importlib
import importlib.metadata
import importlib.util
import ipaddress
import json
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn

from frazil.catalog.access.keys import pepper_path, read_checked_pepper
from frazil.catalog.app import CatalogApp, endpoints, signing_endpoints, vending_endpoints
from frazil.catalog.appends.state import Appends
from frazil.catalog.cache import VersionCache
from frazil.catalog.context import Context, now_ms
from frazil.catalog.logs import log, log_to_stderr
from frazil.catalog.origins import HostGuard
from frazil.catalog.places import store_missing_places
from frazil.catalog.protocol import CatalogProtocol
from frazil.catalog.routes import OWN_ROUTES, ROUTES
from frazil.catalog.storage import Signers, Vendors, check_installed, open_signer
from frazil.catalog.storage.secrets import open_secret_keys
from frazil.catalog.storage.stored import StoredWarehouses
from frazil.catalog.store import Database, open_database
from frazil.catalog.store.access import pepper_check
from frazil.catalog.store.migrations import check_schema, migrate
from frazil.catalog.store.sqlite import SqliteDatabase
from frazil.catalog.telemetry import Telemetry, build_info, process_counts
from frazil.catalog.warehouse import MetadataFiles, Warehouses
from frazil.config import Limits, OidcIssuer, StorageProfile, UpkeepSettings
from frazil.errors import ConfigError, MissingExtra
from frazil.processes import write_no_core
from frazil.properties import PropertyRule

if TYPE_CHECKING:
    from frazil.catalog.access.tokens import Tokens

OTHER_FILES = 512  # that the server has open besides its connections: database, metadata files, libraries
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # of malloc.h
LARGE_BLOCK, ARENAS = 4 * 1024 * 1024, 2
# of free memory: giving it back after each commit, and asking again, costs more than the commit
KEPT_BYTES = 16 * 1024 * 1024
END_SECONDS = 5.0  # after the time for requests in flight


@dataclass(frozen=True)
class ServerOptions:
    """What a server is started with."""

    database: str = field(repr=False)  # may hold a password
    warehouses: Mapping[str, str]
    allow_locations: Sequence[str] = ()
    allowed_hosts: Sequence[str] = ()  # names of the server, beyond the address that it listens on
    host: str = ""  # the address that it was configured to listen on
    limits: Limits = field(default_factory=Limits)
    log_level: str = "info"
    allow_properties: Sequence[str] = ()  # patterns
    metrics_folder: str | None = None  # where several workers put their counts together
    storage: Mapping[str, StorageProfile] = field(default_factory=dict)  # by warehouse
    allow_overlap: bool = False  # tables and warehouses may lie in each other
    rebase_appends: bool = False  # of tables without the property that says so
    authentication: str = "off"  # or "keys"
    pepper_file: str | None = None  # of API keys; None: next to a SQLite database
    certificate: str | None = None  # PEM files of TLS
    certificate_key: str | None = None
    behind_proxy: bool = False  # a proxy on the way terminates TLS
    oidc: Mapping[str, OidcIssuer] = field(default_factory=dict)  # by name
    public_uri: str | None = None  # where clients reach the server, if a proxy changes host or path
    secret_key: str | None = field(default=None, repr=False)  # of the secrets of warehouses in the database
    secret_key_file: str | None = None  # that holds it, instead
    upkeep: UpkeepSettings | None = None  # how a process next to the server maintains tables; None: there is none
    upkeep_on_request: UpkeepSettings = field(default_factory=UpkeepSettings)  # of what someone asks for
    routes_of: Sequence[str] = ()  # modules whose ROUTES the server has besides its own
    project: str | None = None  # the folder whose lakehouse.py the console shows, once there is one

    def to_json(self) -> str:
        """The options for another process of this server. They hold passwords: they travel through pipes."""
        models = {
            "limits": self.limits.model_dump(),
            "storage": {name: profile.model_dump() for name, profile in self.storage.items()},
            "oidc": {name: issuer.model_dump() for name, issuer in self.oidc.items()},
            "upkeep": self.upkeep.model_dump() if self.upkeep is not None else None,
            "upkeep_on_request": self.upkeep_on_request.model_dump(),
        }
        return json.dumps(asdict(self) | models)

    @classmethod
    def from_json(cls, text: str) -> ServerOptions:
        """The options that the other process has written."""
        document = json.loads(text)
        models = {
            "limits": Limits(**document["limits"]),
            "storage": {name: StorageProfile(**profile) for name, profile in document["storage"].items()},
            "oidc": {name: OidcIssuer(**issuer) for name, issuer in document["oidc"].items()},
            "upkeep": UpkeepSettings(**document["upkeep"]) if document["upkeep"] is not None else None,
            "upkeep_on_request": UpkeepSettings(**document["upkeep_on_request"]),
        }
        return cls(**{**document, **models})


def open_context(options: ServerOptions, bound: str = "127.0.0.1") -> Context:
    """The context of a server that listens on the address `bound`. A new SQLite file gets its schema; any other
    database must have it.
    """
    warehouses = Warehouses(
        options.warehouses,
        options.allow_locations,
        profiles=options.storage,
        allow_overlap=options.allow_overlap,
    )
    warehouses.check_writable()
    _check_profiles(warehouses, options.storage)
    keys = open_secret_keys(options.secret_key, options.secret_key_file)
    database = open_database(options.database)
    try:
        if isinstance(database, SqliteDatabase) and database.is_new:
            migrate(database)
        check_schema(database, options.database)
        stored = StoredWarehouses(database, keys)
        stored.open_into(warehouses)
        pepper = _pepper(options, database)
        cache = VersionCache(options.limits.cache_bytes)
        files = MetadataFiles(
            cache, PropertyRule(options.allow_properties), options.limits, access_to=warehouses.access_to
        )
        store_missing_places(database, files)
    except BaseException:
        database.close()
        raise
    telemetry = Telemetry(Path(options.metrics_folder) if options.metrics_folder else None)
    telemetry.watch(cache.gauges)
    telemetry.watch(database.gauges)
    telemetry.watch(process_counts)
    appends = Appends(default=options.rebase_appends)
    telemetry.watch(appends.gauges)
    telemetry.build = build_info(importlib.metadata.version("frazil"), database.dialect)
    ctx = Context(
        database,
        warehouses,
        files,
        limits=options.limits,
        endpoints=tuple(endpoints(searches=options.limits.searches > 0)),
        vending_endpoints=tuple(vending_endpoints()),
        signing_endpoints=tuple(signing_endpoints()),
        vendors=Vendors(warehouses, clock=now_ms),
        signers=Signers(warehouses),
        stored=stored,
        telemetry=telemetry,
        appends=appends,
        hosts=HostGuard(bound, options.allowed_hosts, host=options.host),
        project=Path(options.project) if options.project is not None else None,
        pepper=pepper,
        behind_proxy=options.behind_proxy,
        tokens=open_tokens(options, pepper),
        public_uri=(options.public_uri or "").rstrip("/"),
        scheme="https" if options.certificate or options.behind_proxy else "http",
        options=options.to_json(),
    )
    stored.follow(ctx.forget_files)
    return ctx


def _check_profiles(warehouses: Warehouses, profiles: Mapping[str, StorageProfile]) -> None:
    """Passes when each role of the settings, and each wish to sign, is for a warehouse of the settings, in S3."""
    for name, profile in profiles.items():
        if profile.role_arn is None and not profile.remote_signing:
            continue
        warehouse = next((each for each in warehouses if each.name == name and not each.stored), None)
        if warehouse is None or warehouse.place.scheme != "s3":
            what = "is not in S3" if warehouse else "is not in server.warehouses"
            has = "a role" if profile.role_arn is not None else "remote_signing"
            raise ConfigError(
                f"server.storage.{name} has {has}, but warehouse '{name}' {what}",
                hint=f"this server has: {', '.join(warehouse.name for warehouse in warehouses)}",
                option=f"server.storage.{name}",
                name=name,
            )
        if profile.remote_signing:
            open_signer(warehouse.access, warehouse.place)
    if warehouses.vending:
        check_installed()


def _pepper(options: ServerOptions, database: Database) -> bytes | None:
    """The pepper of the API keys, checked against the database; None when authentication is off."""
    if options.authentication == "off":
        return None
    path = pepper_path(options.database, options.pepper_file)
    return read_checked_pepper(path, pepper_check(database.read()))


def open_tokens(options: ServerOptions, pepper: bytes | None) -> Tokens | None:
    """What issues and verifies access tokens; None without authentication or without the library for it."""
    if pepper is None:
        if options.oidc:
            raise ConfigError(
                "server.oidc is set, but authentication is off: every request would pass",
                hint="server.authentication = 'keys'",
                option="server.oidc",
            )
        return None
    if importlib.util.find_spec("jwt") is None:
        if options.oidc:
            raise MissingExtra("jwt", extra="oauth")
        return None
    from frazil.catalog.access.issuers import Issuer
    from frazil.catalog.access.tokens import OwnTokens, Tokens

    issuers = [Issuer(name, settings) for name, settings in options.oidc.items()]
    if len({issuer.url for issuer in issuers}) != len(issuers):
        raise ConfigError("server.oidc has the same issuer twice", option="server.oidc")
    return Tokens(OwnTokens(pepper, clock=now_ms), issuers)


def check_exposure(options: ServerOptions, bound: str) -> None:
    """Passes when a server may listen on this address: the loopback interface, or any with authentication and TLS."""
    if bool(options.certificate) != bool(options.certificate_key):
        raise ConfigError("TLS needs two files: --tls-certificate and --tls-key", option="server.tls_certificate")
    if _is_loopback(bound):
        return
    if options.authentication == "off":
        raise ConfigError(
            f"refusing to listen on {bound} without authentication: anyone there could change every table",
            hint="frazil token create NAME --role admin, then frazil serve --authentication keys",
            option="server.authentication",
        )
    if not options.certificate and not options.behind_proxy:
        raise ConfigError(
            f"refusing to listen on {bound} without TLS: tokens would be sent in clear text",
            hint="--tls-certificate FILE --tls-key FILE, or --behind-proxy when a proxy terminates TLS",
            option="server.tls_certificate",
        )


def _is_loopback(bound: str) -> bool:
    """
    >>> [_is_loopback(address) for address in ("127.0.0.1", "::1", "127.9.9.9", "0.0.0.0", "::", "10.0.0.1", "x")]
    [True, True, True, False, False, False, False]
    """
    try:
        return ipaddress.ip_address(bound.partition("%")[0]).is_loopback
    except ValueError:
        return False


def build_app(options: ServerOptions, bound: str = "127.0.0.1") -> CatalogApp:
    ctx = open_context(options, bound)
    if ctx.stored is not None:
        ctx.stored.watch()
    more = [route for module in options.routes_of for route in importlib.import_module(module).ROUTES]
    return CatalogApp(ctx, routes=(*ROUTES, *OWN_ROUTES, *more))


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
    """Serves in this process until a signal says stop; then finishes what is in flight. Calls `opened` once the
    database is open.
    """
    log_to_stderr(options.log_level)
    sys.setswitchinterval(0.0005)  # a thread that comes back from an fsync must not wait 5 ms for its turn
    allow_open_files(options.limits.connections)
    write_no_core()
    return_memory()
    bound = str(listener.getsockname()[0])
    check_exposure(options, bound)
    app = build_app(options, bound)
    if opened is not None:
        opened()
    _Server(uvicorn_config(app, options)).run(sockets=[listener])


def return_memory() -> None:
    """Has the C library give large blocks back to the system as soon as they are free.

    By default glibc keeps blocks of up to 32 MB once some were freed: a few large requests would make the process large
    for good.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return  # not glibc
    mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK)
    mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
    mallopt(M_ARENA_MAX, ARENAS)


def allow_open_files(connections: int) -> None:
    """Raises this process's limit on open files where it is too low for the connections, as far as the
    system allows.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(
                resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard)
            )


class _Server(uvicorn.Server):
    """uvicorn that ends with success when a signal asked it to end: its own way is to die of the signal once more.

    It ends for certain: a thread that hangs, in a file that never ends for one, would keep the process for good. A
    commit that is cut off then is as after a crash.
    """

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        timer = threading.Timer((self.config.timeout_graceful_shutdown or 0) + END_SECONDS, _end_now)
        timer.daemon = True
        timer.start()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _end_now() -> None:
    log.error("requests in flight did not end in time: the server ends without them")
    os._exit(1)


def uvicorn_config(app: CatalogApp, options: ServerOptions | None = None) -> uvicorn.Config:
    certificate, key = (options.certificate, options.certificate_key) if options else (None, None)
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        http=CatalogProtocol,
        ws="none",
        proxy_headers=False,
        timeout_keep_alive=app.ctx.limits.idle_seconds,
        timeout_graceful_shutdown=app.ctx.limits.shutdown_seconds,
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )
