"""Everything that deletes files, against a catalog of random tables that overlap, are registered twice, borrow each
other's files, have branches and name each other's files in hostile ways: no file that any table leads to is ever
missing.

Two warehouses, one inside the other. What a table leads to is worked out by PyIceberg's own readers, not by ours.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import read_manifest_list
from pyiceberg.table.statistics import StatisticsFile
from pyiceberg.table.update import SetLocationUpdate, SetStatisticsUpdate

from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.catalog.names import Name
from frazil.catalog.recover import find_candidates, roll_back
from frazil.catalog.store import relations
from frazil.catalog.store.relations import Pointer
from frazil.catalog.sweep import delete_orphans, find_orphans
from frazil.client import FrazilCatalog
from frazil.client.changes import Change
from frazil.errors import FrazilError, UpkeepError
from frazil.upkeep.orphans import Locations, plan_orphans, remove_orphans
from frazil.upkeep.policy import DAY_MS
from tests.conftest import Campaign
from tests.contract.upkeep_lake import Kept

NAMES = [f"t{number}" for number in range(8)]
WAREHOUSES = ("default", "cold")
DELETING = ("purge", "expire", "orphans", "sweep", "commit")


def path_of(location: str) -> Path:
    return Path("/" + location.removeprefix("file:").lstrip("/"))


@dataclass
class Oracle:
    """What tables lead to, by PyIceberg's readers. Files never change: what was read once is kept."""

    io: PyArrowFileIO = field(default_factory=PyArrowFileIO)
    lists: dict[str, list[str]] = field(default_factory=dict)
    manifests: dict[str, list[str]] = field(default_factory=dict)

    def reach(self, location: str) -> Iterator[str]:
        """Every file that a metadata file leads to, with itself. Those behind a missing one are not known."""
        yield location
        if not path_of(location).exists():
            return
        metadata = json.loads(path_of(location).read_bytes())
        yield from (entry["metadata-file"] for entry in metadata.get("metadata-log", ()))
        yield from (file["statistics-path"] for file in metadata.get("statistics", ()))
        for snapshot in metadata.get("snapshots", ()):
            yield from self._snapshot(snapshot["manifest-list"])

    def _snapshot(self, path: str) -> Iterator[str]:
        yield path
        if path not in self.lists and path_of(path).exists():
            snapshot = list(read_manifest_list(self.io.new_input(path)))
            self.lists[path] = [item.manifest_path for item in snapshot]
            for item in snapshot:
                if path_of(item.manifest_path).exists():
                    live = item.fetch_manifest_entry(self.io, discard_deleted=True)
                    self.manifests[item.manifest_path] = [entry.data_file.file_path for entry in live]
        for manifest in self.lists.get(path, ()):
            yield manifest
            yield from self.manifests.get(manifest, ())

    def missing(self, location: str) -> set[str]:
        return {path for path in self.reach(location) if not path_of(path).exists()}


