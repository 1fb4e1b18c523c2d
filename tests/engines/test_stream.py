"""Streams from the live Kafka into tables on SeaweedFS: every message once, in the table or in the quarantine, whatever
happened before.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from frazil.client import FrazilCatalog
from frazil.errors import HistoryError
from frazil.lake import Lake
from frazil.processes import wait_until
from frazil.project import load_project
from frazil.sinks.audit import audit
from frazil.tables.apply import apply_steps, plan
from tests.engines.stream_driver import QUICK, Driver, delete_messages, running_driver
from tests.kit.raising import raises
from tests.kit.stack import Project
from tests.kit.stack_lake import connection, environment

LAKEHOUSE = """
from frazil import Table, column, pipeline, sources

events = Table("streams.{topic}", column("id", "long", required=True), column("note", "string"){more}, checks=["id >= 0"])

@pipeline(source=sources.{source}, target=events{options})
def {topic}(rows):
    return rows{function}
"""  # noqa: E501
UPSERT = ", mode='upsert', key=['id'], sequence='version', op='op'"
VERSION = ', column("version", "long")'


@pytest.fixture(scope="module")
def driver(fault_stack: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with running_driver(tmp_path_factory.mktemp("driver"), environment(fault_stack)) as result:
        yield result


@dataclass
class Stream:
    """A topic, a table, and the pipeline between them."""

    project: Project
    folder: Path
    driver: Driver
    catalog: FrazilCatalog
    topic: str = field(default_factory=lambda: f"t{uuid.uuid4().hex[:8]}")

    @property
    def table(self) -> str:
        return f"streams.{self.topic}"

    @property
    def brokers(self) -> str:
        return f"127.0.0.1:{self.project.settings.stack.ports.kafka}"

    def declare(
        self, *, kafka: str = "", source: str = "", more: str = "", options: str = "", function: str = ""
    ) -> None:
        """The pipeline from the topic, with more arguments of its source and its table; or from another source."""
        source = source or f'kafka("{self.topic}", servers="{self.brokers}", max_messages=1000{kafka})'
        text = LAKEHOUSE.format(topic=self.topic, source=source, more=more, options=options, function=function)
        (self.folder / "lakehouse.py").write_text(text)
        for table in load_project(self.folder).tables:
            list(apply_steps(plan(table, self.catalog), self.catalog))

    @cached_property  # topics are made in the background, and only as long as it lives
    def admin(self) -> Any:
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.brokers})

    def make_topic(self, *, name: str = "") -> None:
        from confluent_kafka.admin import NewTopic

        self.admin.create_topics([NewTopic(name or self.topic, 1)])[name or self.topic].result(120)

    def send(self, *values: int | str | None, partition: int = 0, topic: str = "", key: str | None = None) -> None:
        """Numbers as messages with that id; texts as they are; None as a message without a value."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.brokers})
        for value in values:
            message = json.dumps({"id": value}) if isinstance(value, int) else value
            producer.produce(
                topic or self.topic, None if message is None else message.encode(), key, partition=partition
            )
        assert producer.flush(120) == 0

    def run(self) -> dict[str, Any]:
        """Runs the stream to the end of the topic; gives what it has done."""
        done = self.try_to_run()
        assert "error" not in done, done["message"]
        return done

    def try_to_run(self, **more: Any) -> dict[str, Any]:
        """The same; gives the error, if it ends in one."""
        return self.driver.run(self.folder, self.topic, **more)

    def rows(self, table: str = "") -> list[dict[str, Any]]:
        return list(self.catalog.load_table(table or self.table).scan().to_arrow().to_pylist())

    def ids(self) -> list[int]:
        return sorted(row["id"] for row in self.rows())

    def notes(self, ref: str = "main") -> dict[int, str]:
        table = self.catalog.load_table(self.table)
        snapshot = table.snapshot_by_name(ref)
        assert snapshot is not None
        rows = table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().to_pylist()
        assert len({row["id"] for row in rows}) == len(rows)
        return {row["id"]: row["note"] for row in rows}

    def expire(self) -> None:
        table = self.catalog.load_table(self.table)
        old = [
            snapshot.snapshot_id
            for snapshot in table.snapshots()
            if snapshot.snapshot_id != table.metadata.current_snapshot_id
        ]
        table.maintenance.expire_snapshots().by_ids(old).commit()

    def snapshots(self) -> int:
        return len(self.catalog.load_table(self.table).snapshots())

    def audit(self) -> tuple[str, ...]:
        return audit(self.catalog.load_table(self.table).metadata).problems


