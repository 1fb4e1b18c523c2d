"""Where a stream begins: the table's progress held against what Kafka has. No Kafka is asked."""

from __future__ import annotations

import pytest

from frazil.errors import MessagesLost, PipelineError, ProgressMismatch
from frazil.pipelines.stream.kafka import EARLIEST, Start, TopicPartition, batch_end, check_seen, plan_start
from tests.kit.raising import raises

ID, OTHER = "Xf3k9aQ2-zzzz", "Qq7777Qq-zzzz"


def partition(number: int, earliest: int, latest: int, *, id: str = ID) -> TopicPartition:
    return TopicPartition("uplink", number, id, earliest, latest)


def start(progress: dict[str, int], *partitions: TopicPartition, accept_loss: bool = False) -> Start:
    return plan_start(progress, partitions, pipeline="p", table="l.t", accept_loss=accept_loss)


def test_a_partition_goes_on_where_the_table_stands_and_a_new_one_from_its_beginning() -> None:
    result = start({"uplink@Xf3k9aQ2/0": 120}, partition(0, 0, 500), partition(1, 7, 90))
    assert result == Start({"uplink": {"0": 120, "1": EARLIEST}}, {"uplink@Xf3k9aQ2/0": 120})


def test_messages_that_retention_has_removed_are_named_by_partition_and_range() -> None:
    with raises(MessagesLost, ranges={"uplink/0": (120, 199)}, recreated=()):
        start({"uplink@Xf3k9aQ2/0": 120}, partition(0, 200, 500))


def test_a_loss_that_is_accepted_is_reported_and_the_stream_goes_on_with_what_is_there() -> None:
    result = start({"uplink@Xf3k9aQ2/0": 120}, partition(0, 200, 500), accept_loss=True)
    assert (result.offsets, result.reached, len(result.losses)) == (
        {"uplink": {"0": 200}},
        {"uplink@Xf3k9aQ2/0": 120},
        1,
    )


def test_a_topic_made_again_is_not_taken_for_the_old_one_though_it_is_longer() -> None:
    with raises(MessagesLost, ranges={}, recreated=("uplink",)) as caught:
        start({"uplink@Qq7777Qq/0": 120}, partition(0, 0, 900))
    assert "partition 0 up to 120" in caught.value.losses[0]
    result = start({"uplink@Qq7777Qq/0": 120}, partition(0, 0, 900), accept_loss=True)
    assert (result.offsets, result.done) == ({"uplink": {"0": EARLIEST}}, {"uplink@Qq7777Qq/0"})


def test_a_table_that_is_ahead_of_kafka_is_refused_whatever_is_accepted() -> None:
    with raises(ProgressMismatch, source="uplink/0", expected=120, got=50):
        start({"uplink@Xf3k9aQ2/0": 120}, partition(0, 0, 50), accept_loss=True)


def test_progress_without_the_topics_id_is_taken_on_under_its_new_name() -> None:
    result = start({"uplink/0": 120}, partition(0, 0, 500))
    assert (result.offsets, result.reached, result.done) == (
        {"uplink": {"0": 120}},
        {"uplink@Xf3k9aQ2/0": 120},
        {"uplink/0"},
    )


@pytest.mark.parametrize("text", ["v2\n{}\n{}", "v1\n{}\n{}\n{}", "v1\n{}"])
def test_an_offset_log_of_another_kind_is_refused(text: str) -> None:
    with raises(PipelineError, problem="offset-log"):
        batch_end(text, {})


@pytest.mark.parametrize("seen", [(119, 130), (120, 200), (100, 300)])
def test_a_batch_that_reaches_beyond_its_range_is_refused(seen: tuple[int, int]) -> None:
    known = {"uplink@Xf3k9aQ2/0": 120}
    check_seen({"uplink/0": (120, 199)}, {"uplink@Xf3k9aQ2/0": 200}, known, ids={"uplink": ID}, table="l.t")
    with raises(ProgressMismatch, source="uplink/0", expected=(120, 200), got=seen):
        check_seen({"uplink/0": seen}, {"uplink@Xf3k9aQ2/0": 200}, known, ids={"uplink": ID}, table="l.t")
