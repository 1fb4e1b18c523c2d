"""Environments on a real catalog: tables branch, are compared, published at once or refused, and dropped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.types import StringType

from frazil import Lake
from frazil.catalog.embedded import running_catalog
from frazil.client import FrazilCatalog
from frazil.errors import EnvironmentMoved, HistoryError, QueryError
from frazil.history import (
    EnvironmentPublication,
    branch_table,
    check_environment,
    diff_environment,
    find_members,
    list_environments,
    perform_environment_drop,
    plan_environment_drop,
    plan_environment_publication,
    publish_environment,
)
from frazil.pipelines import RunResult, note_run, read_runs
from frazil.write.commit import InputState, RetryPolicy, property_key, read_progress
from tests.contract.test_sink_publish import Faulty, PublishedTable, lose_reply, lose_request
from tests.kit.raising import raises

IMPATIENT = RetryPolicy(give_up_seconds=60, longest_pause_seconds=0.01)


@pytest.fixture(scope="module")
def catalog() -> Iterator[FrazilCatalog]:
    with running_catalog() as server:
        opened = FrazilCatalog("lake", **server.properties)
        opened.create_namespace("lake")
        yield opened


class BadLine(Faulty):
    """A catalog whose commits go wrong as planned."""

    def load_each(self, identifiers: Iterable[Any]) -> list[Any]:
        return self.catalog.load_each(identifiers)  # type: ignore[attr-defined, no-any-return]


class Lakehouse:
    """Silver, and gold that is made from it: one row each on main."""

    def __init__(self, catalog: FrazilCatalog) -> None:
        self.catalog = catalog
        self.silver, self.gold = (PublishedTable(catalog) for _ in range(2))
        self.tables = [self.silver, self.gold]
        self.names = [".".join(table.name) for table in self.tables]
        for table in self.tables:
            table.create()
        self.load()

    def load(self, env: str = "main") -> None:
        """One more row in silver; gold reads it."""
        self.write(self.silver, env)
        self.write(self.gold, env, made_from=self.silver)

    def write(self, table: PublishedTable, env: str = "main", *, made_from: PublishedTable | None = None) -> None:
        """One more row, as a run commits it; `made_from` is the input whose snapshot it records."""
        if env != "main":
            branch_table(self.catalog, table.name, env)
        writer = table.planner(ref=env)
        claim = writer.claim(1)
        if made_from is not None:
            claim = replace(claim, inputs={".".join(made_from.name): _state(made_from, env)})
        writer.publisher.publish(writer.append(claim), claim)

    def plan(self, env: str = "dev") -> EnvironmentPublication:
        return plan_environment_publication(self.catalog, self.names, env)

    def publish(self, catalog: Any = None, retry: RetryPolicy = IMPATIENT) -> EnvironmentPublication:
        plan = self.plan()
        publish_environment(catalog or self.catalog, self.names, plan, retry=retry)
        return plan

    def drop(self, catalog: Any = None) -> None:
        plan = plan_environment_drop(find_members(self.catalog, self.names, "dev"), "dev")
        perform_environment_drop(catalog or self.catalog, self.names, plan, retry=IMPATIENT)

    def refs(self) -> set[str]:
        return {ref for table in self.tables for ref in table.table().metadata.refs}

    def ids(self, ref: str = "main") -> list[list[int]]:
        return [table.ids(ref) for table in self.tables]


def _state(table: PublishedTable, env: str) -> InputState:
    metadata = table.table().metadata
    snapshot = metadata.snapshot_by_name(env) or metadata.snapshot_by_name("main")
    assert snapshot is not None
    return InputState(str(metadata.table_uuid), snapshot.snapshot_id)


@pytest.fixture
def lakehouse(catalog: FrazilCatalog) -> Lakehouse:
    return Lakehouse(catalog)


@pytest.mark.parametrize("name", ["main", "HEAD", "12", "", "a b", "frazil_stage_1", "audit-daily", "../x"])
def test_a_name_that_a_branch_of_ours_may_have_is_refused(name: str) -> None:
    with raises(HistoryError, name=name, problem="environment-name"):
        check_environment(name)


def test_what_is_written_in_an_environment_is_not_on_main(lakehouse: Lakehouse) -> None:
    lakehouse.load("dev")
    assert (lakehouse.ids(), lakehouse.ids("dev")) == ([[0], [0]], [[0, 1], [0, 1]])
    (info,) = list_environments(lakehouse.catalog, lakehouse.names)
    assert (info.name, info.tables, info.changed, info.moved) == ("dev", (*lakehouse.names,), (*lakehouse.names,), ())


def test_a_table_without_rows_branches_from_nothing(catalog: FrazilCatalog) -> None:
    table = PublishedTable(catalog)
    table.create()
    branch_table(catalog, table.name, "dev")
    assert (table.table().current_snapshot(), table.ids("dev")) == (None, [])
    writer = table.planner(ref="dev")
    writer.write(2)
    names = [".".join(table.name)]
    publish_environment(catalog, names, plan_environment_publication(catalog, names, "dev"))
    assert (table.ids(), table.branches(), table.problems()) == ([0, 1], [], ())


def test_all_tables_are_published_in_one_commit_with_their_progress(lakehouse: Lakehouse) -> None:
    lakehouse.load("dev")
    lakehouse.load("dev")
    plan = lakehouse.publish()
    assert (lakehouse.ids(), lakehouse.refs()) == ([[0, 1, 2]] * 2, {"main"})
    assert [move.table for move in plan.moves] == lakehouse.names
    for table in lakehouse.tables:
        metadata = table.table().metadata
        assert (read_progress(metadata).part("s/0").offsets, table.problems()) == ({"p": 3}, ())
        assert property_key("dev") not in metadata.properties
    lakehouse.load()  # the next run on main goes on from there
    assert lakehouse.ids() == [[0, 1, 2, 3]] * 2


def test_an_environment_of_the_same_name_begins_again_from_main(lakehouse: Lakehouse) -> None:
    for _ in range(2):
        lakehouse.load("dev")
        lakehouse.publish()
        lakehouse.load()
    assert lakehouse.ids() == [[0, 1, 2, 3, 4]] * 2
    assert [table.problems() for table in lakehouse.tables] == [(), ()]


@pytest.mark.parametrize("fault", [lose_reply, lose_request])
def test_a_lost_answer_publishes_all_tables_once(lakehouse: Lakehouse, fault: Callable[..., None]) -> None:
    lakehouse.load("dev")
    lakehouse.publish(BadLine(lakehouse.catalog, [fault]))
    assert (lakehouse.ids(), lakehouse.refs()) == ([[0, 1]] * 2, {"main"})


@pytest.mark.parametrize("step", ["before commit", "after commit"])
def test_a_publication_that_is_killed_is_all_or_nothing_and_can_be_repeated(lakehouse: Lakehouse, step: str) -> None:
    def kill(at: str) -> None:
        if at == step:
            raise KeyboardInterrupt

    lakehouse.load("dev")
    with pytest.raises(KeyboardInterrupt):
        lakehouse.publish(retry=replace(IMPATIENT, on_step=kill))
    assert lakehouse.ids() == ([[0]] * 2 if step == "before commit" else [[0, 1]] * 2)
    plan = lakehouse.plan()
    assert plan.was_published == (step == "after commit")
    if not plan.was_published:
        publish_environment(lakehouse.catalog, lakehouse.names, plan)
    assert (lakehouse.ids(), lakehouse.refs()) == ([[0, 1]] * 2, {"main"})


def test_nothing_moves_if_main_of_one_table_has_moved(lakehouse: Lakehouse) -> None:
    lakehouse.load("dev")
    lakehouse.write(lakehouse.gold)
    with pytest.raises(EnvironmentMoved) as refused:
        lakehouse.publish()
    assert set(refused.value.tables) == {lakehouse.names[1]}
    assert (lakehouse.ids(), lakehouse.refs()) == ([[0], [0, 1]], {"main", "dev"})


def test_a_writer_on_main_that_comes_first_keeps_all_tables_as_they_were(lakehouse: Lakehouse) -> None:
    lakehouse.load("dev")

    def overtaken(commit: Callable[[], None]) -> None:
        lakehouse.write(lakehouse.gold)
        commit()

    with pytest.raises(EnvironmentMoved):
        lakehouse.publish(BadLine(lakehouse.catalog, [overtaken]))
    assert (lakehouse.ids(), lakehouse.refs()) == ([[0], [0, 1]], {"main", "dev"})


def test_an_environment_that_has_moved_since_the_plan_is_not_published(lakehouse: Lakehouse) -> None:
    lakehouse.load("dev")
    plan = lakehouse.plan()
    lakehouse.load("dev")
    with raises(HistoryError, problem="changed"):
        publish_environment(lakehouse.catalog, lakehouse.names, plan, retry=IMPATIENT)
    assert lakehouse.ids() == [[0]] * 2


def test_a_table_is_not_published_without_the_input_that_it_was_made_from(lakehouse: Lakehouse) -> None:
    lakehouse.load("dev")
    silver, gold = lakehouse.names
    with pytest.raises(EnvironmentMoved) as refused:
        plan_environment_publication(lakehouse.catalog, [gold], "dev")  # silver belongs to someone else
    assert silver in refused.value.tables[gold]
    perform_environment_drop(
        lakehouse.catalog, [silver], plan_environment_drop(find_members(lakehouse.catalog, [silver], "dev"), "dev")
    )
    with pytest.raises(EnvironmentMoved):
        lakehouse.plan()


def test_the_difference_counts_rows_and_columns_of_each_table(lakehouse: Lakehouse) -> None:
    lakehouse.load("dev")
    lakehouse.silver.table().overwrite(lakehouse.silver.table().scan().to_arrow(), branch="dev")  # row 1 goes again
    with lakehouse.gold.table().update_schema() as update:
        update.add_column("note", StringType())
    rows = pa.table({"id": [9], "note": ["new"]}, schema=schema_to_pyarrow(lakehouse.gold.table().schema()))
    lakehouse.gold.table().append(rows, branch="dev")
    silver, gold = diff_environment(find_members(lakehouse.catalog, lakehouse.names, "dev"), "dev")
    assert (silver.rows_added, silver.rows_removed, silver.is_empty) == (0, 0, True)
    assert (gold.rows_added, gold.rows_removed, gold.rows_main, gold.rows_branch) == (2, 0, 1, 3)
    assert [str(change) for change in gold.schema] == ["+ column note string"]


def test_a_query_reads_the_branch_of_an_environment_or_else_main(lakehouse: Lakehouse) -> None:
    lakehouse.write(lakehouse.silver, "dev")
    silver, gold = lakehouse.names
    lake, query = Lake(catalog=lakehouse.catalog), f"SELECT count(*) FROM {silver}, {gold}"
    assert [lake.sql(query, env=env).to_arrow()[0][0].as_py() for env in (None, "dev")] == [1, 2]
    with raises(QueryError, problem="exclusive-options"):
        lake.sql(query, env="dev", at="main")
    with raises(QueryError, option="env"):
        lake.sql(query, env="dev", engine="trino")


def test_an_environment_is_dropped_whole(lakehouse: Lakehouse) -> None:
    lakehouse.load("dev")
    lakehouse.drop(BadLine(lakehouse.catalog, [lose_reply]))
    assert (lakehouse.ids(), lakehouse.refs()) == ([[0]] * 2, {"main"})
    with raises(HistoryError, problem="no-environment"):
        lakehouse.plan()
    lakehouse.load("dev")  # one that is made again knows nothing of the old one
    assert lakehouse.ids("dev") == [[0, 1]] * 2


def test_rows_of_companion_tables_are_published_also_where_main_has_moved(lakehouse: Lakehouse) -> None:
    silver, run = lakehouse.names[0], RunResult("p", "t", run_id="on main")
    note_run(run, silver, lakehouse.catalog)
    branch_table(lakehouse.catalog, lakehouse.silver.name, "dev")
    for number in range(2):
        note_run(replace(run, run_id=f"dev {number}"), silver, lakehouse.catalog, ref="dev")
    note_run(replace(run, run_id="later"), silver, lakehouse.catalog)
    assert {row["run_id"] for row in read_runs(silver, lakehouse.catalog)} == {"on main", "later"}
    lakehouse.publish()
    rows = [row["run_id"] for row in read_runs(silver, lakehouse.catalog)]
    assert sorted(rows) == ["dev 0", "dev 1", "later", "on main"]
    assert set(lakehouse.catalog.load_table(f"{silver}__runs").metadata.refs) == {"main"}