@pytest.fixture
def stream(fault_stack: Project, driver: Driver, tmp_path: Path) -> Stream:
    stream = Stream(fault_stack, tmp_path, driver, FrazilCatalog("lake", **connection(fault_stack)))
    stream.catalog.create_namespace_if_not_exists("streams")
    stream.make_topic()
    stream.declare()
    return stream


@pytest.mark.requirement("spark.stream")
def test_messages_are_rows_and_bad_ones_are_in_quarantine_with_topic_partition_and_offset(stream: Stream) -> None:
    stream.send(0, "?", 2, '{"id": -3}', '{"id": "x", "note": "n"}', 5)
    done = stream.run()
    assert (done["rows"], done["quarantined"], stream.ids()) == (3, 3, [0, 2, 5])
    rows = stream.rows(f"{stream.table}__quarantine")
    assert [
        (json.loads(row["position"]), row["reason"].split(",")[0])
        for row in sorted(rows, key=lambda row: row["position"])
    ] == [
        ({"topic": stream.topic, "partition": 0, "offset": 1}, "expected a JSON object"),
        ({"topic": stream.topic, "partition": 0, "offset": 3}, "check 'id >= 0' failed"),
        ({"topic": stream.topic, "partition": 0, "offset": 4}, "field 'id': expected long"),
    ]
    before = stream.snapshots()
    assert (stream.run()["batches"], stream.snapshots(), stream.audit()) == (0, before, ())


@pytest.mark.requirement("spark.stream")
def test_neither_a_lost_state_folder_nor_expired_snapshots_repeat_or_lose_a_message(stream: Stream) -> None:
    for number in range(3):
        stream.send(*range(number * 10, number * 10 + 10))
        assert stream.run()["rows"] == 10
        shutil.rmtree(stream.folder / "state")
        stream.expire()
    assert (stream.ids(), stream.audit()) == (list(range(30)), ())


def test_a_driver_that_was_overtaken_while_it_slept_commits_nothing(stream: Stream) -> None:
    stream.send(*range(20))
    done = stream.try_to_run(rivals=1)
    assert (done["error"], done["rivals"][0]["rows"]) == ("PipelineError", 20)
    assert "another run of it has begun since" in done["message"]
    assert (stream.ids(), stream.audit()) == (list(range(20)), ())


def test_a_new_partition_is_read_from_its_first_message(stream: Stream) -> None:
    from confluent_kafka.admin import NewPartitions

    stream.send(0, 1)
    stream.run()
    stream.admin.create_partitions([NewPartitions(stream.topic, 2)])[stream.topic].result(120)
    stream.send(10, 11, partition=1)
    stream.send(2)
    assert (stream.run()["rows"], stream.ids()) == (3, [0, 1, 2, 10, 11])


def test_messages_gone_before_they_were_read_stop_the_stream_unless_that_is_accepted(stream: Stream) -> None:
    stream.send(*range(5))
    stream.run()
    stream.send(*range(5, 15))
    delete_messages(load_project(stream.folder).pipeline(stream.topic).source, 12)
    done, before = stream.try_to_run(), stream.snapshots()
    assert done["error"] == "MessagesLost"
    assert f"{stream.topic}/0: offsets 5 to 11, 7 messages at most; Kafka begins at 12" in done["message"]
    assert stream.snapshots() == before
    stream.declare(kafka=", data_loss='accept'")
    assert (len(stream.run()["accepted_losses"]), stream.ids(), stream.audit()) == (1, [0, 1, 2, 3, 4, 12, 13, 14], ())


