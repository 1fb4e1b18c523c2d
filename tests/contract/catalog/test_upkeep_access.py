"""Upkeep by the catalog with authentication: whose rights a worker has, and what the audit log says."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest
import requests
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssertTableUUID, SetLocationUpdate

from frazil.catalog import Target, newest_records
from frazil.catalog.store.database import Database
from frazil.client import Change, FrazilCatalog
from frazil.processes import wait_until
from frazil.write.commit.builder import guards, move_ref, next_snapshot
from tests.contract.upkeep_lake import Kept
from tests.kit.access import Guarded, operator
from tests.kit.serving import serving
from tests.kit.upkeep import make_worker, own_database, status_of


def small_files(catalog: FrazilCatalog, name: str) -> Kept:
    kept = Kept(catalog, name).create("day")
    for number in range(6):
        kept.append(number)
    return kept


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_worker_with_a_key_maintains_what_it_was_granted_and_names_the_rest(guarded: Guarded) -> None:
    root = FrazilCatalog("lake", uri=guarded.server.uri, token=guarded.token("root", roles=["admin"]))
    for namespace in ("open", "closed"):
        root.create_namespace(namespace)
    kept, other = small_files(root, "open.t"), small_files(root, "closed.t")
    token = guarded.token("keeper")
    guarded.grant("maintain", Target("namespace", "default", "open"), "keeper")
    make_worker(guarded.database, {"uri": guarded.server.uri, "token": token}).run(once=True)
    assert (len(kept.paths()), len(other.paths())) == (1, 6)
    assert "closed.t" in status_of(guarded.database, "closed.t")["error"]
    commits = [record for record in newest_records(guarded.database.read(), limit=100) if record.actor == "keeper"]
    assert {record.decision for record in commits if "open" in record.objects} == {"allowed"}


@pytest.mark.parametrize("named", ["data files", "manifests"])
@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_rows_of_another_table_are_not_copied_into_one_that_names_its_files(guarded: Guarded, named: str) -> None:
    """The worker may read both tables, who writes to the one may not read the other."""
    root = FrazilCatalog("lake", uri=guarded.server.uri, token=guarded.token("root", roles=["admin"]))
    for namespace in ("hidden", "own"):
        root.create_namespace(namespace)
    secret = small_files(root, "hidden.secret")
    token = guarded.token("ann")
    guarded.grant("create", Target("namespace", "default", "own"), "ann")
    mine = Kept(FrazilCatalog("lake", uri=guarded.server.uri, token=token), "own.t").create("day")
    if named == "data files":
        name_data_files(mine, secret)
    else:
        name_manifests(mine, secret)
    foreign = mine.paths()
    make_worker(guarded.database, worker_properties(guarded)).run(once=True)
    assert mine.paths() == foreign
    assert not [path for path in mine.on_disk() if path.endswith(".parquet")]
    assert len(secret.paths()) == 1  # it was at work


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_own_files_are_rewritten_next_to_foreign_ones_and_at_places_that_the_table_has_left(guarded: Guarded) -> None:
    root = FrazilCatalog("lake", uri=guarded.server.uri, token=guarded.token("root", roles=["admin"]))
    root.create_namespace("lake")
    other, kept = small_files(root, "lake.other"), small_files(root, "lake.kept")
    live = kept.live
    moved = SetLocationUpdate(location=f"{live.location()}-moved")
    root.commit_changes([Change(kept.identifier, (AssertTableUUID(uuid=live.metadata.table_uuid),), (moved,))])
    name_data_files(kept, other)
    foreign = set(other.paths())
    make_worker(guarded.database, worker_properties(guarded)).run(once=True)
    rewritten = set(kept.paths()) - foreign
    assert (len(rewritten), "-moved/" in rewritten.pop()) == (1, True)
    assert kept.ids() == sorted([*range(6), *range(6)])


def worker_properties(guarded: Guarded) -> dict[str, str]:
    return {"uri": guarded.server.uri, "token": guarded.token("keeper", roles=["admin"], scopes=["maintain"])}


def name_data_files(table: Kept, other: Kept) -> None:
    """Commits a snapshot with data files of another table."""
    with table.live.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        for file in other.files():
            append.append_data_file(file)


def name_manifests(table: Kept, other: Kept) -> None:
    """Commits a snapshot with the manifest list of another table."""
    live, head = table.live, other.live.current_snapshot()
    assert head is not None
    summary = Summary(Operation.APPEND, **{"total-data-files": "60", "added-data-files": "60"})
    snapshot = next_snapshot(live.metadata, None, snapshot_id=7, manifest_list=head.manifest_list, summary=summary)
    updates = (AddSnapshotUpdate(snapshot=snapshot), move_ref(live.metadata, "main", 7))
    table.catalog.commit_changes([Change(table.identifier, guards(live.metadata, "main", None), updates)])


def test_the_process_next_to_the_server_is_a_principal_of_its_own(tmp_path: Path) -> None:
    """It needs no key, its commits are in the audit log, its numbers in the server's metrics; it ends with the
    server.
    """
    url, pepper = f"sqlite:///{tmp_path}/catalog.db", tmp_path / "pepper"
    eager = {"POLL_SECONDS": "0.2", "TABLE_SECONDS": "0", "QUIET_SECONDS": "0", "SHARE": "1"}
    environment = {**os.environ, **{f"FRAZIL_UPKEEP__{key}": value for key, value in eager.items()}}
    environment |= {"FRAZIL_SERVER__PEPPER_FILE": str(pepper)}
    with operator(url, pepper) as owner, own_database(url) as opened:
        token = owner.token("root", roles=["admin"])
        flags = ("--database", url, "--authentication", "keys", "--upkeep", "--allowed-host", "lake.example.org")
        with serving(tmp_path, environment, {"default": str(tmp_path / "lake")}, *flags) as uri:
            catalog = FrazilCatalog("lake", uri=uri, token=token)
            catalog.create_namespace("lake")
            kept = small_files(catalog, "lake.t")
            assert wait_until(lambda: len(kept.paths()) == 1, 120), (tmp_path / "server.log").read_text()
            assert kept.ids() == list(range(6))
            records = [r for r in newest_records(opened.read(), limit=100) if r.actor == "frazil:upkeep"]
            assert {(r.operation, r.decision) for r in records} == {("commitTransaction", "allowed")}
            assert wait_until(lambda: 'frazil_upkeep_runs_total{outcome="done"}' in _metrics(uri, token), 60)
            child = _last_worker(opened)
            assert _statuses(child, token) == EXPECTED
            os.kill(child, signal.SIGKILL)
            kept.append(*range(6, 12))
            for number in range(12, 20):
                kept.append(number)
            assert wait_until(lambda: _last_worker(opened) != child, 120)  # the process that took its place
            assert kept.ids() == list(range(20))
            successor = _last_worker(opened)
        assert wait_until(lambda: not _runs(successor), 60)


# other users of the machine reach the port of the process: it asks for a key, has one name, and no console
EXPECTED = {"known": 200, "unknown": 401, "another name": 403, "console": 404}


def _statuses(pid: int, token: str) -> dict[str, int]:
    """What the server inside of the process answers."""
    [port] = {each.laddr.port for each in psutil.Process(pid).net_connections() if each.status == psutil.CONN_LISTEN}
    uri, key = f"http://127.0.0.1:{port}", {"Authorization": f"Bearer {token}"}
    asked: dict[str, tuple[str, dict[str, str]]] = {
        "known": ("/v1/config", key),
        "unknown": ("/v1/config", {}),
        "another name": ("/v1/config", {**key, "Host": "lake.example.org"}),
        "console": ("/", key),
    }
    return {
        who: requests.get(f"{uri}{path}", headers=head, timeout=60).status_code for who, (path, head) in asked.items()
    }


def _last_worker(opened: Database) -> int:
    """The process that has ended the last run."""
    return int(status_of(opened, "lake.t")["last_run"]["owner"].split(":")[1])


def _metrics(uri: str, token: str) -> str:
    return requests.get(f"{uri}/metrics", headers={"Authorization": f"Bearer {token}"}, timeout=60).text


def _runs(pid: int) -> bool:
    return subprocess.run(["ps", "-p", str(pid)], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_an_unknown_token_is_not_the_internal_one(guarded: Guarded) -> None:
    token = guarded.server.app.ctx.gate.admit_internal("upkeep", ["maintain"])
    guarded.admin.create()
    assert guarded.client(token).get("/namespaces/ns/tables/t").status == 200
    assert guarded.client(token).post("/namespaces", {"namespace": ["new"]}).status == 403
    assert guarded.client(token[:-1]).get("/namespaces/ns/tables/t").status == 401
