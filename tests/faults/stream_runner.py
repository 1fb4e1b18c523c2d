"""One run of the uplink stream in a process of its own, which may kill itself at a call to the catalog.

`python -m tests.faults.stream_runner FOLDER CALL WHEN`: dies -9 before or after its CALL-th call; 0 means never. Says
`begin` when Spark is up, and waits for a line before it begins. Catalog, store and Kafka are found by the environment.
"""

from __future__ import annotations

import sys
from pathlib import Path

from frazil.client.catalog import catalog_properties
from frazil.config import load_settings
from frazil.pipelines.stream.run import StreamOptions, run_stream
from frazil.project import load_project
from frazil.spark.session import KAFKA_JARS, spark_session
from tests.faults.pipeline_runner import QUICK, DyingCatalog


class DyingInTheMiddle(DyingCatalog):
    """The same, but it goes on after the commits that come before the chosen call."""

    def _die(self, when: str, *, last: bool = False) -> None:
        super()._die(when)


def main(folder: str, die_at: str, when: str) -> None:
    """Runs the stream to the end of the topic."""
    flags = {"spark.master": "local[2]", "spark.conf.spark.driver.extraJavaOptions": QUICK}
    settings, project = load_settings(flags=flags, folder=Path(folder)), load_project(Path(folder))
    catalog = DyingInTheMiddle("lake", **catalog_properties(settings))
    with spark_session(settings, app_name="kills", log=Path(folder) / "spark.log", more_jars=KAFKA_JARS) as spark:
        print("begin", flush=True)
        sys.stdin.readline()
        catalog.die_at, catalog.when = int(die_at), when
        state = Path(folder) / "state"
        state.mkdir(exist_ok=True)
        pipeline = project.pipeline("uplink_events")
        done = run_stream(pipeline, spark=spark, catalog=catalog, folder=project.folder, options=StreamOptions(state))
        print(f"{done.batches} batches, {catalog.calls} calls", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
