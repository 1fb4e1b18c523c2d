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


@contextmanager
def seaweedfs() -> Iterator[Place]:
    """A catalog whose tables are on a SeaweedFS of its own; both end with the block."""
    from frazil.catalog.embedded import running_catalog
    from frazil.client import connect
    from frazil.config import load_settings
    from frazil.services import ports
    from frazil.services.object_store import ObjectStore

    with tempfile.TemporaryDirectory(prefix="frazil-bench-") as text:
        flags = {"stack.folder": text, "stack.ports.object_store": str(ports.free_port()), "stack.bucket": "bench"}
        service = ObjectStore(load_settings(flags=flags, environ={}, folder=Path(text)))
        service.start()
        stack = service.settings.stack
        endpoint, secret = f"http://{ports.HOST}:{service.port}", stack.secret_access_key.get_secret_value()
        keys = {"AWS_ACCESS_KEY_ID": stack.access_key_id, "AWS_SECRET_ACCESS_KEY": secret}
        ours = {
            "FRAZIL_S3__ACCESS_KEY_ID": stack.access_key_id,
            "FRAZIL_S3__SECRET_ACCESS_KEY": secret,
            "FRAZIL_S3__ENDPOINT": endpoint,
        }
        try:
            with (
                # for the catalog in this process
                _environ({"AWS_ENDPOINT_URL": endpoint, "AWS_REGION": "us-east-1", **keys}),
                running_catalog(warehouses={"default": "s3://bench/warehouse"}) as server,
            ):
                connect(uri=server.uri).create_namespace("bench")
                yield Place(server.uri, ours)
        finally:
            service.stop()
            for path in service.purge_paths():
                shutil.rmtree(path, ignore_errors=True)


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
