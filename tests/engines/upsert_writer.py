"""Upserts on Spark in a process of its own: `python -m tests.engines.upsert_writer LOG TABLE...` applies the batches
that it reads as JSON.

A JVM keeps the jars that it was started with, and the tests' own may have none for S3.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from frazil.client import connect
from frazil.config import load_settings
from frazil.pipelines.upsert.frames import UpsertFrames
from frazil.spark.session import spark_session
from tests.kit.spark_lake import CONF

COLUMNS = ("id", "region", "version", "value", "op")


def main(log: str, *tables: str) -> None:
    """Each batch is a commit to each table."""
    settings, batches = load_settings(flags=CONF), json.load(sys.stdin)
    with spark_session(settings, app_name="upsert", log=Path(log)) as spark:
        for table in tables:
            frames = UpsertFrames(table, name="crm", key="id", sequence="version", op="op", catalog=connect(settings))
            for number, batch in enumerate(batches, start=1):
                rows = [tuple(row.get(name) for name in COLUMNS) for row in batch]
                frame = spark.createDataFrame(
                    rows, "id long, region string, version int, value string, op string"
                ).coalesce(1)
                frames.write(frame, position={"changes": number})


if __name__ == "__main__":
    main(*sys.argv[1:])
