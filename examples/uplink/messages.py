"""Makes uplink messages, the same ones for the same arguments; each carries an id of its own, the unreadable ones too.

So exactly-once can be checked by comparing ids: `message_id(payload or raw)` of every row, against `message_name(n)` of
every message sent.

python messages.py --count 5                                         prints them
python messages.py --count 100000 --brokers 127.0.0.1:9092           sends them to Kafka
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections.abc import Iterator

START_MS = 1_713_139_200_000  # 2024-04-15
DAY_MS = 86_400_000
EVENT_TYPES = ("telemetry", "telemetry", "telemetry", "status", "alarm")
_ID = re.compile(r"msg-\d{9}")


def message_name(number: int) -> str:
    """The id that message `number` carries.

    >>> message_name(7)
    'msg-000000007'
    """
    return f"msg-{number:09}"


def message_id(text: str) -> str:
    """The id in a row's payload, or in its raw message.

    >>> message_id('{"id":"msg-000000007","volts":3.1}')
    'msg-000000007'
    """
    match = _ID.search(text)
    if match is None:
        raise ValueError(f"no message id in {text[:80]!r}")
    return match[0]


def make_messages(
    count: int, *, first: int = 0, seed: int = 0, days: int = 7, bad_share: float = 0.02
) -> Iterator[bytes]:
    """Messages `first` to `first + count`, in random order of time over some days; about `bad_share` of them cannot be
    read.
    """
    for number in range(first, first + count):
        chance = random.Random(f"{seed}/{number}")  # each by its number alone: any range gives the same messages
        value = _message(number, chance, days=days)
        yield (
            _spoil(value, chance) if chance.random() < bad_share else json.dumps(value, separators=(",", ":")).encode()
        )


def _message(number: int, chance: random.Random, *, days: int) -> dict[str, dict[str, object]]:
    organization = chance.randrange(40)
    payload = {
        "id": message_name(number),
        "volts": round(chance.uniform(2.9, 3.7), 3),
        "position": {"lat": round(chance.uniform(45, 48), 5), "lon": round(chance.uniform(5, 11), 5)},
        "readings": [chance.randrange(1000) for _ in range(4)],
    }
    return {
        "device": {
            "id": f"dev-{organization:02}-{chance.randrange(500):03}",
            "organization_id": f"org-{organization:02}",
        },
        "event": {
            "type": chance.choice(EVENT_TYPES),
            "timestamp": START_MS + chance.randrange(days * DAY_MS),
            "payload": payload,
        },
    }


def _spoil(value: dict[str, dict[str, object]], chance: random.Random) -> bytes:
    """The message in one of the ways in which messages arrive broken; its id stays readable."""
    way = chance.randrange(5)
    if way == 0:
        del value["device"]["id"]
    elif way == 1:
        value["event"]["timestamp"] = "yesterday"
    whole = json.dumps(value, separators=(",", ":")).encode()
    if way == 2:
        return whole[: whole.index(b'"readings"')]  # cut off on the way
    if way == 3:
        return whole.replace(b"dev-", b"d\xe9v-")  # not UTF-8
    return whole + b"\0" if way == 4 else whole


def send(brokers: str, topic: str, messages: Iterator[bytes]) -> int:
    """Sends messages to a Kafka topic, keyed by nothing, so spread over its partitions; gives their number."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": brokers, "linger.ms": 20, "enable.idempotence": True})
    count = 0
    for count, message in enumerate(messages, start=1):  # noqa: B007  # the number of the last one is the answer
        while True:
            try:
                producer.produce(topic, message)
                break
            except BufferError:  # the queue is full: wait until some have gone
                producer.poll(0.1)
        producer.poll(0)
    if left := producer.flush(60):
        raise RuntimeError(f"{left} of {count} messages could not be sent to {brokers}")
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="number of the first message")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--brokers", help="send them there instead of printing them")
    parser.add_argument("--topic", default="uplink")
    chosen = parser.parse_args()
    messages = make_messages(chosen.count, first=chosen.first, seed=chosen.seed)
    if chosen.brokers:
        print(f"{send(chosen.brokers, chosen.topic, messages)} messages sent to {chosen.topic}")
    else:
        sys.stdout.buffer.writelines(message + b"\n" for message in messages)


if __name__ == "__main__":
    main()
