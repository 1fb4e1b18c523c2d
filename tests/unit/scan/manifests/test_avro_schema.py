"""Schemas of Avro files that mean more than they say."""

from __future__ import annotations

import json

import pytest

from frazil.scan.manifests import AvroError, parse_schema


def chained(times: int, uses: int) -> str:
    """A record of records, each of which uses the one before by its name, so many times."""
    kinds = [{"type": "record", "name": "r0", "fields": [{"name": "a", "type": "long"}]}]
    for number in range(1, times + 1):
        fields = [{"name": f"f{use}", "type": f"r{number - 1}"} for use in range(uses)]
        kinds.append({"type": "record", "name": f"r{number}", "fields": fields})
    return json.dumps(
        {"type": "record", "name": "r", "fields": [{"name": kind["name"], "type": kind} for kind in kinds]}
    )


def test_names_are_replaced_by_what_they_stand_for() -> None:
    fields = parse_schema(chained(2, 2))["fields"]
    assert fields[1]["type"]["fields"][1]["type"] == fields[0]["type"]


@pytest.mark.parametrize(("times", "uses"), [(60, 1), (25, 2), (4, 12)], ids=["deep", "doubled", "wide"])
def test_a_few_lines_that_mean_more_types_than_can_be_counted_are_refused(times: int, uses: int) -> None:
    assert len(chained(times, uses)) < 10_000
    with pytest.raises(AvroError):
        parse_schema(chained(times, uses))