def test_messages_gone_while_the_stream_runs_are_named_too(stream: Stream) -> None:
    # more than a consumer fetches ahead
    stream.send(*(json.dumps({"id": number, "note": "x" * 20_000}) for number in range(2000)))
    done = stream.try_to_run(lose_to=1900)
    assert (done.get("error"), stream.ids()) == ("MessagesLost", list(range(1000))), done
    assert f"{stream.topic}/0: offsets 1000 to 1899, 900 messages at most" in done["message"]


def test_a_topic_that_was_made_again_is_not_taken_for_the_old_one(stream: Stream) -> None:
    stream.send(0, 1, 2)
    stream.run()
    stream.admin.delete_topics([stream.topic])[stream.topic].result(120)
    stream.make_topic()
    stream.send(100, 101, 102, 103, 104)  # more than the table has read of the old one
    done = stream.try_to_run()
    assert (done["error"], "was deleted and made again" in done["message"]) == ("MessagesLost", True)
    stream.declare(kafka=", data_loss='accept'")
    stream.run()
    assert (stream.ids(), stream.audit()) == ([0, 1, 2, 100, 101, 102, 103, 104], ())


def test_the_pipelines_function_changes_rows_and_bad_messages_do_not_reach_it(stream: Stream) -> None:
    stream.declare(
        function=".selectExpr('cast(id as long) + 1000 as id', 'upper(note) as note', '_frazil_position').where('id < "
        "1003')"
    )
    stream.send(0, "?", '{"id": 2, "note": "a"}', 7, '{"id": -5000}')
    done = stream.run()
    assert (done["rows"], done["quarantined"], stream.ids()) == (2, 2, [1000, 1002])
    places = sorted(json.loads(row["position"])["offset"] for row in stream.rows(f"{stream.table}__quarantine"))
    assert (places, stream.run()["batches"]) == ([1, 4], 0)  # what the function left out is not read again


def test_a_topic_that_is_not_there_is_named(stream: Stream) -> None:
    stream.declare(source=f'kafka("{stream.topic}-none", servers="{stream.brokers}")')
    done = stream.try_to_run()
    assert (done["error"], f"has no topic {stream.topic}-none" in done["message"]) == ("PipelineError", True)


def test_a_function_may_take_kafkas_own_columns(stream: Stream) -> None:
    number = "\"cast(get_json_object(cast(value as string), '$.id') as long) as id\""
    stream.declare(kafka=", decode='none'", function=f".selectExpr({number}, '_frazil_position')")
    stream.send(4, "?", 5)
    assert (stream.run()["quarantined"], stream.ids()) == (1, [4, 5])
    (result,) = stream.rows(f"{stream.table}__quarantine")
    assert (result["reason"], json.loads(result["position"])["offset"]) == (
        "field 'id': expected a value, got NULL",
        1,
    )


def test_a_topic_that_matches_the_pattern_later_is_read_from_its_first_message(stream: Stream) -> None:
    stream.declare(source=f'kafka(pattern="{stream.topic}.*", servers="{stream.brokers}")')
    stream.send(1)
    stream.run()
    stream.make_topic(name=f"{stream.topic}-more")
    stream.send(10, 11, topic=f"{stream.topic}-more")
    assert (stream.run()["rows"], stream.ids(), stream.audit()) == (2, [1, 10, 11], ())


def test_a_query_with_state_goes_on_with_its_checkpoint_and_is_refused_without(stream: Stream) -> None:
    stream.declare(function=".dropDuplicates(['id'])")
    stream.send(1, 2, 2)
    stream.run()
    stream.send(2, 3)
    stream.run()
    assert stream.ids() == [1, 2, 3]
    shutil.rmtree(stream.folder / "state")
    stream.send(3, 4)
    done = stream.try_to_run()
    assert (done["error"], stream.ids()) == ("ProgressMismatch", [1, 2, 3])
    assert "keeps state (dropDuplicates) in its checkpoint" in done["message"]


