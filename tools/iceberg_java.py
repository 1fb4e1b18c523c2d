"""The Java side of Iceberg that we are measured by: the jars of the official compatibility kit and the reference
server.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from frazil.artifacts.jars import resolve_jars
from frazil.artifacts.java import JavaNeed, find_java
from frazil.services import ports
from tools.own_server import wait_until_ready

VERSION = "1.11.0"  # the newest for which the kit (iceberg-open-api) is published
_JETTY = "12.1.5"

# Named one by one: walking the POMs takes half a minute, and these are all that the kit and the server load.
JARS = [
    f"org.apache.iceberg:iceberg-open-api:{VERSION}:tests",
    f"org.apache.iceberg:iceberg-open-api:{VERSION}:test-fixtures",
    f"org.apache.iceberg:iceberg-core:{VERSION}",
    f"org.apache.iceberg:iceberg-core:{VERSION}:tests",
    f"org.apache.iceberg:iceberg-api:{VERSION}",
    f"org.apache.iceberg:iceberg-api:{VERSION}:tests",
    f"org.apache.iceberg:iceberg-common:{VERSION}",
    f"org.apache.iceberg:iceberg-bundled-guava:{VERSION}",
    "org.apache.httpcomponents.client5:httpclient5:5.6.1",
    "org.apache.httpcomponents.core5:httpcore5:5.4",
    "org.apache.httpcomponents.core5:httpcore5-h2:5.4",
    "com.github.ben-manes.caffeine:caffeine:2.9.3",
    "dev.failsafe:failsafe:3.3.2",
    "org.assertj:assertj-core:3.27.6",
    "net.bytebuddy:byte-buddy:1.17.7",
    "org.junit.platform:junit-platform-console-standalone:1.13.4",
    f"org.eclipse.jetty.ee10:jetty-ee10-servlet:{_JETTY}",
    f"org.eclipse.jetty.compression:jetty-compression-server:{_JETTY}",
    f"org.eclipse.jetty.compression:jetty-compression-common:{_JETTY}",
    f"org.eclipse.jetty.compression:jetty-compression-gzip:{_JETTY}",
    *(f"org.eclipse.jetty:jetty-{part}:{_JETTY}" for part in ("http", "io", "security", "server", "session", "util")),
    "jakarta.servlet:jakarta.servlet-api:6.0.0",
    "org.xerial:sqlite-jdbc:3.50.3.0",
]
# PySpark is installed anyway and brings these.
_FROM_PYSPARK = [
    "avro-1",
    "jackson-annotations",
    "jackson-core",
    "jackson-databind",
    "hadoop-client-",
    "slf4j-api",
    "RoaringBitmap",
]


def java_command(*options: str) -> list[str]:
    """The start of a command line that runs a class of the kit: java, its options and the class path."""
    import pyspark

    spark_jars = Path(pyspark.__file__).parent / "jars"
    jars = [*resolve_jars(JARS), *(jar for name in _FROM_PYSPARK for jar in sorted(spark_jars.glob(f"{name}*.jar")))]
    return [str(find_java(JavaNeed.SPARK).executable), *options, "-cp", os.pathsep.join(map(str, jars))]


@contextlib.contextmanager
def reference_server(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The Java reference server on SQLite and local files below `folder`: its address and its process."""
    port = ports.free_port()
    (folder / "warehouse").mkdir(parents=True, exist_ok=True)
    settings = {
        "CATALOG_URI": f"jdbc:sqlite:{folder / 'catalog.db'}",
        "CATALOG_WAREHOUSE": str(folder / "warehouse"),
        "CATALOG_REST_PORT": str(port),
        "CATALOG_JDBC_STRICT__MODE": "true",  # as ours: a table needs its namespace
    }
    command = [*java_command(), "org.apache.iceberg.rest.RESTCatalogServer"]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(command, env={**os.environ, **settings}, stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_until_ready(port, process, "/v1/config", log=folder / "server.log")
        yield f"http://127.0.0.1:{port}", process
    finally:
        process.terminate()
        process.wait(30)
