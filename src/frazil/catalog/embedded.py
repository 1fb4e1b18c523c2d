"""A catalog inside this process, for tests and notebooks.

    from frazil.catalog.embedded import running_catalog

    with running_catalog() as catalog:
        lake = load_catalog("lake", type="rest", uri=catalog.uri)

The same server as `frazil serve`, on SQLite and local files, on a free port of the loopback interface. With pytest, the
fixture `frazil_catalog` is there as soon as Frazil is installed.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from frazil.catalog.app import CatalogApp
from frazil.catalog.server import ServerOptions, build_app, listen, uvicorn_config
from frazil.config import Limits, OidcIssuer, StorageProfile

START_SECONDS = 60.0


@dataclass(frozen=True)
class EmbeddedCatalog:
    """A running catalog: where it answers, and where its files are."""

    uri: str
    folder: Path
    warehouse: str  # the location of the default warehouse
    app: CatalogApp

    @property
    def properties(self) -> dict[str, str]:
        """What PyIceberg's `load_catalog(name, **properties)` needs."""
        return {"type": "rest", "uri": self.uri}


@contextmanager
def running_catalog(
    folder: str | Path | None = None,
    *,
    database: str | None = None,
    warehouses: Mapping[str, str] | None = None,
    allow_locations: Sequence[str] = (),
    allow_properties: Sequence[str] = (),
    allow_overlap: bool = False,
    rebase_appends: bool = False,
    limits: Limits | None = None,
    authentication: str = "off",
    oidc: Mapping[str, OidcIssuer] | None = None,
    secret_key: str | None = None,
    storage: Mapping[str, StorageProfile] | None = None,
    routes_of: Sequence[str] = (),
    project: str | Path | None = None,
) -> Iterator[EmbeddedCatalog]:
    """A catalog that runs as long as the block. Without a folder everything is temporary and is deleted at the end."""
    with tempfile.TemporaryDirectory(prefix="frazil-catalog-") as temporary:
        home = Path(folder) if folder is not None else Path(temporary)
        options = ServerOptions(
            database or f"sqlite:///{home / 'catalog.db'}",
            warehouses or {"default": str(home / "warehouse")},
            allow_locations,
            limits=limits or Limits(),
            allow_properties=allow_properties,
            allow_overlap=allow_overlap,
            rebase_appends=rebase_appends,
            authentication=authentication,
            pepper_file=str(home / "pepper"),
            oidc=oidc or {},
            secret_key=secret_key,
            storage=storage or {},
            routes_of=routes_of,
            project=str(project) if project is not None else None,
        )
        app = build_app(options)
        with serving(app) as port:
            yield EmbeddedCatalog(f"http://127.0.0.1:{port}", home, app.ctx.warehouses.default.root, app)


@contextmanager
def serving(app: CatalogApp) -> Iterator[int]:
    """The port of the loopback interface on which the application answers, as long as the block."""
    listener = listen("127.0.0.1", 0)
    server = _Server(uvicorn_config(app))
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [listener]}, name="frazil-embedded-catalog", daemon=True
    )
    thread.start()
    if not server.answering.wait(START_SECONDS):
        raise RuntimeError(f"the embedded catalog did not start within {START_SECONDS:g} seconds")
    try:
        yield int(listener.getsockname()[1])
    finally:
        server.stop()
        thread.join()
        listener.close()


class _Server(uvicorn.Server):
    """uvicorn in a thread that is not the main one. It tells when it answers and stops when told, where uvicorn would
    be polled.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.answering = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # signals belong to the program around us

    async def main_loop(self) -> None:
        self._loop = asyncio.get_running_loop()
        ticking = asyncio.create_task(super().main_loop())
        self.answering.set()
        stopped = asyncio.create_task(self._stopped.wait())
        await asyncio.wait((ticking, stopped), return_when=asyncio.FIRST_COMPLETED)
        for task in (ticking, stopped):
            task.cancel()

    def stop(self) -> None:
        self.should_exit = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stopped.set)
