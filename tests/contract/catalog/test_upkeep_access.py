"""Upkeep by the catalog with authentication: whose rights a worker has, and what the audit log says."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
import requests

from frazil.catalog import Target, newest_records
from frazil.catalog.store.database import Database
from frazil.client import FrazilCatalog
from frazil.processes import wait_until
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
        flags = ("--database", url, "--authentication", "keys", "--upkeep")
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
            os.kill(child, signal.SIGKILL)
            kept.append(*range(6, 12))
            for number in range(12, 20):
                kept.append(number)
            assert wait_until(lambda: _last_worker(opened) != child, 120)  # the process that took its place
            assert kept.ids() == list(range(20))
            successor = _last_worker(opened)
        assert wait_until(lambda: not _runs(successor), 60)


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
