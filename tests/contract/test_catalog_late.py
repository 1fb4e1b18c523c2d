"""A write that takes too long: the client gets an unknown outcome, in a form that no client retries on its own."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import requests

from frazil.catalog.embedded import running_catalog
from frazil.config import Limits
from frazil.processes import wait_until


def test_a_write_that_is_late_is_in_doubt_and_may_still_happen(tmp_path: Path) -> None:
    with running_catalog(tmp_path, limits=Limits(request_seconds=0.5)) as server:
        blocker = sqlite3.connect(tmp_path / "catalog.db", isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        reply = requests.post(f"{server.uri}/v1/default/namespaces", json={"namespace": ["slow"]}, timeout=30)
        blocker.execute("ROLLBACK")
        blocker.close()
        # 502, 503 and 504 are sent again by Java clients without asking.
        assert (reply.status_code, "may still be carried out" in reply.json()["error"]["message"]) == (500, True)
        assert wait_until(lambda: requests.get(f"{server.uri}/v1/default/namespaces/slow", timeout=30).ok, 60)
