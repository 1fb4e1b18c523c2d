"""Makes an archive of Spark's classes, with which every later Spark of the tests starts in half of the CPU time.

The JVM writes it when it ends (class data sharing), and maps it into memory where the option names it. A JVM of another
version, or with other jars, leaves it alone.
"""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

# Every JVM that a test starts (Spark, Kafka, Trino) lives for seconds or a few minutes. The optimising compiler and the
# threads of G1 take half of the CPU time of such a JVM, and what they gain comes too late.
SHORT_LIVED_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SECONDS = 300
# What most tests have Spark do: SQL with joins and sorts, writes of Parquet, Python functions on Arrow batches.
PROGRAM = """
import sys
from pyspark import SparkContext
from pyspark.sql import SparkSession

conf = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
builder = SparkSession.builder.master("local[2]")
for key, value in conf.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
rows = spark.range(100).selectExpr("id", "id % 3 AS part", "cast(id AS string) AS text")
rows.write.partitionBy("part").parquet(sys.argv[1])
read = spark.read.parquet(sys.argv[1])
read.join(rows, "id").groupBy(read.part).count().orderBy("count").collect()
read.mapInArrow(lambda batches: batches, read.schema).collect()
read.createOrReplaceTempView("read")
spark.sql("SELECT part, sum(id) OVER (PARTITION BY part ORDER BY id) FROM read WHERE text LIKE '1%'").collect()
spark.stop()
gateway = SparkContext._gateway
gateway.shutdown()
gateway.proc.stdin.close()
gateway.proc.wait()
"""


def archive_path() -> Path:
    """Where the archive is, next to the jars that it is about."""
    return Path(sys.prefix) / f".spark-{importlib.metadata.version('pyspark')}.jsa"


def archive_options() -> str:
    """The options of a JVM that uses the archive; empty without one."""
    path = archive_path()
    return f"-XX:SharedArchiveFile={path} -Xlog:cds=off -Xlog:cds+dynamic=off" if path.exists() else ""


def make_archive(folder: Path) -> bool:
    """Makes the archive if it is missing; False if this Java or machine cannot."""
    from frazil.artifacts import JavaNeed, find_java

    path, new = archive_path(), folder / "new.jsa"
    if path.exists():
        return True
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java(JavaNeed.SPARK).home),
        "PYSPARK_PYTHON": sys.executable,
        "JDK_JAVA_OPTIONS": SHORT_LIVED_JVM,
        "SPARK_SUBMIT_OPTS": f"-XX:ArchiveClassesAtExit={new} -Xlog:cds=off -Xlog:cds+dynamic=off",
    }
    command = [sys.executable, "-c", PROGRAM, str(folder / "rows")]
    with (folder / "spark.log").open("wb") as log:
        try:
            subprocess.run(command, env=environment, stdout=log, stderr=log, check=False, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return False
    if not new.exists():
        return False
    kept = path.with_suffix(f".{os.getpid()}")
    kept.write_bytes(new.read_bytes())  # the folder may be on another disk
    kept.rename(path)
    return True


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory(prefix="frazil-archive-", ignore_cleanup_errors=True) as temporary:
        sys.exit(0 if make_archive(Path(temporary)) else 1)
