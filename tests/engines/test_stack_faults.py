"""What may go wrong while a stack starts and stops, each provoked for real."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path

import psycopg
import pytest

from frazil import processes
from tests.kit.stack import Project, make_project


@pytest.mark.parametrize("service", ["object-store", "catalog"])
def test_up_works_after_its_parent_was_killed_half_way_and_down_leaves_nothing(project: Project, service: str) -> None:
    state = project.folder / ".frazil" / service / "state.json"
    with subprocess.Popen(project.command("up"), cwd=project.folder, stdout=subprocess.DEVNULL) as parent:
        assert processes.wait_until(lambda: state.exists() and '"pid"' in state.read_text(), 240)
        parent.send_signal(signal.SIGKILL)
    survivors = project.processes()
    assert survivors
    project.frazil("up")
    assert {name: row["state"] for name, row in project.status().items()} == {
        "object-store": "ready",
        "catalog": "ready",
    }
    assert set(survivors) <= set(project.processes())  # taken over, not started again
    project.frazil("down")
    assert project.processes() == []


def test_two_ups_at_once_start_each_service_once(project: Project) -> None:
    both = [
        subprocess.Popen(project.command("up"), cwd=project.folder, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    said = [item.communicate(timeout=240)[0] for item in both]
    assert [process.returncode for process in both] == [0, 0]
    rows = project.status()
    assert sorted(project.processes()) == sorted(row["pid"] for row in rows.values())
    assert sum(text.count("was ready") for text in said) == 2  # each was started by one of them, and found by the other


def test_a_taken_port_is_an_error_that_names_service_port_and_owner(project: Project) -> None:
    port = project.settings.stack.ports.object_store
    with socket.create_server(("127.0.0.1", port)):
        done = project.frazil("up", check=False)
    assert done.returncode == 1
    assert f"object-store: port {port} is in use by" in done.stderr
    assert f"(pid {os.getpid()})" in done.stderr
    assert "frazil --set stack.ports.object_store=" in done.stderr
    assert project.processes() == []


def test_a_catalog_that_cannot_open_its_database_shows_the_end_of_its_log(project: Project) -> None:
    with (project.folder / "frazil.toml").open("a") as file:
        file.write(f'[server]\ndatabase = "sqlite:///{project.folder}/frazil.toml"\n')
    done = project.frazil("up", check=False)
    assert done.returncode == 1
    assert "catalog: the server ended while starting" in done.stderr
    assert ".frazil/catalog/server.log" in done.stderr
    assert "file is not a database" in done.stderr
    assert "frazil logs catalog" in done.stderr
    assert project.status()["object-store"]["state"] == "ready"  # what works stays up for the next try


def test_the_catalog_keeps_its_tables_in_the_stacks_postgres_on_request(project: Project) -> None:
    port = project.settings.stack.ports.postgres
    with (project.folder / "frazil.toml").open("a") as file:
        file.write(f'[server]\ndatabase = "postgresql://frazil@127.0.0.1:{port}/frazil"\n')
    project.frazil("up", "--with", "postgres")
    password = project.settings.stack.postgres_password.get_secret_value()
    with psycopg.connect(project.status()["postgres"]["endpoint"], password=password) as connection:
        assert connection.execute("SELECT count(*) > 0 FROM frazil_schema").fetchall() == [(True,)]
    command_lines = [Path(f"/proc/{row['pid']}/cmdline").read_text() for row in project.status().values()]
    assert not any(password in line for line in command_lines)


def test_a_deadline_too_short_is_reported_as_not_ready(project: Project) -> None:
    done = project.frazil("--set", "stack.ready_seconds=0.01", "up", check=False)
    assert "object-store: not ready after 0.01 s" in done.stderr
    assert "stack.ready_seconds=300" in done.stderr
    assert project.processes() == []


def test_purge_shows_what_would_go_and_deletes_it_only_with_yes(project: Project) -> None:
    project.frazil("up", "--with", "postgres")
    preview = project.frazil("down", "--purge", check=False)
    assert preview.returncode == 1
    assert "would stop object-store, postgres, catalog and delete" in preview.stdout
    assert len(project.processes()) == 3
    shown = [Path(line.split("  ")[1]) for line in preview.stdout.splitlines() if line.startswith("  /")]
    assert len(shown) >= 3
    assert all(path.exists() for path in shown)
    project.frazil("down", "--purge", "--yes")
    assert [path for path in shown if path.exists()] == []
    assert project.processes() == []


def test_stacks_on_ports_of_their_own_choice_run_side_by_side(tmp_path: Path) -> None:
    stacks = [make_project(tmp_path / name) for name in ("one", "two")]
    for stack in stacks:
        (stack.folder / "frazil.toml").write_text("[stack.ports]\ncatalog = 0\nobject_store = 0\n")
    try:
        starts = [
            subprocess.Popen(stack.command("up"), cwd=stack.folder, stdout=subprocess.DEVNULL) for stack in stacks
        ]
        assert [start.wait(240) for start in starts] == [0, 0]
        endpoints = [row["endpoint"] for stack in stacks for row in stack.status().values() if row["state"] == "ready"]
        assert len(set(endpoints)) == 4
        stacks[0].frazil("down")
        assert {row["state"] for row in stacks[1].status().values()} == {"ready"}
    finally:
        for stack in stacks:
            stack.frazil("down")


def test_logs_follow_what_a_server_writes(project: Project) -> None:
    project.frazil("up")
    log = project.folder / ".frazil/catalog/server.log"
    follow = project.command("logs", "catalog", "-n", "1", "-f")
    with subprocess.Popen(follow, cwd=project.folder, stdout=subprocess.PIPE, text=True) as tail:
        try:
            assert tail.stdout is not None
            tail.stdout.readline()
            with log.open("a") as file:
                file.write("a new line\n")
            assert "a new line\n" in iter(tail.stdout.readline, "")
        finally:
            tail.kill()


def test_logs_of_a_service_that_never_ran_say_how_to_start_it(project: Project) -> None:
    done = project.frazil("logs", "kafka", check=False)
    assert done.returncode == 1
    assert "kafka has no log yet" in done.stderr
    assert "frazil up --with kafka" in done.stderr
