"""A lake that commit 6cefdda made, at the path that its metadata names (see tests/data/old_lake/make.py)."""

from __future__ import annotations

import fcntl
import os
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from frazil.catalog.embedded import running_catalog
from frazil.cli.main import cli
from frazil.client import FrazilCatalog
from tests.data.old_lake.make import ARCHIVE, ROOT


@contextmanager
def old_lake() -> Iterator[Path]:
    """The folder of the lake: catalog.db, warehouse, project, recovery, delta.

    Its metadata and manifests hold absolute paths, so it is always unpacked at the same place; a lock keeps a second
    run of the tests on this machine waiting.
    """
    with ROOT.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(ROOT, ignore_errors=True)
        with tarfile.open(ARCHIVE) as archive:
            # Python has the filter since 3.11.4, and warns without it since 3.12.
            if hasattr(tarfile, "data_filter"):
                archive.extractall(ROOT, filter="data")
            else:
                archive.extractall(ROOT)  # an archive of our own
        try:
            yield ROOT
        finally:
            shutil.rmtree(ROOT)


@dataclass(frozen=True)
class OldLake:
    """The old folder, served by this version."""

    folder: Path
    uri: str
    catalog: FrazilCatalog

    def rows(self, name: str, **scan: Any) -> list[dict[str, Any]]:
        return self.catalog.load_table(f"lake.{name}").scan(**scan).to_arrow().to_pylist()

    def restore_times(self) -> None:
        """Gives the landing files the modification times that the ledger has: an archive keeps them less exactly."""
        for row in self.rows("sales__ledger"):
            os.utime(self.folder / "project" / row["path"], ns=(int(row["tag"]), int(row["tag"])))

    def frazil(self, *words: str) -> str:
        done = CliRunner().invoke(cli, ["--set", f"catalog.uri={self.uri}", *words], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout


@contextmanager
def serving_old_lake() -> Iterator[OldLake]:
    """The lake behind a catalog of this version, which migrates its database first, as a user does."""
    with old_lake() as folder:
        migrate = ["catalog", "migrate", "--database", f"sqlite:///{folder / 'catalog.db'}"]
        assert CliRunner().invoke(cli, migrate, catch_exceptions=False).exit_code == 0
        with running_catalog(folder) as server:
            lake = OldLake(folder, server.uri, FrazilCatalog("lake", **server.properties))
            lake.restore_times()
            yield lake
