"""Java's own planning, in a JVM with the jars of Spark and Iceberg: no Spark session, just Iceberg's Table API over
py4j.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from frazil.artifacts.jars import resolve_jars
from frazil.artifacts.java import JavaNeed, find_java
from frazil.spark.session import ICEBERG_RUNTIME


@cache
def gateway() -> JavaGateway:
    """The JVM of this process."""
    (runtime,) = resolve_jars([ICEBERG_RUNTIME])
    port = launch_gateway(
        classpath=f"{runtime}:{Path(pyspark.__file__).parent / 'jars'}/*",
        java_path=str(find_java(JavaNeed.SPARK).executable),
        javaopts=["-Xmx4g", "--add-opens=jdk.management/com.sun.management.internal=ALL-UNNAMED"],
        die_on_exit=True,
    )
    return JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))


def cpu_seconds() -> float:
    """The CPU that the JVM has used, all of its threads together: those that compile, too."""
    return (
        float(gateway().jvm.java.lang.management.ManagementFactory.getOperatingSystemMXBean().getProcessCpuTime()) / 1e9
    )


class JavaPlanner:
    """A table of a metadata file, planned by Iceberg's Java library."""

    def __init__(self, metadata: Path) -> None:
        jvm = gateway().jvm
        io = jvm.org.apache.iceberg.hadoop.HadoopFileIO(jvm.org.apache.hadoop.conf.Configuration())
        operations = jvm.org.apache.iceberg.StaticTableOperations(f"file://{metadata}", io)
        self._table = jvm.org.apache.iceberg.BaseTable(operations, "events")

    def planner(self, query: str, values: tuple[int, int, int]) -> Callable[[], int]:
        """A function that plans once and tells how many tasks there are; they stay in the JVM."""
        jvm = gateway().jvm
        make = jvm.org.apache.iceberg.expressions.Expressions
        wanted, start, stop = (jvm.java.lang.Long.valueOf(value) for value in values)
        needle = make.equal("id", wanted)
        within = getattr(make, "and")(make.greaterThanOrEqual("at", start), make.lessThan("at", stop))
        filters = {"full": make.alwaysTrue(), "needle": needle, "day": getattr(make, "and")(within, needle)}
        count = jvm.org.apache.iceberg.relocated.com.google.common.collect.Iterables.size
        return lambda: int(count(self._table.newScan().filter(filters[query]).planFiles()))
