"""Changes by key as the source of a fault campaign, what they come to, and the writers that upsert them: the sink, and
a stream on Spark.

However the changes are cut into commits, the end is the same: keys that are deleted have rising versions, and only the
others are late at times. A change that came in twice would still show: it brings back a row that was deleted since, or
is in the quarantine twice.
"""

from __future__ import annotations

import random
import sys
import zlib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

import frazil.sinks
from frazil.client import FrazilCatalog
from frazil.errors import WriterFenced
from tests.faults.sink_lake import REBASES, IcebergLake
from tests.faults.sink_writer import (
    FAILED,
    FENCED,
    SOURCES,
    Job,
    Steps,
    catalog_of,
    count_rows,
    error_of_ours,
    is_bad,
    retry_policy_of,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS = 30  # of each source partition: a change nearly always meets a row
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "version", LongType()),
    NestedField(3, "value", StringType()),
)
ARROW = pa.schema([("id", pa.int64()), ("version", pa.int64()), ("value", pa.string()), ("op", pa.string())])
RIVAL = "rival"  # a fault: another writer of the name does the whole job at a step of this one, in the same driver
Row = dict[str, Any]


def make_change(source: int, part: int, row: int) -> Row:
    """The change of a number: always the same. One in 13 is bad, and belongs in the quarantine."""
    chance = random.Random(f"{source}/{part}/{row}")
    number = chance.randrange(KEYS) * len(SOURCES) + source
    op, version = (
        ("d" if chance.random() < 0.4 else "u", row)
        if number % 3
        else ("u", max(row - chance.choice([0, 0, 3, 40]), 0))
    )
    return {"id": number, "version": version, "value": f"{source}/{row}", "op": "?" if is_bad(row) else op}


def expected(until: int) -> tuple[list[Row], list[str]]:
    """The rows that belong in the table, by id, and the values of the changes that belong in the quarantine."""
    rows: dict[int, Row] = {}
    bad: list[str] = []
    for source in range(len(SOURCES)):
        for number in range(until):
            change = make_change(source, 0, number)
            op, key = change.pop("op"), change["id"]
            if op == "?":
                bad.append(change["value"])
            elif key not in rows or rows[key]["version"] <= change["version"]:
                rows.pop(key, None)
                rows.update({key: change} if op == "u" else {})
    return [rows[key] for key in sorted(rows)], sorted(bad)


class UpsertLake(IcebergLake):
    """A table of the changes."""

    def create(self, partition_by: list[str], **properties: str) -> None:
        self.catalog.create_namespace_if_not_exists(self.name[:-1])
        properties |= {"write.merge.mode": self.job.merge_mode, **REBASES}
        self.catalog.create_table(self.name, SCHEMA, properties=properties)

    def rows(self) -> tuple[list[Row], list[str]]:
        """What is in the table and in the quarantine, as `expected` says it."""
        import json

        rows = self.catalog.load_table(self.name).scan().to_arrow().to_pylist()
        return sorted(rows, key=lambda row: int(row["id"])), sorted(
            json.loads(str(raw))["value"] for raw in self._column("raw", quarantined=True)
        )

    def stages(self) -> list[str]:
        """Branches that were left."""
        return [name for name in self.catalog.load_table(self.name).metadata.refs if name != "main"]


def upsert_with_python(job: Job) -> None:
    """Upserts the numbered source up to the end."""
    options: dict[str, Any] = {
        "key": "id",
        "sequence": "version",
        "op": "op",
        "bad_rows": "quarantine",
        "flush_rows": job.flush_rows,
    }
    with frazil.sinks.open(
        job.table, name="s", mode="upsert", catalog=catalog_of(job), retry=retry_policy_of(job), **options
    ) as sink:
        for source in range(len(SOURCES)):
            for name, offsets, rows in count_rows(job, source, sink.position, make_change):
                sink.write_with_offsets(pa.Table.from_pylist(rows, ARROW), source=name, offsets=offsets)


def upsert_with_spark(spark: SparkSession, job: Job) -> int:
    """Upserts the topic up to its end, as `frazil run` does; gives the exit code that a process would have."""
    from frazil import Table, column, pipeline, sources
    from frazil.pipelines.stream.run import StreamOptions, run_stream

    target = Table(job.table, column("id", "long", required=True), column("version", "long"), column("value", "string"))
    rules: dict[str, Any] = {"mode": "upsert", "key": ["id"], "sequence": "version", "op": "op", "max_bad_share": 1.0}
    source = sources.kafka(job.topic, servers=job.brokers, max_messages=job.flush_rows * len(SOURCES))
    result = pipeline(source=source, target=target, name="s", audit=[job.audit] if job.audit else [], **rules)(
        lambda rows: rows
    )
    steps = _rival_at(spark, job) if job.fault == RIVAL else Steps(job)
    # The folder is another one each time: without a name, each would be a project of its own.
    options = StreamOptions(Path(job.state), retry=replace(retry_policy_of(job), on_step=steps), owner="upserts")
    try:
        run_stream(result, spark=spark, catalog=_catalog_in(spark, job), folder=Path(job.state), options=options)
    except Exception as exc:
        print(f"spark upserts: {exc} ({error_of_ours(exc)!r})", file=sys.stderr, flush=True)
        return FENCED if isinstance(exc.__cause__, WriterFenced) else FAILED
    return 0


def _catalog_in(spark: SparkSession, job: Job) -> FrazilCatalog:
    """The catalog of the job, and the same for Spark's SQL, under a name of its own: drivers outlive catalogs."""
    name = f"lake_{zlib.crc32(job.place.encode()):x}"
    conf = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "rest", ".uri": job.place, ".cache-enabled": "false"}
    for key, value in conf.items():
        spark.conf.set(f"spark.sql.catalog.{name}{key}", value)
    return FrazilCatalog(name, **{**job.connection, "uri": job.place})


def _rival_at(spark: SparkSession, job: Job) -> Any:
    seen: Counter[str] = Counter()

    def on_step(name: str) -> None:
        seen[name] += 1
        if name == job.step_name and seen[name] == job.at_step:
            rival = replace(job, fault="", state=f"{job.state}-rival")
            Path(rival.state).mkdir()
            assert upsert_with_spark(spark, rival) == 0

    return on_step
