"""The catalog's `/metrics`: database connections, purges, the process and the build, on each database."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest
import requests

import frazil
from frazil.catalog.embedded import EmbeddedCatalog
from frazil.catalog.store.database import Sql
from frazil.catalog.telemetry import METRICS, Telemetry
from tests.kit.catalog_databases import Client

PAGE = Path(__file__).resolve().parents[2] / "docs/catalog.md"


def scrape(server: EmbeddedCatalog) -> dict[str, float]:
    text = requests.get(f"{server.uri}/metrics", timeout=30).text
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    return {series: float(value) for series, value in lines}


def test_the_build_and_the_process_are_reported(server: EmbeddedCatalog) -> None:
    result, process = scrape(server), psutil.Process()
    database = server.app.ctx.database.dialect
    facts = f'version="{frazil.__version__}",python="{platform.python_version()}",database="{database}"'
    assert result[f"frazil_build_info{{{facts}}}"] == 1
    label = f'{{pid="{os.getpid()}"}}'
    assert result[f"process_resident_memory_bytes{label}"] == pytest.approx(process.memory_info().rss, rel=0.5)
    assert 0 < result[f"process_cpu_seconds_total{label}"] <= sum(process.cpu_times()[:2]) + 1
    assert result[f"process_open_fds{label}"] == pytest.approx(process.num_fds(), abs=20)
    assert result[f"process_start_time_seconds{label}"] >= process.create_time()


def test_connections_in_use_and_waits_are_counted(server: EmbeddedCatalog) -> None:
    database = server.app.ctx.database
    if database.dialect == "sqlite":
        assert scrape(server)['frazil_database_connections{state="open"}'] >= 1
        return
    before = scrape(server)
    assert (before['frazil_database_connections{state="in_use"}'], before["frazil_database_waits_total"]) == (0, 0)
    inside, leave = threading.Event(), threading.Event()

    def hold(_: Sql) -> None:
        inside.set()
        leave.wait(60)

    holder = threading.Thread(target=database.write, args=(hold,))
    holder.start()
    assert inside.wait(60)
    held = scrape(server)
    leave.set()
    holder.join()
    after = scrape(server)
    assert held['frazil_database_connections{state="in_use"}'] == 1
    assert after['frazil_database_connections{state="in_use"}'] == 0
    assert after['frazil_database_connections{state="idle"}'] >= 1


def test_purges_are_counted_by_outcome(server: EmbeddedCatalog, client: Client) -> None:
    client.create("good")
    assert client.delete("/namespaces/ns/tables/good", purgeRequested="true").status == 204
    result = scrape(server)
    assert (result["frazil_purges_queued"], result['frazil_purges_total{outcome="done"}']) == (0, 1)
    assert result["frazil_purged_files_total"] >= 1
    client.create("bad")
    location = client.load("bad")["metadata-location"]
    server.app.ctx.files.cache.drop(location)
    Path(location.removeprefix("file://")).unlink()
    assert client.delete("/namespaces/ns/tables/bad", purgeRequested="true").status == 204
    assert scrape(server)['frazil_purges_total{outcome="failed"}'] == 1


def test_a_worker_that_was_killed_leaves_its_counters_and_no_gauge(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    left = {"frazil_cache_bytes": 7, "frazil_purged_files_total": 3, 'process_open_fds{pid="1"}': 9}
    (tmp_path / f"{int(ended.stdout)}.json").write_text(json.dumps(left))
    telemetry = Telemetry(tmp_path)
    try:
        text = telemetry.render()
    finally:
        telemetry.close()
    assert "frazil_purged_files_total 3" in text
    assert "frazil_cache_bytes" not in text
    assert "process_open_fds" not in text


def test_every_metric_is_documented() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in METRICS if f"`{name}`" not in text] == []
