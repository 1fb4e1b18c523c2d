"""Spark itself: sessions, clusters, `spark-submit`, and the workers' environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.spark.cluster import is_local
    from frazil.spark.messages import python_error, spark_error, spark_errors
    from frazil.spark.progress import Progressed, Stage, watching
    from frazil.spark.session import (
        ICEBERG_AWS,
        ICEBERG_RUNTIME,
        KAFKA_JARS,
        session_environment,
        spark_conf,
        spark_session,
        warm_jars,
    )
    from frazil.spark.side_by_side import SideBySide
    from frazil.spark.submit import ERRAND, Errand, Submission, describe, plan_submission, run_submission
    from frazil.spark.tasks import Batches, as_report, collect_reports, merging, quoted, spread, task_number
    from frazil.spark.warm_driver import DriverPlan
    from frazil.spark.warm_record import read_record

__all__ = [
    "ERRAND",
    "ICEBERG_AWS",
    "ICEBERG_RUNTIME",
    "KAFKA_JARS",
    "Batches",
    "DriverPlan",
    "Errand",
    "Progressed",
    "SideBySide",
    "Stage",
    "Submission",
    "as_report",
    "collect_reports",
    "describe",
    "is_local",
    "merging",
    "plan_submission",
    "python_error",
    "quoted",
    "read_record",
    "run_submission",
    "session_environment",
    "spark_conf",
    "spark_error",
    "spark_errors",
    "spark_session",
    "spread",
    "task_number",
    "warm_jars",
    "watching",
]

__getattr__ = lazy_names(__name__)
