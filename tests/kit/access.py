"""A catalog with authentication, and clients of it that have grants."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests
from pyiceberg.table import Table

from frazil.catalog import (
    Target,
    change_grant,
    create_token,
    migrate,
    newest_records,
    open_database,
    open_pepper,
    running_catalog,
)
from frazil.catalog.embedded import EmbeddedCatalog
from frazil.catalog.store.audit import Record
from frazil.catalog.store.database import Database
from frazil.client import FrazilCatalog
from frazil.config import Limits, OidcIssuer, StorageProfile
from tests.kit.catalog_databases import SCHEMA, Client

SERVER = Target("server")
VIEW_VERSION = {
    "version-id": 1,
    "timestamp-ms": 1_700_000_000_000,
    "schema-id": 0,
    "summary": {},
    "default-namespace": ["ns"],
    "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}],
}
VIEW = {"name": "v", "schema": SCHEMA, "view-version": VIEW_VERSION, "properties": {}}


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def bearer_session(token: str) -> requests.Session:
    session = requests.Session()
    session.headers["Authorization"] = f"Bearer {token}"
    return session


@dataclass(kw_only=True)
class Operator:
    """Who may write to the catalog's database, and has the pepper: makes keys and grants, as the command line does."""

    database: Database  # a connection of its own
    pepper: bytes

    def token(
        self,
        principal: str,
        *,
        roles: Sequence[str] = (),
        scopes: Sequence[str] = (),
        expires_ms: int | None = None,
    ) -> str:
        key = create_token(
            self.database, self.pepper, principal, now_ms=now_ms(), roles=roles, scopes=scopes, expires_ms=expires_ms
        )
        return key.token

    def grant(self, privilege: str, target: Target, principal: str) -> None:
        self._change(privilege, target, principal, adding=True)

    def revoke(self, privilege: str, target: Target, principal: str) -> None:
        self._change(privilege, target, principal, adding=False)

    def _change(self, privilege: str, target: Target, principal: str, *, adding: bool) -> None:
        changed = change_grant(
            self.database, privilege, target, f"user:{principal}", adding=adding, by="test", now_ms=now_ms()
        )
        assert changed


@contextmanager
def operator(database: str, pepper_file: Path) -> Iterator[Operator]:
    """An operator of the catalog of a database, which is migrated first."""
    opened = open_database(database)
    try:
        migrate(opened)
        yield Operator(database=opened, pepper=open_pepper(opened, pepper_file))
    finally:
        opened.close()


@dataclass(kw_only=True)
class Guarded(Operator):
    """A running catalog that asks for API keys."""

    server: EmbeddedCatalog
    admin: Client
    _sessions: list[requests.Session] = field(default_factory=list)

    def client(self, token: str, *, uri: str | None = None) -> Client:
        self._sessions.append(bearer_session(token))
        return Client(uri or self.server.uri, session=self._sessions[-1])

    def user(self, principal: str, *grants: tuple[str, Target], scopes: Sequence[str] = ()) -> Client:
        """A client of a new principal with these grants."""
        client = self.client(self.token(principal, scopes=scopes))
        for privilege, target in grants:
            self.grant(privilege, target, principal)
        return client

    def refusals(self) -> list[Record]:
        """The refusals that were recorded, after the server has written all of them."""
        recorder = self.server.app.ctx.gate._recorder
        assert recorder is not None
        recorder._thread.submit(int).result(60)
        return newest_records(self.database.read(), limit=1000, decision="refused")

    def close(self) -> None:
        for session in self._sessions:
            session.close()


@contextmanager
def guarded_catalog(
    folder: Path,
    database: str,
    *,
    oidc: Mapping[str, OidcIssuer] | None = None,
    limits: Limits | None = None,
    warehouses: Mapping[str, str] | None = None,
    storage: Mapping[str, StorageProfile] | None = None,
    allow_overlap: bool = False,
    routes_of: Sequence[str] = (),
    project: Path | None = None,
) -> Iterator[Guarded]:
    """A catalog with authentication, two warehouses, and a client of the role admin."""
    with operator(database, folder / "pepper") as owner:
        token = owner.token("root", roles=["admin"])
        with running_catalog(
            folder,
            database=database,
            warehouses=warehouses or {"default": str(folder / "warehouse"), "cold": str(folder / "cold")},
            authentication="keys",
            oidc=oidc,
            limits=limits,
            storage=storage,
            allow_overlap=allow_overlap,
            routes_of=routes_of,
            project=project,
        ) as server:
            admin = Client(server.uri, session=bearer_session(token))
            guarded = Guarded(database=owner.database, pepper=owner.pepper, server=server, admin=admin)
            try:
                yield guarded
            finally:
                admin.session.close()
                guarded.close()


def load_as(guarded: Guarded, token: str = "", name: str = "t") -> Table:
    """A table of the namespace `ns` as PyIceberg has it, for the principal of a token, or the admin."""
    token = token or str(guarded.admin.session.headers["Authorization"]).removeprefix("Bearer ")
    return FrazilCatalog("lake", uri=guarded.server.uri, token=token).load_table(("ns", name))


def namespace(name: str, warehouse: str = "default") -> Target:
    return Target("namespace", warehouse, name)


def table(name: str, namespace_key: str = "ns", warehouse: str = "default") -> Target:
    return Target("table", warehouse, namespace_key, name)


def pair(grantee: str, privilege: str) -> dict[str, str]:
    """A grant in the body of a request."""
    return {"grantee": grantee, "privilege": privilege}


def after(monkeypatch: pytest.MonkeyPatch, owner: type, method: str, action: Callable[[], object]) -> None:
    """Does something once, right after a method has returned."""
    original = getattr(owner, method)

    def call(self: Any, *arguments: Any) -> Any:
        result = original(self, *arguments)
        monkeypatch.setattr(owner, method, original)
        action()
        return result

    monkeypatch.setattr(owner, method, call)
