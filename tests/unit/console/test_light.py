"""Metadata without PyIceberg's models: upkeep scores it the same."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.table.metadata import TableMetadataUtil

from frazil.console.light import light
from frazil.upkeep import Policy, debt_of
from tests.kit.console_tables import DAY_MS, metadata, snapshot

NOW_MS = 1_800_000_000_000


def table(*, refs: dict[str, int], properties: dict[str, str] | None = None, small: bool = False) -> dict[str, Any]:
    facts = {"added-files-size": "1000"} if small else {}
    snapshots = [
        snapshot(number, number - 1 if number > 1 else None, NOW_MS - (40 - number) * DAY_MS // 4, **facts)
        for number in range(1, 31)
    ]
    return metadata("file:///w/t", snapshots, refs, properties=properties or {})


CASES = {
    "empty": metadata("file:///w/t", [], {}),
    "large files": table(refs={"main": 30}),
    "small files": table(refs={"main": 30}, small=True),
    "a branch": table(refs={"main": 20, "audit": 30}, small=True),
    "a policy": table(refs={"main": 30}, properties={"history.expire.min-snapshots-to-keep": "25"}),
    "a staging branch": table(refs={"main": 10, "frazil_stage_1": 12}),
}


@pytest.mark.parametrize("case", CASES)
def test_the_debt_is_that_of_the_models(case: str) -> None:
    document = CASES[case]
    policy = Policy.of(document["properties"], table="t")
    model = TableMetadataUtil.parse_obj(document)
    assert debt_of(light(document), policy, now_ms=NOW_MS) == debt_of(model, policy, now_ms=NOW_MS)
