"""Where a stream begins to read: what the table has reached, held against what Kafka still has. The decision is pure.

A source partition is known to the table as `uplink@Xf3k9aQ2/0`: the topic, the beginning of the id that Kafka gave it,
and the number. A topic that was deleted and made again has another id, so its offsets, which start from zero, are never
taken for those of the old one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from frazil.errors import MessagesLost, PipelineError, ProgressMismatch
from frazil.pipelines.sources import KafkaSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EARLIEST = -2  # how Spark spells it
ID_LENGTH = 8
_NO_ID = "AAAAAAAA"  # what brokers before 2.8 answer
ANSWER_MS = 20_000


@dataclass(frozen=True)
class TopicPartition:
    """A partition as Kafka has it now: the first offset that is still there, and the next one to be written."""

    topic: str
    number: int
    id: str  # of the topic
    earliest: int
    latest: int

    @property
    def source(self) -> str:
        """What the table calls it."""
        return source_name(self.topic, self.id, self.number)


def source_name(topic: str, id: str, number: int) -> str:
    """
    >>> source_name("uplink", "Xf3k9aQ2bb", 0), source_name("uplink", "AAAAAAAAAAA", 0)
    ('uplink@Xf3k9aQ2/0', 'uplink/0')
    """
    short = id[:ID_LENGTH]
    return f"{topic}/{number}" if short == _NO_ID else f"{topic}@{short}/{number}"


@dataclass(frozen=True)
class Start:
    """Where to begin: by topic and partition for Spark; by source partition as the table has it (`reached`); what is
    read from now on under another name or never again (`done`); and what is lost, if that is accepted.
    """

    offsets: Mapping[str, Mapping[str, int]]
    reached: Mapping[str, int] = field(default_factory=dict)
    done: frozenset[str] = frozenset()
    losses: tuple[str, ...] = ()

    def to_json(self) -> str:
        """The text of Spark's option `startingOffsets`."""
        return json.dumps({topic: dict(numbers) for topic, numbers in self.offsets.items()})


def plan_start(
    progress: Mapping[str, int],
    partitions: Iterable[TopicPartition],
    *,
    pipeline: str,
    table: str,
    accept_loss: bool = False,
) -> Start:
    """Where each partition is to be read from: where the table stands; one that it does not know, from its earliest
    message.

    Raises `MessagesLost` where messages that the table does not have are gone, unless that is accepted.
    """
    offsets: dict[str, dict[str, int]] = {}
    reached: dict[str, int] = {}
    done: set[str] = set()
    lost = _Losses()
    for partition in partitions:
        plain = f"{partition.topic}/{partition.number}"
        at = progress.get(partition.source, progress.get(plain))
        if at is not None and partition.source not in progress:
            done.add(plain)  # written by a sink that knows no ids of topics: the same messages
        if at is None and (former := _former(progress, partition)):
            lost.add_recreated(partition.topic, former)
            done.update(former.values())
        if at is not None:
            _check_not_ahead(at, partition, pipeline=pipeline, table=table)
            reached[partition.source] = at
            lost.add_removed(at, partition)
        offsets.setdefault(partition.topic, {})[str(partition.number)] = (
            EARLIEST if at is None else max(at, partition.earliest)
        )
    if lost.lines and not accept_loss:
        hint = (
            "data_loss='accept' in sources.kafka(...) goes on with what is there; longer retention in Kafka prevents it"
        )
        raise MessagesLost(pipeline, tuple(lost.lines), ranges=lost.ranges, recreated=tuple(lost.recreated), hint=hint)
    return Start(offsets, reached, frozenset(done), tuple(lost.lines))


