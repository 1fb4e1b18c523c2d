"""Changes by key, and the dictionary that says what they come to: for the tests of every upsert."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

Rows = list[dict[str, Any]]
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "region", StringType(), required=True),
    NestedField(3, "version", IntegerType()),
    NestedField(4, "value", StringType(), required=True),
)

MERGE_ON_READ = {"write.merge.mode": "merge-on-read"}
# How upserts of a table are written, by its properties: files that are rewritten; rows that are marked as deleted.
WAYS: dict[str, dict[str, str]] = {
    "copy-on-write": {},
    "position deletes": MERGE_ON_READ,
    "deletion vectors": {**MERGE_ON_READ, "format-version": "3"},
}


def change(
    number: int, version: int, value: str | None = None, *, region: str = "north", op: str = "u"
) -> dict[str, Any]:
    return {"id": number, "region": region, "version": version, "value": value or f"v{version}", "op": op}


def gone(number: int, version: int) -> dict[str, Any]:
    return {"id": number, "version": version, "op": "d"}


@dataclass
class Oracle:
    """The rows that a table is to have: a dictionary."""

    rows: dict[int, dict[str, Any]] = field(default_factory=dict)

    def apply(self, batch: Rows) -> None:
        """One commit: of the changes of a key the last by version counts, then by place; against the table an older one
        loses.
        """
        last: dict[int, dict[str, Any]] = {}
        for change_ in batch:
            if change_["id"] not in last or change_["version"] >= last[change_["id"]]["version"]:
                last[change_["id"]] = change_
        for number, last_change in last.items():
            known = self.rows.get(number)
            if known is not None and known["version"] > last_change["version"]:
                continue
            self.rows.pop(number, None)
            if last_change["op"] != "d":
                self.rows[number] = {name: value for name, value in last_change.items() if name != "op"}

    def all(self) -> Rows:
        return [self.rows[number] for number in sorted(self.rows)]


NUMBERS = st.integers(0, 12)
CHANGES = st.builds(
    lambda number, version, region, op: (
        gone(number, version) if op == "d" else change(number, version, f"{region}{version}", region=region, op=op)
    ),
    NUMBERS,
    st.integers(0, 8),
    st.sampled_from(["north", "south", "east"]),
    st.sampled_from(["c", "u", "u", "U", "insert", "d"]),
)


def example_count(*, short: int, full: int) -> int:
    """How many examples hypothesis tries: `short` in make test, `full` in make soak."""
    return short if settings.default is not None and settings.default.derandomize else full
