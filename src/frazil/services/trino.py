"""Trino on loopback: one node, with the stack's catalog as `iceberg`, and `tpch` and `memory` to play with."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from frazil.artifacts import VECTOR_MODULE, Java, JavaNeed, OnProgress, Progress, describe, find_java, unpack_server
from frazil.engine_config import S3, TOKEN_VARIABLE, Connection, trino
from frazil.local_stack import read_catalog_key
from frazil.processes import Launch
from frazil.services import ports
from frazil.services.service import Report, Service, silent

VERSION = "476"
ARCHIVE = f"io.trino:trino-server:{VERSION}@tar.gz"
ARCHIVE_BYTES = 821_045_832
# of some sixty plugins; each one left out makes the start faster
KEEP = ("lib/", "plugin/iceberg/", "plugin/tpch/", "plugin/memory/")
ACCESS_KEY, SECRET_KEY = "FRAZIL_TRINO_S3_ACCESS_KEY_ID", "FRAZIL_TRINO_S3_SECRET_ACCESS_KEY"  # names, not values


class Trino(Service):
    """The query engine."""

    name = "trino"
    requires = ("object-store", "catalog")
    stop_seconds = 30.0
    min_free_bytes = 256 * 1024 * 1024

    def version(self) -> str:
        return VERSION

    def prepare(self, report: Report = silent) -> None:
        super().prepare(report)

        def on_progress(progress: Progress) -> None:
            report(describe(progress))

        find_java(JavaNeed.TRINO, on_progress=on_progress)
        self._server(on_progress)

    def launch(self) -> Launch:
        java, server, etc = find_java(JavaNeed.TRINO), self._server(), self.folder / "etc"
        node = {"node.environment": "frazil", "node.id": "frazil-1", "node.data-dir": self.data}
        # Trino takes the machine's own address for itself, unless this is set.
        node |= {"node.internal-address": ports.HOST, "node.bind-ip": ports.HOST}
        argv = [str(java.executable), *jvm_options(java), *(f"-D{key}={value}" for key, value in node.items())]
        argv += [f"-Dconfig={etc / 'config.properties'}", f"-Dlog.levels-file={etc / 'log.properties'}"]
        argv += ["-cp", f"{server / 'lib'}/*", "io.trino.server.TrinoServer"]
        files = {
            etc / "config.properties": _properties(
                config_properties(self.port, server=server, catalogs=etc / "catalog")
            ),
            etc / "log.properties": "io.trino=INFO\n",
            etc / "catalog" / "iceberg.properties": self._iceberg(),
            etc / "catalog" / "tpch.properties": "connector.name=tpch\n",
            etc / "catalog" / "memory.properties": "connector.name=memory\n",
        }
        stack = self.settings.stack
        keys = {ACCESS_KEY: stack.access_key_id, SECRET_KEY: stack.secret_access_key.get_secret_value()}
        if token := self._token():
            keys |= {TOKEN_VARIABLE: token}
        return Launch(argv, secrets=keys, files=files, cwd=self.folder)

    def _token(self) -> str | None:
        """What the catalog asks for: the user's token, or the key that the stack made for itself."""
        if self.settings.server.authentication == "off":
            return None
        own = self.settings.catalog.token
        return own.get_secret_value() if own is not None else read_catalog_key(self.folder.parent)

    def ready(self) -> bool:
        """The node says that it has started, and a query on a table gives its row."""
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError, KeyError):
            info = _request(self.port, "GET", "/v1/info")
            # SELECT 1 needs no worker: for seconds it gives its row while every table still gives "No nodes available".
            return info["starting"] is False and run_query(self.port, "SELECT count(*) FROM tpch.tiny.region") == [[5]]
        return False

    def _server(self, on_progress: OnProgress | None = None) -> Path:
        return unpack_server(
            ARCHIVE,
            keep=KEEP,
            ivy_settings=self.settings.spark.ivy_settings,
            total_bytes=ARCHIVE_BYTES,
            on_progress=on_progress,
        )

    def _iceberg(self) -> str:
        stack = self.settings.stack
        store = S3(f"http://{ports.HOST}:{stack.ports.object_store}", self.settings.s3.region)
        to = Connection(
            "iceberg",
            f"http://{ports.HOST}:{stack.ports.catalog}",
            self.settings.catalog.warehouse,
            token=self._token(),
            s3=store,
        )
        # A store on this machine that does not answer is down: Trino's own 20 retries would let a query wait for a
        # minute.
        return trino(to, key_variable=ACCESS_KEY, secret_variable=SECRET_KEY) + "s3.max-error-retries=6\n"


def config_properties(port: int, *, server: Path, catalogs: Path) -> dict[str, str]:
    """What a single node needs: it is coordinator, worker and its own discovery."""
    return {
        "coordinator": "true",
        "node-scheduler.include-coordinator": "true",
        "http-server.http.port": str(port),
        "http-server.log.enabled": "false",
        "discovery.uri": f"http://{ports.HOST}:{port}",
        "plugin.dir": str(server / "plugin"),
        "catalog.config-dir": str(catalogs),
    }


def jvm_options(java: Java) -> list[str]:
    """A modest heap, and what Trino asks of its JVM; the vector module where the runtime has it."""
    vector = [f"--add-modules={VECTOR_MODULE}"] if VECTOR_MODULE in java.modules else []
    sizes = ["-Xms256m", "-Xmx1500m", "-XX:ReservedCodeCacheSize=256M", "-XX:+ExitOnOutOfMemoryError"]
    access = [
        "-Djdk.attach.allowAttachSelf=true",
        "-XX:+EnableDynamicAgentLoading",
        "--enable-native-access=ALL-UNNAMED",
        "--sun-misc-unsafe-memory-access=allow",
    ]
    return [*sizes, *access, *vector, "-Dfile.encoding=UTF-8", "-Djdk.nio.maxCachedBufferSize=2000000"]


def run_query(port: int, sql: str, *, seconds: float = 15.0) -> list[list[Any]]:
    """The rows of a small query, by Trino's statement API: each answer names the next address until there is none."""
    deadline = time.monotonic() + seconds
    answer, rows = _request(port, "POST", "/v1/statement", sql), []
    while "nextUri" in answer:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{sql} took longer than {seconds:g} s")
        answer = _request(port, "GET", urlsplit(answer["nextUri"]).path)
        rows += answer.get("data", [])
    return rows


def _request(port: int, method: str, path: str, body: str | None = None) -> dict[str, Any]:
    connection = http.client.HTTPConnection(ports.HOST, port, timeout=ports.ANSWER_SECONDS)
    try:
        connection.request(method, path, body, headers={"X-Trino-User": "frazil", "X-Trino-Source": "frazil"})
        answer: dict[str, Any] = json.loads(connection.getresponse().read())
        return answer
    finally:
        connection.close()


def _properties(values: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in values.items())
