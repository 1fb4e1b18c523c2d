"""Spark on the Java of a wheel, started by Spark's own launcher."""

from __future__ import annotations

import pytest

from tests.engines.walkers import Spark, Walker

pytestmark = pytest.mark.usefixtures("live_stack")


def test_spark_runs_on_the_java_of_a_wheel(engines: dict[str, Walker]) -> None:
    spark = engines["spark"]
    assert isinstance(spark, Spark)
    version = "java_method('java.lang.System', 'getProperty', 'java.version')"
    assert spark.sql(f"SELECT sum(id), {version} FROM range(1000)") == [(499500, "21.0.8")]