@dataclass
class _Losses:
    """Messages that Kafka no longer has: one line per loss, and the same as values."""

    lines: dict[str, None] = field(default_factory=dict)
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    recreated: dict[str, None] = field(default_factory=dict)

    def add_recreated(self, topic: str, former: Iterable[str]) -> None:
        """A topic that was deleted and made again, and what is read of the old one."""
        for text in former:
            self.lines[f"topic {topic} was deleted and made again; of the old one, {text} is read"] = None
        self.recreated[topic] = None

    def add_removed(self, at: int, partition: TopicPartition) -> None:
        """Messages from offset `at` on that retention has removed, if any."""
        if at >= partition.earliest:
            return
        plain, last = f"{partition.topic}/{partition.number}", partition.earliest - 1
        count = f"{partition.earliest - at:,} messages at most"
        self.lines[f"{plain}: offsets {at} to {last}, {count}; Kafka begins at {partition.earliest}"] = None
        self.ranges[plain] = (at, last)


def _check_not_ahead(at: int, partition: TopicPartition, *, pipeline: str, table: str) -> None:
    """Refuses a table that has read more messages than Kafka has."""
    if at <= partition.latest:
        return
    plain = f"{partition.topic}/{partition.number}"
    raise ProgressMismatch(
        f"pipeline '{pipeline}': {table} has read {plain} up to {at}, but Kafka has it only up to {partition.latest}",
        hint="has Kafka lost messages, or is this another cluster? a pipeline with another name starts from the "
        "beginning",
        pipeline=pipeline,
        table=table,
        source=plain,
        expected=at,
        got=partition.latest,
    )


def _former(progress: Mapping[str, int], partition: TopicPartition) -> dict[str, str]:
    """What the table has of topics that had the same name, spelled, and as it calls them."""
    former = [
        name
        for name in progress
        if name.startswith(f"{partition.topic}@")
        and not name.startswith(source_name(partition.topic, partition.id, 0)[:-1])
    ]
    return {f"partition {name.rpartition('/')[2]} up to {progress[name]}": name for name in former}


def batch_end(text: str, ids: Mapping[str, str]) -> dict[str, int]:
    """Where each source partition stands after a batch, from Spark's offset log; `ids` are those of the topics.

    >>> batch_end('v1\\n{"batchWatermarkMs":0}\\n{"uplink":{"0":12}}', {"uplink": "Xf3k9aQ2"})
    {'uplink@Xf3k9aQ2/0': 12}
    """
    version, _, *sources = text.splitlines()
    if version != "v1" or len(sources) != 1:
        raise PipelineError(
            f"Spark's offset log has version {version} and {len(sources)} sources, expected v1 and one",
            problem="offset-log",
        )
    topics: dict[str, dict[str, int]] = json.loads(sources[0])
    return {
        source_name(topic, ids[topic], int(number)): at
        for topic, numbers in topics.items()
        for number, at in numbers.items()
    }


def check_seen(
    seen: Mapping[str, tuple[int, int]],
    end: Mapping[str, int],
    reached: Mapping[str, int],
    *,
    ids: Mapping[str, str],
    table: str,
) -> None:
    """Refuses a batch whose messages are not between what the table has reached and the batch's end: its rows would be
    in twice, or not.

    >>> check_seen({"t/0": (3, 7)}, {"t@Xf3k9aQ2/0": 8}, {"t@Xf3k9aQ2/0": 3}, ids={"t": "Xf3k9aQ2"}, table="l.t")
    """
    for place, (first, last) in seen.items():
        topic, _, number = place.rpartition("/")
        source = source_name(topic, ids[topic], int(number))
        if first < reached.get(source, 0) or last >= end.get(source, -1):
            raise ProgressMismatch(
                f"{table}: a batch has messages {first} to {last} of {place}, not from {reached.get(source)} to "
                f"{end.get(source)}",
                hint="nothing of it was committed; start the stream again",
                table=table,
                source=place,
                expected=(reached.get(source), end.get(source)),
                got=(first, last),
            )


