"""Keys are UUIDs of version 7 that sort by time."""

from __future__ import annotations

from frazil.client.transport import uuid7


def test_a_key_is_a_uuid_of_version_7() -> None:
    key = uuid7()
    assert (key.version, key.variant) == (7, "specified in RFC 4122")


def test_keys_carry_their_time_and_differ_within_it() -> None:
    keys = [uuid7(now_ms=1_700_000_000_000) for _ in range(100)]
    assert {key.int >> 80 for key in keys} == {1_700_000_000_000}
    assert len(set(keys)) == 100