def test_a_field_that_the_table_does_not_have_stops_the_stream_or_is_quarantined(stream: Stream) -> None:
    stream.send(1, '{"id": 2, "colour": "red"}')
    done = stream.try_to_run()
    assert (done["error"], "'colour'" in done["message"], stream.ids()) == ("SourceDrift", True, [])
    stream.declare(options=", drift='quarantine'")
    done = stream.run()
    assert (done["rows"], done["quarantined"]) == (1, 1)


def test_rows_come_to_main_with_their_progress_when_the_audit_passes_and_else_stay_on_the_branch(
    stream: Stream,
) -> None:
    checks = "'id < 50', 'SELECT id FROM {table} GROUP BY id HAVING count(*) > 1'"
    stream.declare(options=f", audit=[{checks}], branch='check'")
    stream.send(1, 2, "?")
    # take-over, staged rows, progress
    assert (stream.run()["rows"], stream.ids(), stream.snapshots()) == (2, [1, 2], 3)
    assert (stream.audit(), audit(stream.catalog.load_table(stream.table).metadata).notes) == ((), ())
    stream.send(2, 60, 70, "?")
    done = stream.try_to_run()
    assert done["error"] == "AuditFailed"
    assert "3 new rows are on branch 'check'" in done["message"]
    assert "2 x id < 50" in done["message"]
    assert "1 x SELECT id FROM" in done["message"]
    table = stream.catalog.load_table(stream.table)
    staged = table.snapshot_by_name("check")
    assert staged is not None
    assert sorted(table.scan(snapshot_id=staged.snapshot_id).to_arrow()["id"].to_pylist()) == [1, 2, 2, 60, 70]
    assert (stream.ids(), len(stream.rows(f"{stream.table}__quarantine"))) == ([1, 2], 1)
    with raises(HistoryError, problem="staged-rows"):
        Lake(stream.project.settings, catalog=stream.catalog).table(stream.table).publish("check")
    stream.declare()
    stream.run()
    assert (stream.ids(), len(stream.rows(f"{stream.table}__quarantine")), stream.audit()) == ([1, 2, 2, 60, 70], 2, ())


def test_rows_that_another_program_commits_during_the_audit_stay_and_the_audit_runs_again_with_them(
    stream: Stream,
) -> None:
    unique = "SELECT id FROM {table} GROUP BY id HAVING count(*) > 1"
    stream.declare(options=f", audit='{unique}'")
    stream.send(1, 2)
    assert (stream.try_to_run(stranger=60)["rows"], stream.ids(), stream.audit()) == (2, [1, 2, 60], ())
    stream.send(3)
    done = stream.try_to_run(stranger=3)
    assert (done["error"], stream.ids(), stream.audit()) == ("AuditFailed", [1, 2, 3, 60], ())


def test_a_batch_that_fails_the_audit_ends_the_stream_and_those_before_it_stay(stream: Stream) -> None:
    stream.declare(options=", audit='id <> 1200'")
    stream.send(*range(1500))  # a thousand to a batch
    done = stream.try_to_run()
    assert (done["error"], "1 x id <> 1200" in done["message"], stream.ids()) == (
        "AuditFailed",
        True,
        list(range(1000)),
    )


def change(number: int, version: int, note: str | None = None, op: str = "u") -> str:
    return json.dumps({"id": number, "version": version, "note": note, "op": op})


