"""The server is killed (SIGKILL) at every step of a commit, with writers running: what was acknowledged is
there, once.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from frazil.catalog.faults import POINTS
from frazil.services import ports
from tests.conftest import Campaign
from tests.kit.catalog_databases import Client
from tests.kit.catalog_writers import Writer, check_account, running, wait_for
from tools.own_server import wait_until_ready

TABLES = ("a", "b")


class KillableServer:
    """`frazil serve` on a fixed port, started again after each death."""

    prefix: tuple[str, ...] = ()  # a program that runs it

    def __init__(self, folder: Path, database: str) -> None:
        self.folder, self.database, self.port = folder, database, ports.free_port()
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, fail_point: str = "") -> None:
        command = [*self.prefix, sys.executable, "-m", "frazil", "serve", "--port", str(self.port)]
        command += ["--warehouse", str(self.folder / "warehouse")]
        environment = {**os.environ, "FRAZIL_SERVER__DATABASE": self.database, "FRAZIL_FAIL_POINT": fail_point}
        log = self.folder / "server.log"
        with log.open("ab") as output:
            self.process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
        if not fail_point:  # else it may be dead before anyone looks
            wait_until_ready(self.port, self.process, "/readyz", log=log)

    @property
    def is_dead(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def stop(self) -> None:
        if self.process is not None and not self.is_dead:
            self.process.terminate()
            self.process.wait(120)

    def client(self) -> Client:
        return Client(f"http://127.0.0.1:{self.port}")

    def run(self, *arguments: str) -> str:
        environment = {**os.environ, "FRAZIL_SERVER__DATABASE": self.database}
        command = [sys.executable, "-m", "frazil", "catalog", *arguments, "--warehouse", str(self.folder / "warehouse")]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.timeout(3000)
def test_a_server_killed_at_any_step_of_a_commit_loses_and_repeats_nothing(
    database: str, tmp_path: Path, campaign: Campaign
) -> None:
    random, kills = campaign.random(), campaign.size(short=len(POINTS), full=150)  # on each of the two databases
    server = KillableServer(tmp_path, database)
    server.start()
    for table in TABLES:
        server.client().create(table)
    clients = [server.client() for _ in range(8)]
    writers = [Writer(TABLES[n % 2], lambda n=n: clients[n], keyed=n % 4 < 2) for n in range(8)]
    server.stop()
    try:
        with running(writers):
            for number in range(kills):
                server.start(f"{POINTS[number % len(POINTS)]}:{random.randint(1, 12)}")
                wait_for(lambda: server.is_dead, seconds=240)
                assert server.process is not None
                assert server.process.returncode == -signal.SIGKILL
            server.start()
            wait_for(lambda: all(writer.acknowledged for writer in writers), seconds=240)  # no writer is left out
        check_account(server.client(), writers)
        assert "orphan metadata files" in server.run("sweep", "--older-than", "0m", "--yes")
        assert server.run("sweep", "--older-than", "0m").startswith("0 orphan metadata files")
        check_account(server.client(), writers)
    finally:
        server.stop()


def test_a_server_that_is_asked_to_stop_finishes_the_commits_in_flight(database: str, tmp_path: Path) -> None:
    server = KillableServer(tmp_path, database)
    server.start()
    for table in TABLES:
        server.client().create(table)
    clients = [server.client() for _ in range(8)]
    writers = [Writer(TABLES[n % 2], lambda n=n: clients[n], keyed=False) for n in range(8)]
    try:
        with running(writers):
            wait_for(lambda: sum(len(writer.acknowledged) for writer in writers) > 50, seconds=240)
            server.stop()
            assert server.process is not None
            assert server.process.returncode == 0
            server.start()
        check_account(server.client(), writers)
    finally:
        server.stop()
    # A request that reached the server was answered. One sent into a connection as it closes may hear nothing, and was
    # not carried out.
    for table in TABLES:
        applied = {s["snapshot-id"] for s in _snapshots(tmp_path, table)}
        assert not applied & {i for writer in writers if writer.table == table for i in writer.unheard}


def _snapshots(folder: Path, table: str) -> list[dict[str, int]]:
    """The snapshots of the table's newest metadata file."""
    files = sorted(
        (folder / "warehouse" / "ns" / table / "metadata").glob("*.metadata.json"),
        key=lambda file: file.stat().st_mtime,
    )
    result: list[dict[str, int]] = max((json.loads(file.read_bytes())["snapshots"] for file in files), key=len)
    return result
