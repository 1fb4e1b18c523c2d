"""A Spark driver that runs the streams of tests: a line of JSON in, a line of JSON out. One for all tests, for it takes
long to start.

A process of its own, because Spark's Kafka source has to be among the jars that a JVM starts with.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from frazil.client import connect
from frazil.config import Settings, load_settings
from frazil.errors import FrazilError
from frazil.pipelines.stream.progress import StreamProgress
from frazil.pipelines.stream.run import StreamOptions, run_stream
from frazil.pipelines.stream.watch import watch_files
from frazil.project import load_project
from frazil.spark.session import KAFKA_JARS, spark_session
from frazil.write.commit.publish import RetryPolicy

ROOT = Path(__file__).resolve().parents[2]
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@dataclass
class Job:
    """A stream to run: the pipeline of a project. `rivals` more of it run while it waits before its first commit of
    rows; `stranger` is an id that another program appends to main while the first rows wait on their branch for the
    audit; messages before `lose_to` are deleted from the topic when the first batch is in.
    """

    folder: str
    name: str
    rivals: int = 0
    stranger: int | None = None
    lose_to: int | None = None
    files: dict[str, str] = field(default_factory=dict)  # that land while it watches


def do(job: Job, spark: Any, settings: Settings) -> dict[str, Any]:
    """What became of it."""
    folder = Path(job.folder)
    pipeline, catalog = load_project(folder).pipeline(job.name), connect(settings)
    if job.files or hasattr(pipeline.source, "csv"):
        return _watch(job, pipeline, spark, catalog)
    commits = 0

    def let_others_go_first(step: str) -> None:
        nonlocal commits
        if step == "staged" and job.stranger is not None:
            table, number = catalog.load_table(pipeline.target.identifier), job.stranger
            job.stranger = None
            table.append(pa.table({"id": [number], "note": [None]}, schema=table.schema().as_arrow()))
        commits += step == "before commit"
        if step == "after commit" and commits == 2 and job.lose_to is not None:
            delete_messages(pipeline.source, job.lose_to)
        if step == "before commit" and commits == 2 and job.rivals:  # the first was the take-over
            answers.append(do(Job(job.folder, job.name), spark, settings))

    answers: list[dict[str, Any]] = []
    options = StreamOptions(folder / "state" / job.name, retry=RetryPolicy(on_step=let_others_go_first))
    options.state.mkdir(parents=True, exist_ok=True)
    progress = StreamProgress(job.name, pipeline.target.name)
    try:
        run_stream(pipeline, spark=spark, catalog=catalog, folder=folder, options=options, progress=progress)
    except FrazilError as exc:
        return {"error": type(exc).__name__, "message": str(exc), "rivals": answers}
    return {**json.loads(progress.to_json()), "rivals": answers}


def delete_messages(source: Any, before: int) -> None:
    """As retention does."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    client, place = AdminClient({"bootstrap.servers": source.servers}), TopicPartition(source.topics[0], 0, before)
    client.delete_records([place])[place].result(120)


def _watch(job: Job, pipeline: Any, spark: Any, catalog: Any) -> dict[str, Any]:
    """Watches the landing files; each of `files` lands when the one before is in."""
    stop, waiting = threading.Event(), list(job.files.items())
    progress = StreamProgress(job.name, pipeline.target.name)

    def land_next(_: StreamProgress) -> None:
        if not waiting:
            stop.set()
            return
        path, text = waiting.pop(0)
        Path(job.folder, path).write_text(text)

    options = StreamOptions(Path(job.folder), interval_seconds=0.1, on_change=land_next, stop=stop)
    watch_files(pipeline, spark=spark, catalog=catalog, folder=Path(job.folder), options=options, progress=progress)
    return dict(json.loads(progress.to_json()))


@contextlib.contextmanager
def running_driver(folder: Path, environ: dict[str, str]) -> Iterator[Driver]:
    """A driver, until the block ends."""
    log = folder / "driver.log"
    with log.open("ab") as errors:
        command = [sys.executable, "-m", "tests.engines.stream_driver", str(folder / "spark.log")]
        process = subprocess.Popen(
            command, cwd=ROOT, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    try:
        yield Driver(process, log)
    finally:
        assert process.stdin
        assert process.stdout
        process.stdin.close()
        process.wait(60)
        process.stdout.close()


@dataclass
class Driver:
    """The other end."""

    process: subprocess.Popen[str]
    log: Path

    def run(self, folder: Path, name: str, **more: Any) -> dict[str, Any]:
        """Runs a pipeline of a project to the end of what is there."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps({"folder": str(folder), "name": name, **more}) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, self.log.read_text()[-3000:]
        return dict(json.loads(answer))


def main(log: str) -> None:
    flags = {
        "spark.master": "local[2]",
        "spark.conf.spark.driver.extraJavaOptions": QUICK,
        "spark.conf.spark.sql.shuffle.partitions": "2",
    }
    settings = load_settings(flags=flags, folder=Path(log).parent)
    with spark_session(settings, app_name="streams", log=Path(log), more_jars=KAFKA_JARS) as spark:
        for line in sys.stdin:
            try:
                answer = do(Job(**json.loads(line)), spark, settings)
            except Exception as exc:
                answer = {"error": type(exc).__name__, "message": f"{exc}"}
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