@pytest.mark.requirement("spark.upsert")
def test_changes_of_a_topic_are_upserted_once_whatever_is_lost_in_between(stream: Stream) -> None:
    stream.declare(more=f"{VERSION}, properties={{'write.merge.mode': 'merge-on-read'}}", options=UPSERT)
    first = [change(number, 1, "old") for number in range(5)]
    stream.send(*first, change(1, 3, "new"), change(1, 2, "late"))
    loaded = stream.run()
    assert (loaded["rows"], stream.notes()) == (5, {0: "old", 1: "new", 2: "old", 3: "old", 4: "old"})
    assert (loaded["merged"], loaded["uncounted"]) == (
        {"inserted": 5, "updated": 0, "deleted": 0, "unchanged": 0, "duplicates": 2},
        0,
    )
    shutil.rmtree(stream.folder / "state")
    stream.expire()
    stream.send(
        change(2, 2, op="d"),
        change(3, 0, "late"),
        change(-7, 1),
        change(8, 1, op="x"),
        "?",
        change(4, 1, "again"),
        change(9, 1),
    )
    done = stream.run()
    assert (done["rows"], done["quarantined"], stream.notes()) == (
        2,
        3,
        {0: "old", 1: "new", 3: "old", 4: "again", 9: None},
    )
    assert done["merged"] == {"inserted": 1, "updated": 1, "deleted": 1, "unchanged": 1, "duplicates": 0}
    rows = stream.rows(f"{stream.table}__quarantine")
    assert sorted((json.loads(row["position"])["offset"], row["reason"].split(",")[0]) for row in rows) == [
        (9, "check 'id >= 0' failed"),
        (10, "field 'op': expected one of c"),
        (11, "expected a JSON object"),
    ]
    deletes = stream.catalog.load_table(stream.table).inspect.delete_files().num_rows
    assert (deletes > 0, stream.run()["batches"], stream.audit()) == (True, 0, ())


@pytest.mark.parametrize(
    "function",
    ["", ".selectExpr('id', 'upper(note) AS note', '_frazil_op', '_frazil_position')"],
    ids=["as it came", "changed"],
)
def test_a_tombstone_deletes_the_row_of_its_key_and_a_later_message_brings_it_back(
    stream: Stream, function: str
) -> None:
    stream.declare(kafka=", message_key='json'", options=", mode='upsert', key=['id']", function=function)
    stream.send(*(json.dumps({"id": number, "note": "A"}) for number in range(4)))
    stream.send(None, key="1")
    stream.send(None, key='{"id": 2}')
    stream.send(None, key="none of a row")
    stream.send('{"id": 2, "note": "B"}')
    assert (stream.run()["quarantined"], stream.notes()) == (1, {0: "A", 2: "B", 3: "A"})
    stream.send(None, key="0")
    done = stream.run()
    assert (done["rows"], done["merged"]["deleted"], stream.notes(), stream.audit()) == (0, 1, {2: "B", 3: "A"}, ())
    (result,) = stream.rows(f"{stream.table}__quarantine")
    assert (json.loads(result["position"])["offset"], json.loads(result["raw"])) == (
        6,
        {"message": "", "key": "none of a row"},
    )


def test_a_driver_that_was_overtaken_while_it_merged_commits_nothing(stream: Stream) -> None:
    stream.declare(more=VERSION, options=UPSERT)
    stream.send(change(1, 1, "a"), change(2, 1, "b"), "?", change(2, 2, op="d"))
    done = stream.try_to_run(rivals=1)
    assert (done["error"], done["rivals"][0]["rows"], stream.notes()) == ("PipelineError", 1, {1: "a"})
    assert (len(stream.rows(f"{stream.table}__quarantine")), stream.audit()) == (1, ())
    assert list(stream.catalog.load_table(stream.table).metadata.refs) == ["main"]


def test_changes_that_fail_the_audit_stay_on_the_branch_and_the_next_run_merges_them_anew(stream: Stream) -> None:
    stream.declare(more=VERSION, options=f"{UPSERT}, audit='version < 50', branch='check'")
    stream.send(change(1, 1, "a"), change(2, 1, "b"))
    assert (stream.run()["rows"], stream.notes()) == (2, {1: "a", 2: "b"})
    stream.send(change(1, 60, "c"), change(2, 2, op="d"), "?")
    done = stream.try_to_run()
    assert (done["error"], "1 x version < 50" in done["message"]) == ("AuditFailed", True)
    assert (stream.notes(), stream.notes("check"), stream.rows(f"{stream.table}__quarantine")) == (
        {1: "a", 2: "b"},
        {1: "c"},
        [],
    )
    stream.declare(more=VERSION, options=f"{UPSERT}, audit='version < 100', branch='check'")
    assert (stream.run()["quarantined"], stream.notes(), stream.audit()) == (1, {1: "c"}, ())
    assert list(stream.catalog.load_table(stream.table).metadata.refs) == ["main"]


ENVELOPE = "op string, ts_ms long, before struct<id: long, note: string>, after struct<id: long, note: string>"


