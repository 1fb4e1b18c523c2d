"""The manifests of a snapshot, read for one request: a few requests at the same time, and as far as there is time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from frazil.catalog import Context, Request, as_bad_request
from frazil.console.answers import refuse_other_sites
from frazil.console.rows import AT_ONCE, check_installed, whole_number
from frazil.errors import TooBusy

if TYPE_CHECKING:
    from frazil.catalog import ServedScan
    from frazil.scan.manifests import Manifest
    from frazil.scan.planning import Planner, Unit

MOST_SECONDS = 3.0
WAIT_SECONDS = 5.0  # for a place: who goes through the tabs leaves readers behind
MOST_MANIFESTS = 2_000


@contextmanager
def reading_slot(request: Request) -> Iterator[None]:
    """One of the few places for requests that read files; refused if all stay taken for some seconds."""
    refuse_other_sites(request)
    check_installed()
    if not AT_ONCE.acquire(timeout=WAIT_SECONDS):
        raise TooBusy("Too many previews are running", hint="try again")
    try:
        yield
    finally:
        AT_ONCE.release()


@dataclass
class Walk:
    """The manifests of a snapshot one after the other; `read` of `total` were within the limits."""

    scan: ServedScan
    planner: Planner
    total: int = 0
    read: int = 0

    @classmethod
    def of(cls, ctx: Context, request: Request) -> Walk:
        """A walk over the snapshot that the request names, or the current one."""
        from frazil.catalog import open_served

        snapshot_id = whole_number(request, "snapshot")
        scan = as_bad_request(lambda: open_served(ctx, request, snapshot_id=snapshot_id, limit=1))
        return cls(scan, as_bad_request(scan.planner))

    @property
    def snapshot_id(self) -> int | None:
        return self.scan.request.snapshot_id

    def units(self, content: int) -> list[Unit]:
        """The manifests of data files or delete files, as the manifest list has them."""
        return [] if self.snapshot_id is None else list(as_bad_request(lambda: self.planner.units(content)))

    def listed(self) -> list[Unit]:
        """The manifests of data files, then those of delete files."""
        from frazil.scan.planning import DATA, DELETES

        return [unit for content in (DATA, DELETES) for unit in self.units(content)]

    def manifests(self) -> Iterator[tuple[Unit, Manifest]]:
        """The same with their files, within the limits."""
        units, deadline = self.listed(), time.monotonic() + MOST_SECONDS
        self.total = len(units)
        for unit in units[:MOST_MANIFESTS]:
            self.scan.allowance.check()
            if time.monotonic() > deadline:
                return
            yield unit, self.manifest(unit)
            self.read += 1

    def manifest(self, unit: Unit) -> Manifest:
        """The files of a manifest."""
        manifest: Manifest = as_bad_request(lambda: self.scan.source.cache.manifest(unit.fact("path")))
        return manifest

    @property
    def progress(self) -> dict[str, Any]:
        """How much was read, for the answer."""
        return {"snapshot_id": _text(self.snapshot_id), "manifests": self.total, "manifests_read": self.read}


def _text(snapshot_id: int | None) -> str | None:
    return None if snapshot_id is None else str(snapshot_id)