def lag(latest: Mapping[str, Mapping[str, int]], reached: Mapping[str, int], ids: Mapping[str, str]) -> int:
    """How many messages wait, at most.

    >>> lag({"t": {"0": 10, "1": 5}}, {"t@Xf3k9aQ2/0": 4}, {"t": "Xf3k9aQ2"})
    11
    """
    places = [
        (source_name(topic, ids.get(topic, ""), int(number)), at)
        for topic, numbers in latest.items()
        for number, at in numbers.items()
    ]
    return sum(max(at - reached.get(source, 0), 0) for source, at in places)


# --- asking Kafka ----------------------------------------------------------------------------------------------------


def client_options(source: KafkaSource) -> dict[str, str]:
    """The settings of a Kafka client; rows of transactions that were aborted are none."""
    return {"bootstrap.servers": source.servers, "isolation.level": "read_committed", **source.options}


def read_partitions(spark: SparkSession, source: KafkaSource) -> list[TopicPartition]:
    """The partitions of the source's topics as they are now. Asked by the JVM's own client: it is there, and takes the
    same settings.
    """
    from py4j.protocol import Py4JJavaError

    assert spark.sparkContext._jvm is not None
    kafka = spark.sparkContext._jvm.org.apache.kafka
    settings = spark.sparkContext._jvm.java.util.Properties()
    known = {key: value for key, value in client_options(source).items() if key != "isolation.level"}
    for key, value in {
        "default.api.timeout.ms": str(ANSWER_MS),
        "request.timeout.ms": str(ANSWER_MS // 2),
        **known,
    }.items():
        settings.setProperty(key, value)
    try:
        admin = kafka.clients.admin.AdminClient.create(settings)
        try:
            return _ask(spark.sparkContext._jvm, admin, source)
        finally:
            admin.close(spark.sparkContext._jvm.java.time.Duration.ofSeconds(1))
    except Py4JJavaError as exc:
        raise _translate(str(exc.java_exception), source) from exc


def _ask(jvm: Any, admin: Any, source: KafkaSource) -> list[TopicPartition]:
    described = admin.describeTopics(_java_list(jvm, _topics(jvm, admin, source))).allTopicNames().get()
    wanted = {}
    for topic, description in described.items():
        for partition in description.partitions():
            wanted[topic, partition.partition()] = description.topicId().toString()
    spec, ends = jvm.org.apache.kafka.clients.admin.OffsetSpec, []
    for kind in (spec.earliest(), spec.latest()):
        asked = jvm.java.util.HashMap()
        for topic, number in wanted:
            asked.put(jvm.org.apache.kafka.common.TopicPartition(topic, number), kind)
        offsets = admin.listOffsets(asked).all().get()
        ends.append({(place.topic(), place.partition()): offsets.get(place).offset() for place in offsets})
    first, last = ends
    return [TopicPartition(*place, id, first[place], last[place]) for place, id in sorted(wanted.items())]


def _topics(jvm: Any, admin: Any, source: KafkaSource) -> Sequence[str]:
    if source.pattern is None:
        return source.topics
    names = [
        name for name in admin.listTopics().names().get() if jvm.java.util.regex.Pattern.matches(source.pattern, name)
    ]
    if not names:
        raise PipelineError(f"no topic of Kafka at {source.servers} matches '{source.pattern}'")
    return sorted(names)


def _java_list(jvm: Any, values: Sequence[str]) -> Any:
    array = jvm.java.util.ArrayList()
    for value in values:
        array.add(value)
    return array


def _translate(text: str, source: KafkaSource) -> PipelineError:
    if "UnknownTopicOrPartition" in text:
        return PipelineError(
            f"Kafka at {source.servers} has no topic {source}",
            hint="create it, or correct the name in sources.kafka(...)",
        )
    if "Timeout" in text or "TimedOut" in text:
        return PipelineError(
            f"Kafka at {source.servers} does not answer", hint="is it running? frazil up --with kafka starts one here"
        )
    return PipelineError(f"Kafka at {source.servers}: {next(iter(text.splitlines()), text)}")
