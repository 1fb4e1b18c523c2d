"""Several tables are read as they were at one moment, whatever is committed between two requests."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import pytest
from pyiceberg.table import Table
from pyiceberg.typedef import Identifier

from frazil import Lake
from frazil.client import FrazilCatalog, load_at_once
from frazil.client.moment import READS
from frazil.errors import PipelineError, QueryError
from frazil.pipelines.models import GraphRun, derivation_of, model
from frazil.pipelines.models.run import World
from frazil.scan.planning import show_time
from tests.contract.client.conftest import rows
from tests.kit.raising import raises

NAMES = ("ns.a", "ns.b")


class Overtaken(FrazilCatalog):
    """A catalog where others commit to both tables after each of the first loads of one of them."""

    commits = 0
    loads = 0

    def load_table(self, identifier: str | Identifier) -> Table:
        table: Table = super().load_table(identifier)
        if ".".join(self.identifier_to_tuple(identifier)) == "ns.a":
            self.loads += 1
            if self.loads <= self.commits:
                self.commit_to_both(self.loads)
        return table

    def commit_to_both(self, number: int) -> None:
        with FrazilCatalog("lake", uri=self.uri).transaction() as transaction:
            for name in NAMES:
                transaction.table(name).append(rows(number))


@pytest.fixture
def overtaken(catalog: FrazilCatalog, uri: str) -> Overtaken:
    overtaken = Overtaken("lake", uri=uri)
    overtaken.commit_to_both(100)
    return overtaken


@pytest.mark.parametrize("commits", [0, 1, 3])
def test_a_query_over_two_tables_sees_both_or_none_of_a_commit(overtaken: Overtaken, commits: int) -> None:
    overtaken.commits = commits
    query = "SELECT (SELECT list(id ORDER BY id) FROM ns.a) AS a, (SELECT list(id ORDER BY id) FROM ns.b) AS b"
    (row,) = Lake(catalog=overtaken).sql(query).to_arrow().to_pylist()
    ids = [*range(1, commits + 1), 100]
    assert row == {"a": ids, "b": ids}


def test_a_query_over_one_table_loads_it_once(overtaken: Overtaken) -> None:
    assert Lake(catalog=overtaken).sql("SELECT count(*) AS n FROM ns.a").to_arrow().to_pylist() == [{"n": 1}]
    assert overtaken.loads == 1


def test_tables_are_loaded_until_nothing_changes_between_two_readings(overtaken: Overtaken) -> None:
    overtaken.commits = 2
    tables, at_once = load_at_once(overtaken, NAMES)
    snapshots = {name: len(table.snapshots()) for name, table in tables.items()}
    assert (snapshots, at_once, overtaken.loads) == ({"ns.a": 3, "ns.b": 3}, True, 4)


def test_tables_that_never_stand_still_are_given_as_they_are(overtaken: Overtaken) -> None:
    overtaken.commits = 1000
    tables, at_once = load_at_once(overtaken, NAMES)
    assert (len(tables), at_once, overtaken.loads) == (2, False, READS + 1)


BOTH = "SELECT (SELECT count(*) FROM ns.a {a}) AS a, (SELECT count(*) FROM ns.b {b}) AS b"


def test_a_query_over_tables_that_never_stand_still_is_refused(overtaken: Overtaken) -> None:
    overtaken.commits = 1000
    lake = Lake(catalog=overtaken)
    with raises(QueryError, problem="contended", hint=re.compile("at= of lake.sql, --at, or AT ")):
        lake.sql(BOTH.format(a="", b=""))
    assert overtaken.loads == READS + 1  # nothing is read after that
    assert lake.sql("SELECT count(*) >= 1 AS n FROM ns.a").to_arrow().to_pylist() == [{"n": True}]


@pytest.mark.parametrize("pin", ["time", "AT", "snapshots"])
def test_a_query_over_such_tables_is_answered_if_it_reads_the_past(overtaken: Overtaken, pin: str) -> None:
    ids = [overtaken.load_table(name).current_snapshot() for name in NAMES]
    first_ids, made_ms = [each.snapshot_id for each in ids if each], max(each.timestamp_ms for each in ids if each)
    overtaken.commit_to_both(200)  # a time has passed once there is a later snapshot
    overtaken.commits, overtaken.loads = 1000, 0
    when = show_time(made_ms)
    a, b = {
        "time": ("", ""),
        "AT": (f"AT (TIMESTAMP => '{when}')",) * 2,
        "snapshots": [f"AT (VERSION => {number})" for number in first_ids],
    }[pin]
    result = Lake(catalog=overtaken).sql(BOTH.format(a=a, b=b), at=when if pin == "time" else None)
    assert (result.to_arrow().to_pylist(), overtaken.loads) == ([{"a": 1, "b": 1}], 1)


def test_a_tag_that_moves_with_each_commit_is_no_moment(overtaken: Overtaken) -> None:
    """Tags are moved by commits, also by one over several tables."""
    lake = Lake(catalog=FrazilCatalog("lake", uri=overtaken.uri))
    for name in NAMES:
        lake.table(name).create_tag("daily")
    overtaken.commits = 1000
    with raises(QueryError, problem="contended"):
        Lake(catalog=overtaken).sql(BOTH.format(a="", b=""), at="daily")


def test_a_run_refuses_tables_that_never_stand_still_and_an_outlook_takes_them(overtaken: Overtaken) -> None:
    overtaken.commits = 1000
    with raises(PipelineError, problem="contended"):
        World(overtaken).fix(NAMES)
    outlook = World(overtaken, is_outlook=True)
    outlook.fix(NAMES)
    assert set(outlook.states) == set(NAMES)


def test_a_group_is_not_computed_from_tables_that_never_stand_still(overtaken: Overtaken, tmp_path: Path) -> None:
    overtaken.commits = 1000
    joined = model("ns.joined", "SELECT a.id FROM ns.a JOIN ns.b ON a.id = b.id")
    run = GraphRun([derivation_of(joined)], cast(Any, None), overtaken, tmp_path)
    with raises(PipelineError, problem="contended"):
        run.run_together()
    assert overtaken.loads == READS + 1  # nothing was looked at after that