def test_changes_in_debeziums_envelope_are_unwrapped_by_the_function(stream: Stream) -> None:
    opened = f"from_json(cast(value as string), '{ENVELOPE}') as c"
    fields = (
        "'coalesce(c.after.id, c.before.id) as id', 'c.after.note as note', 'c.ts_ms as version', 'c.op as op', "
        "'_frazil_position'"
    )
    function = f'.where("value is not null").selectExpr("{opened}", "_frazil_position").selectExpr({fields})'
    stream.declare(more=VERSION, kafka=", decode='none'", options=UPSERT, function=function)
    stream.send(*(json.dumps({"op": "c", "ts_ms": 5, "after": {"id": number, "note": "a"}}) for number in (1, 2)), "?")
    stream.send(json.dumps({"op": "d", "ts_ms": 6, "before": {"id": 1, "note": "a"}}), None)
    assert (stream.run()["quarantined"], stream.notes()) == (1, {2: "a"})


def test_a_function_that_loses_the_column_that_tells_deletes_is_refused_before_anything_is_read(stream: Stream) -> None:
    stream.declare(more=VERSION, options=UPSERT, function=".drop('op')")
    stream.send(change(1, 1))
    done = stream.try_to_run()
    assert (done["error"], "op: expected a column that tells deletes" in done["message"]) == (
        "SchemaMismatch",
        True,
    )


def test_a_stream_on_the_command_line_tells_its_metrics_and_finishes_its_batch_when_it_is_stopped(
    stream: Stream,
) -> None:
    quick = ["--set", f"spark.conf.spark.driver.extraJavaOptions={QUICK}"]
    command = [
        sys.executable,
        "-m",
        "frazil",
        *quick,
        "stream",
        stream.topic,
        "--interval",
        "0.2",
        "--metrics-port",
        "0",
    ]
    process = subprocess.Popen(
        command,
        cwd=stream.folder,
        env=environment(stream.project),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr
        said_first = (re.search(r"http://127\.0\.0\.1:(\d+)/metrics", line) for line in process.stderr)
        port = next(item for item in said_first if item)
        stream.send(*range(50), "?")
        assert wait_until(lambda: f'rows_total{{pipeline="{stream.topic}"}} 50\n' in metrics(port[1]), 240)
        assert wait_until(lambda: f'lag_messages{{pipeline="{stream.topic}"}} 0\n' in metrics(port[1]), 240)
        process.send_signal(signal.SIGTERM)
        said, result = process.communicate(timeout=240)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, stream.ids()) == (0, list(range(50))), result
    assert said.startswith(f"{stream.topic}: 50 rows in ")
    assert f"{stream.topic}: stops when the batch under way is in" in result
    assert (
        json.loads((stream.folder / ".frazil/streams" / stream.topic / "progress.json").read_text())["quarantined"] == 1
    )


def metrics(port: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        return str(answer.read().decode())


def test_landing_files_are_a_stream_too_and_a_file_that_fails_the_audit_stays_off_main(stream: Stream) -> None:
    stream.declare(source="csv('landing/*.csv')", options=", audit='id < 100'")
    (stream.folder / "landing").mkdir()
    (stream.folder / "landing/a.csv").write_text("id,note\n1,x\n")
    done = stream.try_to_run(
        files={"landing/b.csv": "id,note\n2,y\n-1,z\n" + "3,z\n" * 40, "landing/c.csv": "id,note\n500,x\n"}
    )
    assert (done.get("error"), stream.ids()) == ("AuditFailed", [1, 2, *[3] * 40]), done
    assert sorted(row["path"] for row in stream.rows(f"{stream.table}__ledger")) == ["landing/a.csv", "landing/b.csv"]
    assert [
        row["status"] for row in sorted(stream.rows(f"{stream.table}__runs"), key=lambda row: row["started_at"])
    ] == [
        "committed",
        "committed",
        "failed",
    ]
    stream.declare(source="csv('landing/*.csv')")
    assert (stream.run()["rows"], stream.ids()[-1], stream.audit()) == (1, 500, ())