@dataclass
class World:
    """A catalog, and everything that may happen to it."""

    server: EmbeddedCatalog
    chance: random.Random
    clients: dict[str, FrazilCatalog]
    oracle: Oracle = field(default_factory=Oracle)
    once_current: dict[str, None] = field(default_factory=dict)
    story: list[str] = field(default_factory=list)
    deleted: Counter[str] = field(default_factory=Counter)
    number: int = 0

    # --- the catalog as it is ----------------------------------------------------------------------------------------

    def pointers(self) -> list[Pointer]:
        result = relations.all_pointers(self.server.app.ctx.database.read())
        return sorted(
            result, key=lambda column: (column.warehouse, column.name)
        )  # UUIDs are not repeated with the seed

    def pick(self) -> Kept | None:
        """Any table."""
        pointers = self.pointers()
        if not pointers:
            return None
        chosen = self.chance.choice(pointers)
        return Kept(self.clients[chosen.warehouse], f"lake.{chosen.name}")

    def files(self) -> set[Path]:
        return {
            path for path in self.server.folder.rglob("*") if path.is_file() and not path.name.startswith("catalog.db")
        }

    def check(self, what: str) -> None:
        for pointer in self.pointers():
            self.once_current[pointer.metadata_location] = None
            missing = self.oracle.missing(pointer.metadata_location)
            story = "\n".join(self.story[-25:])
            assert not missing, (
                f"after {what}: {pointer.warehouse}:{pointer.label} leads to {sorted(missing)[:3]}\n{story}"
            )

    # --- one step ----------------------------------------------------------------------------------------------------

    def step(self) -> None:
        quiet = [
            self.create,
            self.create,
            self.append,
            self.append,
            self.append,
            self.branch,
            self.go_back,
            self.register_again,
        ]
        quiet += [
            self.borrow,
            self.move,
            self.name_a_strangers_file,
            self.drop,
            self.leave_strays,
            self.leave_strays,
            self.compact,
            self.set_back,
        ]
        loud = [self.purge, self.expire, self.expire, self.orphans, self.sweep, self.sweep]
        action: Callable[[], object] = self.chance.choice([*quiet, *loud])
        before = self.files()
        try:
            said = action()
        except (FrazilError, NoSuchTableError, ValueError) as exc:
            said = f"{type(exc).__name__}: {str(exc)[:150]}"
        except Exception as exc:  # what the catalog refuses comes out of PyIceberg under many names
            if not type(exc).__module__.startswith("pyiceberg"):
                raise
            said = f"refused: {str(exc)[:150]}"
        self.server.app.ctx.background.submit(int).result(timeout=120)
        self.story.append(f"{action.__name__}: {said}")
        gone = before - self.files()
        kind = action.__name__ if action.__name__ in DELETING else "commit"
        self.deleted[kind] += len(gone)
        if kind == "sweep":
            assert not gone & {path_of(item) for item in self.once_current}, self.story[-10:]
        self.check(action.__name__)

    # --- what clients do ---------------------------------------------------------------------------------------------

    def place(self) -> str | None:
        """A location: mostly none, else somewhere in, on or around another table's folder, in one of its spellings."""
        if self.chance.random() < 0.6:
            return None
        folders = [f"{self.server.warehouse}/lake", self.server.warehouse]
        for pointer in self.pointers():
            folders += [
                pointer.location,
                f"{pointer.location}/data",
                f"{pointer.location}/metadata",
                f"{pointer.location}/x{self.number}",
            ]
        path = str(path_of(self.chance.choice(folders)))
        return self.chance.choice([f"file://{path}", f"file:{path}", path])

    def create(self) -> str:
        self.number += 1
        warehouse, name = self.chance.choice(WAREHOUSES), self.chance.choice(NAMES)
        properties = {"write.metadata.previous-versions-max": str(self.chance.randint(1, 4))}
        if self.chance.random() < 0.5:
            properties["write.metadata.delete-after-commit.enabled"] = "true"
        for key in ("write.data.path", "write.metadata.path"):
            if self.chance.random() < 0.2 and (place := self.place()):
                properties[key] = place
        kept = Kept(self.clients[warehouse], f"lake.{name}")
        location = self.place()
        kept.create("day", properties=properties, location=location)
        kept.append(1, 2)
        return f"{warehouse}:{name} at {location} {properties}"

    def append(self) -> str:
        if (kept := self.pick()) is None:
            return "-"
        branches = [name for name, ref in kept.live.refs().items() if ref.snapshot_ref_type.value == "branch"]
        kept.append(
            self.chance.randrange(99), day=self.chance.choice((1, 2)), branch=self.chance.choice(branches or ["main"])
        )
        return kept.name

    def branch(self) -> str:
        if (kept := self.pick()) is None or kept.live.current_snapshot() is None:
            return "-"
        snapshot, name = self.chance.choice(kept.live.snapshots()).snapshot_id, f"b{self.chance.randrange(3)}"
        changes = kept.live.manage_snapshots()
        (changes.create_branch if self.chance.random() < 0.7 else changes.create_tag)(snapshot, name).commit()
        return f"{kept.name}: {name} at {snapshot}"

    def go_back(self) -> str:
        if (kept := self.pick()) is None or kept.live.current_snapshot() is None:
            return "-"
        kept.live.manage_snapshots().set_current_snapshot(
            self.chance.choice(kept.live.snapshots()).snapshot_id
        ).commit()
        return kept.name

    def register_again(self) -> str:
        """A second table for any version of which everything is still there."""
        version = self.chance.choice(list(self.once_current)) if self.once_current else None
        if version is None or self.oracle.missing(version):
            return "-"
        warehouse, name = self.chance.choice(WAREHOUSES), self.chance.choice(NAMES)
        metadata = json.loads(path_of(version).read_bytes())
        swap = relations.Swap(
            Name(("lake",), name), "table", None, version, metadata["table-uuid"], metadata["location"]
        )
        # As older servers let clients do it: today's refuses most of these.
        done = self.server.app.ctx.database.write(lambda sql: relations.swap(sql, warehouse, swap))
        return f"{warehouse}:{name} at {version}: {done}"

    def set_back(self) -> str:
        """The pointer of a table goes back to an older version, by repair or by a registration over it."""
        pointer = self.chance.choice(self.pointers() or [None])  # type: ignore[list-item]
        if pointer is None:
            return "-"
        ctx, name = self.server.app.ctx, Name(("lake",), pointer.name)
        warehouse = ctx.warehouses.named(pointer.warehouse)
        relation, candidates = find_candidates(ctx, warehouse, name)
        whole = [
            candidate
            for candidate in candidates
            if candidate.readable and candidate.was_current and not self.oracle.missing(candidate.location)
        ]
        if not whole:
            return "-"
        target = self.chance.choice(whole)
        if self.chance.random() < 0.5:
            roll_back(ctx, warehouse, name, relation, target)
            return f"recovered {pointer.label} to {target.location}"
        client, body = (
            self.clients[pointer.warehouse],
            {"name": pointer.name, "metadata-location": target.location, "overwrite": True},
        )
        answer = client._session.post(client.url("namespaces/lake/register"), json=body)
        return f"registered {pointer.label} over: {target.location}: {answer.status_code}"

    def borrow(self) -> str:
        """A table adds files of another one."""
        kept, other = self.pick(), self.pick()
        if kept is None or other is None or not (paths := other.paths()):
            return "-"
        chosen = self.chance.sample(paths, self.chance.randint(1, len(paths)))
        kept.live.add_files(chosen)
        return f"{kept.name} has {len(chosen)} files of {other.name}"

    def move(self) -> str:
        """A location, or where data and metadata go, changes; also onto others."""
        if (kept := self.pick()) is None or (place := self.place()) is None:
            return "-"
        key = self.chance.choice(["write.data.path", "write.metadata.path", "location"])
        if key == "location":
            kept.catalog.commit_changes([Change(kept.identifier, (), (SetLocationUpdate(location=place),))])
            return f"{kept.name}: moved to {place}"
        with kept.live.transaction() as change:
            if key in kept.live.properties and self.chance.random() < 0.5:
                change.remove_properties(key)
            else:
                change.set_properties({key: place})
        return f"{kept.name}: {key} {place}"

    def name_a_strangers_file(self) -> str:
        """Statistics that name a file of another table."""
        kept, other = self.pick(), self.pick()
        if kept is None or other is None or (snapshot := kept.live.current_snapshot()) is None:
            return "-"
        path = self.chance.choice(list(self.oracle.reach(other.live.metadata_location)))
        fields: dict[str, Any] = {"snapshot-id": snapshot.snapshot_id, "statistics-path": path, "file-size-in-bytes": 1}
        file = StatisticsFile.model_validate({**fields, "file-footer-size-in-bytes": 1, "blob-metadata": []})
        kept.catalog.commit_changes([Change(kept.identifier, (), (SetStatisticsUpdate(statistics=file),))])
        return f"{kept.name} names {path}"

    def drop(self) -> str:
        if (kept := self.pick()) is None:
            return "-"
        kept.catalog.drop_table(kept.name)
        return kept.name

    def leave_strays(self) -> str:
        """What killed writers and commits that were cut short leave."""
        if (kept := self.pick()) is None:
            return "-"
        self.number += 1
        folder = path_of(kept.live.location())
        current = kept.live.metadata_location
        number = int(path_of(current).name[:5]) + self.chance.choice((0, 1))
        for path in (
            folder / "data" / f"stray{self.number}.parquet",
            path_of(current).parent / f"{number:05d}-stray{self.number}.metadata.json",
        ):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(path_of(current).read_bytes() if self.chance.random() < 0.5 else b"{cut sho")
        return kept.name

    # --- what deletes ------------------------------------------------------------------------------------------------

    def compact(self) -> str:
        if (kept := self.pick()) is None:
            return "-"
        kept.compact()
        return kept.name

    def purge(self) -> str:
        if (kept := self.pick()) is None:
            return "-"
        kept.catalog.purge_table(kept.name)
        return kept.name

    def expire(self) -> str:
        if (kept := self.pick()) is None:
            return "-"
        return f"{kept.name}: {kept.expire(now_ms=later(), min_snapshots=self.chance.randint(1, 3))}"

    def orphans(self) -> str:
        if (kept := self.pick()) is None:
            return "-"
        try:
            plan = plan_orphans(
                lambda: kept.live, now_ms=later(), older_than_ms=3 * DAY_MS, locations=Locations(kept.catalog)
            )
        except UpkeepError as exc:
            return exc.message
        return f"{kept.name}: {remove_orphans(kept.live, plan)}"

    def sweep(self) -> str:
        ctx = self.server.app.ctx
        return str(delete_orphans(ctx, find_orphans(ctx, older_than_ms=0)))


def later() -> int:
    return int(time.time() * 1000) + 10 * DAY_MS


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedCatalog]:
    warehouses = {"default": str(tmp_path / "warehouse"), "cold": str(tmp_path / "warehouse" / "cold")}
    with running_catalog(tmp_path, warehouses=warehouses, allow_overlap=True) as running:
        yield running


def test_no_deletion_takes_a_file_that_any_table_leads_to(server: EmbeddedCatalog, campaign: Campaign) -> None:
    clients = {name: FrazilCatalog(name, **server.properties, warehouse=name) for name in WAREHOUSES}
    for client in clients.values():
        client.create_namespace("lake")
    world = World(server, campaign.random(), clients)
    for _ in range(campaign.size(short=150, full=3_000)):
        world.step()
    print(dict(world.deleted))
    # It would be easy to delete nothing. Some kinds are rare: a short walk may miss them.
    assert sum(world.deleted.values()) > 0
    assert not campaign.full or all(world.deleted[kind] for kind in DELETING), world.deleted
