"""The catalog as a service of the stack: `frazil serve` on the stack's bucket, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import frazil
from frazil.config import StorageProfile
from frazil.local_stack import catalog_database, catalog_key_file, read_catalog_key, write_private
from frazil.processes import Launch
from frazil.services import ports
from frazil.services.object_store import ROLE_ARN, SESSION_SECONDS
from frazil.services.postgres import USER
from frazil.services.service import Report, Service, silent

STACK_PRINCIPAL = "local-stack"  # whose key the project's commands use
# What the caller uses for another S3 must not be mixed with the stack's endpoint and keys.
_OTHER_AWS = ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3", "AWS_DEFAULT_REGION")


class Catalog(Service):
    """The REST catalog. Its warehouse `default` is the stack's bucket; warehouses that the user configured are added to
    it.
    """

    name = "catalog"
    requires = ("object-store", "postgres")

    def version(self) -> str:
        return frazil.__version__

    def launch(self) -> Launch:
        server = self.settings.server
        argv = [
            sys.executable,
            "-m",
            "frazil",
            "serve",
            "--host",
            ports.HOST,
            "--port",
            str(self.port),
            "--workers",
            str(server.workers),
        ]
        argv += [part for name, place in self.warehouses.items() for part in ("--warehouse", f"{name}={place}")]
        argv += [part for prefix in server.allow_locations for part in ("--allow-location", prefix)]
        argv += [part for pattern in server.allow_properties for part in ("--allow-property", pattern)]
        argv += ["--allow-overlap"] * server.allow_overlap
        argv += [part for name in server.allowed_hosts for part in ("--allowed-host", name)]
        env = {**self.s3_place(), **self.role(), "PYTHONUNBUFFERED": "1"}
        # A command line can be read by every user of the machine, an environment cannot: so the database's password
        # goes there too.
        secrets = {**self.s3_keys(), "FRAZIL_SERVER__DATABASE": self.database}
        return Launch(argv, env=env, secrets=secrets, unset=_OTHER_AWS, cwd=Path.cwd())

    def ready(self) -> bool:
        """`/readyz` says that the store behind the catalog answers."""
        return ports.http_status(self.port, "/readyz") == 200

    def prepare(self, report: Report = silent) -> None:
        """The stack's own database gets the schema that this version needs; any other is its owner's to migrate."""
        super().prepare(report)
        if self._owns_database():
            environ = {**os.environ, "FRAZIL_SERVER__DATABASE": self.database}
            with self.log.open("ab") as log:
                command = [sys.executable, "-m", "frazil", "catalog", "migrate"]
                code = subprocess.run(
                    command, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False
                ).returncode
            if code != 0:
                raise self._died()
        if self.settings.server.authentication != "off" and self._makes_key():
            self._make_key()

    def _makes_key(self) -> bool:
        """Whether the project's commands need a key that the stack has not made yet. A database elsewhere has keys of
        its own.
        """
        own = self.settings.source_of("server.database") == "default" or self._owns_database()
        return own and read_catalog_key(self.folder.parent) is None

    def _make_key(self) -> None:
        environ = {**os.environ, "FRAZIL_SERVER__DATABASE": self.database}
        command = [sys.executable, "-m", "frazil", "token", "create", STACK_PRINCIPAL, "--role", "admin"]
        with self.log.open("ab") as log:
            done = subprocess.run(
                command, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, check=False
            )
        if done.returncode != 0:
            raise self._died()
        write_private(catalog_key_file(self.folder.parent), done.stdout.decode())

    def purge_paths(self) -> list[Path]:
        """Only what the stack created: the database of `frazil serve` without a stack is in the same folder."""
        return [path for path in (self.data, self.log, self.state_file, self.folder / "lock") if path.exists()]

    def _owns_database(self) -> bool:
        if self.settings.source_of("server.database") == "default":
            return (self.data / "catalog.db").exists()  # the server itself makes a new one
        return self._is_in_stack(self.settings.server.database.get_secret_value())

    def _is_in_stack(self, url: str) -> bool:
        parts = urlsplit(url)
        return (parts.hostname, parts.port) == (ports.HOST, self.settings.stack.ports.postgres)

    @property
    def database(self) -> str:
        """Where the server keeps its pointers."""
        if self.settings.source_of("server.database") != "default":
            url = self.settings.server.database.get_secret_value()
            return self._with_own_password(url) if self._is_in_stack(url) else url
        return f"sqlite:///{catalog_database(self.folder.parent)}"

    def _with_own_password(self, url: str) -> str:
        """The URL of the stack's PostgreSQL with the password that the stack has set, whatever password it was written
        with.
        """
        parts, password = urlsplit(url), self.settings.stack.postgres_password.get_secret_value()
        if parts.username not in (None, USER) or not password:
            return url
        return urlunsplit(parts._replace(netloc=f"{USER}:{quote(password, safe='')}@{parts.hostname}:{parts.port}"))

    @property
    def warehouses(self) -> dict[str, str]:
        """Where its tables live: the stack's bucket, and what the user set."""
        own = self.settings.server.warehouses
        chosen = {
            name: place
            for name, place in own.items()
            if self.settings.source_of(f"server.warehouses.{name}") != "default"
        }
        return {"default": f"s3://{self.settings.stack.bucket}/", **chosen}

    def role(self) -> dict[str, str]:
        """The environment that has it vend credentials for the stack's bucket, if the user has not set how."""
        profile = self.storage.get("default")
        if profile is None or "default" in self.settings.server.storage:
            return {}
        prefix = "FRAZIL_SERVER__STORAGE__DEFAULT__"
        return {f"{prefix}ROLE_ARN": ROLE_ARN, f"{prefix}SESSION_SECONDS": str(SESSION_SECONDS)}

    @property
    def storage(self) -> dict[str, StorageProfile]:
        """How clients get credentials, by warehouse: for the stack's bucket, and as the user set it."""
        own_bucket = self.warehouses["default"] == f"s3://{self.settings.stack.bucket}/"
        own = {"default": StorageProfile(role_arn=ROLE_ARN, session_seconds=SESSION_SECONDS)} if own_bucket else {}
        return {**own, **self.settings.server.storage}

    def s3_place(self) -> dict[str, str]:
        """The environment that leads to the stack's object store."""
        endpoint = f"http://{ports.HOST}:{self.settings.stack.ports.object_store}"
        return {"AWS_ENDPOINT_URL": endpoint, "AWS_REGION": self.settings.s3.region}

    def s3_keys(self) -> dict[str, str]:
        """The environment that opens it."""
        stack = self.settings.stack
        return {
            "AWS_ACCESS_KEY_ID": stack.access_key_id,
            "AWS_SECRET_ACCESS_KEY": stack.secret_access_key.get_secret_value(),
        }
