"""What the cases need around them: a catalog on local files or on SeaweedFS, and a pandas before 3."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

OLD_PANDAS = "2.3.3"


@dataclass(frozen=True)
class Place:
    """Where tables are made, the settings that lead there, and the folder of their files if that is on this machine."""

    uri: str
    environ: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None


@contextmanager
def local_files() -> Iterator[Place]:
    """A catalog whose tables are local files."""
    from frazil.catalog.embedded import running_catalog
    from frazil.client import connect

    with running_catalog() as server:
        connect(uri=server.uri).create_namespace("bench")
        yield Place(server.uri, folder=Path(server.warehouse.removeprefix("file://")))


@dataclass(frozen=True)
class Store:
    """An object store with a bucket, and the keys to it."""

    endpoint: str
    access_key_id: str
    secret_access_key: str
    bucket: str = "bench"

    @property
    def settings(self) -> dict[str, str]:
        """How Frazil's clients reach it."""
        return {
            "FRAZIL_S3__ACCESS_KEY_ID": self.access_key_id,
            "FRAZIL_S3__SECRET_ACCESS_KEY": self.secret_access_key,
            "FRAZIL_S3__ENDPOINT": self.endpoint,
        }

    @property
    def environ(self) -> dict[str, str]:
        """How everything else in a process reaches it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": self.access_key_id,
            "AWS_SECRET_ACCESS_KEY": self.secret_access_key,
        }


@contextmanager
def object_store() -> Iterator[Store]:
    """A SeaweedFS of its own; it ends with the block."""
    from frazil.config import load_settings
    from frazil.services import ports
    from frazil.services.object_store import ObjectStore

    with tempfile.TemporaryDirectory(prefix="frazil-bench-") as text:
        port = str(ports.free_port())
        flags = {"stack.folder": text, "stack.ports.object_store": port, "stack.bucket": Store.bucket}
        service = ObjectStore(load_settings(flags=flags, environ={}, folder=Path(text)))
        service.start()
        stack = service.settings.stack
        secret = stack.secret_access_key.get_secret_value()
        try:
            yield Store(f"http://{ports.HOST}:{service.port}", stack.access_key_id, secret)
        finally:
            service.stop()
            for path in service.purge_paths():
                shutil.rmtree(path, ignore_errors=True)


@contextmanager
def lake_in(store: Store) -> Iterator[Place]:
    """A catalog in this process whose tables are in an object store."""
    from frazil.catalog.embedded import running_catalog
    from frazil.client import connect

    with (
        _environ(store.environ),
        running_catalog(warehouses={"default": f"s3://{store.bucket}/warehouse"}) as server,
    ):
        connect(uri=server.uri).create_namespace("bench")
        yield Place(server.uri, store.settings)


@contextmanager
def seaweedfs() -> Iterator[Place]:
    """A catalog whose tables are on a SeaweedFS of its own; both end with the block."""
    with object_store() as store, lake_in(store) as place:
        yield place


@contextmanager
def _environ(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def pandas_versions() -> list[str]:
    """The last pandas before 3, and the one that is installed here."""
    return [OLD_PANDAS, version("pandas")]


def environ_of_pandas(wanted: str | None) -> dict[str, str]:
    """What lets a process import the pandas of a version."""
    return {"PYTHONPATH": str(old_pandas())} if wanted == OLD_PANDAS else {}


def old_pandas() -> Path:
    """A folder with a pandas before 3, for PYTHONPATH; in Frazil's cache, installed at the first use."""
    from frazil.artifacts.jars import cache_folder

    folder = cache_folder() / f"pandas-{OLD_PANDAS}"
    if not (folder / "pandas").exists():
        part = folder.with_name(f"{folder.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        # Without dependencies: all but pytz are here, in newer versions that it takes.
        options = ["-q", "--disable-pip-version-check", "--no-deps", "--target", str(part)]
        subprocess.run([sys.executable, "-m", "pip", "install", *options, f"pandas=={OLD_PANDAS}", "pytz"], check=True)
        part.rename(folder)
    return folder
