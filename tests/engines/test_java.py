"""Spark on the Java of a wheel, started by Spark's own launcher."""

from __future__ import annotations

import os
import subprocess
import sys

from frazil.artifacts.java import JavaNeed, find_java

PROGRAM = """
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
for key in ("spark.driver.host", "spark.driver.bindAddress"):
    builder = builder.config(key, "127.0.0.1")
spark = builder.getOrCreate()
print(spark.range(1000).selectExpr("sum(id)").first()[0], spark._jvm.System.getProperty("java.version"))
"""


def test_spark_runs_on_the_java_of_a_wheel() -> None:
    java = find_java(JavaNeed.SPARK, search=[])
    environ = {**os.environ, "JAVA_HOME": str(java.home), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environ, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["499500", "21.0.8"], done.stderr
