"""A catalog of its own process for clients in other languages: what `frazil connect` prints, and the folder in which
the client runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from frazil import Lake, sinks
from frazil.client import FrazilCatalog
from frazil.config import load_settings
from frazil.engine_config.connection import S3
from frazil.services import ports
from frazil.services.object_store import ObjectStore
from tools.own_server import own_server

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType()))


@dataclass(frozen=True)
class ClientLake:
    """`frazil serve` with the table `ns.items` of two rows, and a folder in which a client runs with only the keys in
    its environment.
    """

    uri: str
    folder: Path
    store: S3 | None

    @property
    def keys(self) -> dict[str, str]:
        if self.store is None:
            return {}
        return {"AWS_ACCESS_KEY_ID": self.store.key or "", "AWS_SECRET_ACCESS_KEY": self.store.secret or ""}

    @property
    def environment(self) -> dict[str, str]:
        clean = {
            name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "FRAZIL_", "PYTHON"))
        }
        return clean | self.keys

    def connect(self, engine: str) -> str:
        """What `frazil connect` prints to a user who has set the catalog's address, and nothing else."""
        return self.run(sys.executable, "-m", "frazil", "--set", f"catalog.uri={self.uri}", "connect", engine)

    def write(self, file: str, text: str) -> Path:
        path = self.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def run(self, *command: str, **variables: str) -> str:
        """The standard output of a command that must succeed."""
        environment = {**self.environment, **variables}
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-10000:]
        return done.stdout

    @property
    def catalog(self) -> FrazilCatalog:
        keys = {"s3.access-key-id": self.store.key, "s3.secret-access-key": self.store.secret} if self.store else {}
        return FrazilCatalog("lake", uri=self.uri, **{name: value or "" for name, value in keys.items()})

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """The rows of a table, which PyIceberg and our own scan must agree on."""
        live = self.catalog.load_table(table)
        head = live.current_snapshot()
        by_pyiceberg = _sorted(live.scan().to_arrow().to_pylist())
        flags = {"catalog.uri": self.uri}
        if self.store:
            flags |= {"s3.access_key_id": self.store.key or "", "s3.secret_access_key": self.store.secret or ""}
        lake = Lake(load_settings(flags=flags, environ={}, folder=self.folder))
        ours = lake.table(table).scan(at=head.snapshot_id if head else None)  # a client may have committed meanwhile
        assert _sorted(ours.to_arrow().to_pylist()) == by_pyiceberg
        return by_pyiceberg


def _sorted(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((tuple(row[name] for name in sorted(row)) for row in rows), key=repr)


@contextmanager
def client_lake(folder: Path, store: S3 | None) -> Iterator[ClientLake]:
    """A lake on the object store; without one, on local files below `folder`."""
    variables, warehouse = {}, None
    if store:
        variables = {"AWS_ENDPOINT_URL": store.endpoint or "", "AWS_REGION": store.region}
        variables |= {"AWS_ACCESS_KEY_ID": store.key or "", "AWS_SECRET_ACCESS_KEY": store.secret or ""}
        warehouse = f"s3://lakehouse/{folder.name}"
    for name in ("server", "client"):
        (folder / name).mkdir(parents=True)
    with own_server(folder / "server", warehouse=warehouse, variables=variables) as (uri, _):
        lake = ClientLake(uri, folder / "client", store)
        catalog = lake.catalog
        catalog.create_namespace("ns")
        catalog.create_table("ns.items", SCHEMA)
        with sinks.open("ns.items", name="s", catalog=catalog) as sink:
            sink.write([{"id": 1, "name": "a"}, {"id": 2, "name": None}], position=2)
        yield lake


@contextmanager
def object_store(folder: Path) -> Iterator[S3]:
    """An object store of its own with the bucket `lakehouse`."""
    flags = {
        "stack.folder": str(folder),
        "stack.ports.object_store": str(ports.free_port()),
        "stack.bucket": "lakehouse",
    }
    service = ObjectStore(load_settings(flags=flags, environ={}, folder=folder))
    service.start()
    try:
        stack = service.settings.stack
        keys = stack.access_key_id, stack.secret_access_key.get_secret_value()
        yield S3(f"http://{ports.HOST}:{service.port}", "us-east-1", True, *keys)
    finally:
        service.stop()
