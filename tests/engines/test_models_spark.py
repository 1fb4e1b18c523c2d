"""Models on real Spark: each derived table equals its definition, whatever happens to its inputs; several are published
as one.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from frazil import Lake, Table, column, pipeline, sources
from frazil.client import FrazilCatalog
from frazil.errors import AuditFailed, EnvironmentMoved, PipelineError, RowRefused
from frazil.history import (
    EnvironmentPublication,
    RowSource,
    TableDifference,
    diff_environment,
    find_members,
    perform_environment_drop,
    plan_environment_drop,
    plan_environment_publication,
    publish_environment,
)
from frazil.pipelines import Pipeline, RunResult, RunStart, observing
from frazil.pipelines.batch import run_pipeline
from frazil.pipelines.models import Days, GraphRun, Model, ModelSchemas, derivation_of, model
from frazil.write.commit import RetryPolicy, read_progress
from tests.kit.raising import raises

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
ORDERS = [column("id", "long"), column("day", "date"), column("country", "string"), column("amount", "long")]
MERGE_ON_READ = {"write.delete.mode": "merge-on-read"}
COUNTRIES = [column("country", "string"), column("region", "string")]
FIRST_DAY = date(1970, 1, 1)
_numbers = count()


class Orders:
    """A namespace of its own with orders and countries, and models over them."""

    def __init__(self, catalog: FrazilCatalog, spark: SparkSession, folder: Path) -> None:
        self.catalog, self.spark, self.folder = catalog, spark, folder
        self.namespace = f"n{next(_numbers)}"
        catalog.create_namespace(self.namespace)
        self.lake = Lake(catalog=catalog)
        self.orders, self.countries = self.name("orders"), self.name("countries")
        self.create_table(Table(self.orders, *ORDERS, partition_by=["day"], properties=MERGE_ON_READ))
        self.create_table(Table(self.countries, *COUNTRIES))
        self.next_id = count()

    def name(self, name: str) -> str:
        return f"{self.namespace}.{name}"

    def add(self, *days: int, country: str = "NO", amount: int = 10) -> None:
        rows = [(next(self.next_id), FIRST_DAY + timedelta(day), country, amount) for day in days]
        names = [field.name for field in ORDERS]
        self.lake.table(self.orders).append([dict(zip(names, row, strict=True)) for row in rows])

    def add_country(self, country: str, region: str) -> None:
        self.lake.table(self.countries).append([{"country": country, "region": region}])

    def delete(self, *ids: int) -> None:
        """By position deletes, as the table asks for."""
        self.spark.sql(f"DELETE FROM {self.catalog.name}.{self.orders} WHERE id IN ({', '.join(map(str, ids))})")

    def model(self, name: str, sql: str, **options: Any) -> Model:
        """A model whose table exists; `{orders}` and others in the SQL stand for tables of the namespace."""
        return model(self.name(name), self.sql(sql), **options)

    def sql(self, text: str) -> str:
        names = ("orders", "countries", "clean", "by_day", "by_region")
        for name in names:
            text = text.replace(f"{{{name}}}", self.name(name))
        return text

    def create(self, *models: Model) -> None:
        schemas = {name: self.catalog.load_table(name).schema() for name in (self.orders, self.countries)}
        finder = ModelSchemas(lambda: self.spark, self.folder / "models")
        for table in finder.tables(models, schemas):
            self.create_table(table)

    def create_table(self, table: Table) -> None:
        spec, properties = table.partition_spec(), dict(table.properties)
        self.catalog.create_table(table.identifier, table.schema(), partition_spec=spec, properties=properties)

    def run(self, *declared: Model | Pipeline, together: bool = False, **options: Any) -> list[RunResult]:
        run = GraphRun(
            [derivation_of(each) for each in declared], self.spark, self.catalog, self.folder, "tests", **options
        )
        return run.run_together() if together else run.run()

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        scanned = self.lake.table(self.name(name)).scan().to_arrow()
        return sorted(tuple(row.values()) for row in scanned.to_pylist())

    def defined(self, sql: str) -> list[tuple[Any, ...]]:
        """What Spark says that a query gives now."""
        text = self.sql(sql)
        for name in ("orders", "countries", "clean"):
            text = text.replace(self.name(name), f"{self.catalog.name}.{self.name(name)}")
        return sorted(tuple(row) for row in self.spark.sql(text).collect())


@pytest.fixture
def orders(catalog: FrazilCatalog, spark: SparkSession, tmp_path: Path) -> Orders:
    return Orders(catalog, spark, tmp_path)


BY_DAY = "SELECT day, country, sum(amount) AS amount, count(*) AS orders FROM {orders} GROUP BY day, country"
CLEAN = "SELECT id, day, upper(country) AS country, amount FROM {orders} WHERE amount > 0"
BY_REGION = "SELECT region, sum(amount) AS amount FROM {clean} JOIN {countries} USING (country) GROUP BY region"


def test_a_model_is_rebuilt_when_its_input_changes_and_only_then(orders: Orders) -> None:
    by_day = orders.model("by_day", BY_DAY)
    orders.create(by_day)
    orders.add(1, 1, 2)
    (first,) = orders.run(by_day)
    (second,) = orders.run(by_day)
    assert (first.rows, second.snapshot_id) == (2, None)
    orders.delete(0)
    orders.run(by_day)
    assert orders.rows("by_day") == orders.defined(BY_DAY)


def test_a_model_is_rebuilt_when_its_query_changes_in_more_than_its_layout(orders: Orders) -> None:
    before = orders.model("clean", CLEAN, mode="upsert", key=["id"])
    orders.create(before)
    orders.add(1, 2)
    orders.run(before)
    same = orders.model("clean", f"-- the same rows\n{CLEAN}", mode="upsert", key=["id"])
    after = orders.model("clean", CLEAN.replace("> 0", "> 0 AND id > 0"), mode="upsert", key=["id"])
    results = [orders.run(each)[0] for each in (same, after, after)]
    assert [result.snapshot_id is None for result in results] == [True, False, True]
    assert orders.rows("clean") == orders.defined(after.sql)


def test_rows_with_maps_are_followed(orders: Orders) -> None:
    table = Table(orders.name("labels"), column("id", "long"), column("labels", "map<string, string>"))
    orders.create_table(table)
    labels = orders.model("kept", f"SELECT id, labels FROM {table.name} WHERE id > 0", mode="upsert", key=["id"])
    orders.create_table(Table(labels.name, *table.columns))
    live = orders.lake.table(table.name)
    live.append([{"id": number, "labels": {"n": str(number)}} for number in range(4)])
    orders.run(labels)
    live.delete("id = 2")
    orders.run(labels)
    assert [row[0] for row in orders.rows("kept")] == [1, 3]


@pytest.mark.requirement("spark.table-source")
def test_an_append_model_adds_the_rows_of_new_orders(orders: Orders) -> None:
    clean = orders.model("clean", CLEAN, mode="append")
    orders.create(clean)
    orders.add(1, 2)
    orders.run(clean)
    orders.add(3)
    orders.add(4, amount=0)
    (result,) = orders.run(clean)
    assert result.rows == 1
    assert orders.rows("clean") == orders.defined(CLEAN)


@pytest.mark.requirement("spark.table-source")
def test_an_append_model_refuses_deleted_orders_until_it_is_refreshed(orders: Orders) -> None:
    clean = orders.model("clean", CLEAN, mode="append")
    orders.create(clean)
    orders.add(1, 2)
    orders.run(clean)
    orders.delete(0)
    with pytest.raises(PipelineError, match="can only add rows"):
        orders.run(clean)
    orders.run(clean, full_refresh=frozenset((clean.name,)))
    assert orders.rows("clean") == orders.defined(CLEAN)


@pytest.mark.requirement("spark.table-source")
@pytest.mark.parametrize(
    ("name", "sql", "options"),
    [
        ("clean", CLEAN, {"mode": "upsert", "key": ["id"]}),
        ("by_day", BY_DAY, {"mode": "replace-partition", "partition_by": ["day"]}),
        ("by_day", BY_DAY, {}),
    ],
    ids=["upsert", "replace-partition", "rebuild"],
)
def test_a_model_equals_its_definition_after_every_change(
    orders: Orders, name: str, sql: str, options: dict[str, Any]
) -> None:
    derived = orders.model(name, sql, **options)
    orders.create(derived)
    for step in _history(orders, random.Random(7)):
        step()
        orders.run(derived)
        assert orders.rows(name) == orders.defined(sql), step


def _history(orders: Orders, chance: random.Random) -> Iterator[Callable[[], object]]:
    table = orders.lake.table(orders.orders)
    yield lambda: orders.add(1, 1, 2, 3)
    yield lambda: orders.delete(1)
    yield lambda: orders.add(4, 2, country="SE")
    first = table.load().current_snapshot()
    assert first is not None
    yield lambda: table.overwrite(table.scan("day = date '1970-01-02'").to_arrow(), filter="day <= date '1970-01-03'")
    yield lambda: table.maintain("compact", dry_run=False, rewrite_all=True)
    yield lambda: orders.add(chance.randrange(5))
    yield lambda: table.rollback(first.snapshot_id)
    yield lambda: table.delete("day = date '1970-01-03'")


def made_by_spark(orders: Orders, name: str) -> list[bool]:
    """Of each snapshot of a table that added rows, whether a MERGE of Spark made it."""
    summaries = [
        each.summary.additional_properties
        for each in orders.catalog.load_table(orders.name(name)).metadata.snapshots
        if each.summary
    ]
    return ["spark.app.id" in summary for summary in summaries if summary.get("added-records", "0") != "0"]


def test_new_keys_are_appended_without_a_merge(orders: Orders) -> None:
    clean = orders.model("clean", CLEAN, mode="upsert", key=["id"])
    orders.create(clean)
    orders.add(1, 2)
    orders.run(clean)
    orders.add(3, 1, 4)
    (result,) = orders.run(clean)
    assert (result.rows, result.inserted, result.updated) == (3, 3, 0)
    assert made_by_spark(orders, "clean") == [True, False]
    assert orders.rows("clean") == orders.defined(CLEAN)


def test_new_rows_of_known_keys_are_merged_and_so_are_those_after_them(orders: Orders) -> None:
    latest = "SELECT CAST(amount AS BIGINT) AS id, id AS last, country FROM {orders} WHERE amount > 0"
    clean = orders.model("clean", latest, mode="upsert", key=["id"])
    orders.create(clean)
    counts = []
    for amounts in ((1, 5), (5,), (9,), (10, 10), (11,)):
        for amount in amounts:
            orders.add(1, amount=amount)
        (result,) = orders.run(clean)
        counts.append((result.inserted, result.updated))
    # 5 is known; 9 is merged, since the change before it was; 10 comes twice
    assert counts == [(2, 0), (0, 1), (1, 0), (1, 0), (1, 0)]
    assert made_by_spark(orders, "clean") == [True, True, True, True, False]
    assert [row[0] for row in orders.rows("clean")] == [1, 5, 9, 10, 11]
    assert orders.rows("clean")[1][1] == 2  # the later order


def test_keys_that_another_writer_brings_before_the_rows_are_staged_are_merged(orders: Orders) -> None:
    clean = orders.model("clean", CLEAN, mode="upsert", key=["id"])
    orders.create(clean)
    orders.add(1)
    orders.run(clean)
    orders.add(2)
    row = {"id": 1, "day": FIRST_DAY, "country": "XX", "amount": 7}
    strangers = iter([row])

    def bring(_name: str, _decision: object) -> None:
        for stranger in strangers:
            orders.lake.table(clean.name).append([stranger])

    (result,) = orders.run(clean, on_step=bring)
    assert (result.inserted, result.updated) == (0, 1)
    assert orders.rows("clean") == orders.defined(CLEAN)


def test_a_backfill_computes_days_again_and_leaves_other_changes_to_the_next_run(orders: Orders) -> None:
    by_day = orders.model("by_day", BY_DAY, mode="replace-partition", partition_by=["day"])
    orders.create(by_day)
    orders.add(1, 2, 3)
    orders.run(by_day)
    before = orders.rows("by_day")
    orders.lake.table(by_day.name).delete("day <= date '1970-01-03'")  # by accident
    orders.delete(0)
    orders.add(3)
    orders.run(by_day, days=Days(FIRST_DAY + timedelta(1), FIRST_DAY + timedelta(2)))
    assert orders.rows("by_day") == before[1:]  # day 1 is gone, day 3 as it was
    orders.run(by_day)
    assert orders.rows("by_day") == orders.defined(BY_DAY)


def test_a_query_with_a_new_column_is_refused_until_the_table_has_it(orders: Orders) -> None:
    orders.create(orders.model("clean", CLEAN))
    wider = orders.model("clean", CLEAN.replace("amount FROM", "amount, 2 * amount AS twice FROM"))
    orders.add(1)
    with pytest.raises(PipelineError) as raised:
        orders.run(wider)
    assert (raised.value.problem, raised.value.column) == ("schema", "twice")


@pytest.mark.requirement("spark.atomic")
def test_tables_of_a_graph_are_published_in_one_commit(orders: Orders) -> None:
    clean, by_region = orders.model("clean", CLEAN, mode="append"), orders.model("by_region", BY_REGION)
    orders.create(clean, by_region)
    orders.add_country("NO", "north")
    orders.add(1, 2)
    orders.run(clean, by_region, together=True)
    assert orders.rows("by_region") == [("north", 20)]
    loaded = {name: orders.catalog.load_table(orders.name(name)) for name in ("clean", "by_region")}
    recorded = read_progress(loaded["by_region"].metadata).part(f"{by_region.name}/part-0").inputs[clean.name]
    ancestors = {loaded["clean"].current_snapshot().parent_snapshot_id}  # type: ignore[union-attr]
    assert recorded.snapshot_id in ancestors  # what was staged is what was published
    assert orders.lake.table(by_region.name).history()[0].inputs[clean.name] == recorded.snapshot_id
    assert all(set(table.metadata.refs) == {"main"} for table in loaded.values())
    assert [result.snapshot_id for result in orders.run(clean, by_region, together=True)] == [None, None]
    (blamed,) = orders.lake.table(by_region.name).blame("amount = 20").rows
    assert tables_behind(blamed.sources) == {clean.name, orders.orders, orders.countries}  # to the first source


def tables_behind(sources: Sequence[RowSource]) -> set[str]:
    """The tables of which snapshots are named."""
    tables = [table for source in sources for table in source.upstream if table.snapshots]
    return {table.input.table for table in tables}.union(*(tables_behind(table.snapshots) for table in tables))


@pytest.mark.requirement("spark.atomic")
def test_all_tables_of_a_graph_are_made_from_inputs_of_one_moment(orders: Orders) -> None:
    """A commit to both inputs, after the first of them was read, counts for none of the tables."""
    clean, by_region = orders.model("clean", CLEAN, mode="append"), orders.model("by_region", BY_REGION)
    orders.create(clean, by_region)
    orders.add_country("NO", "north")
    orders.add(1)

    def add_both(name: str, _decision: object) -> None:
        if name == clean.name:
            orders.add(2)
            orders.add_country("NO", "again")

    orders.run(clean, by_region, together=True, on_step=add_both)
    assert (len(orders.rows("clean")), orders.rows("by_region")) == (1, [("north", 10)])
    orders.run(clean, by_region, together=True)
    assert orders.rows("by_region") == orders.defined(BY_REGION)


@pytest.mark.requirement("spark.atomic")
def test_a_failed_audit_publishes_no_table_of_the_graph(orders: Orders) -> None:
    clean = orders.model("clean", CLEAN, mode="append")
    by_day = orders.model("by_day", BY_DAY.replace("{orders}", "{clean}"), audit=["amount < 25"])
    orders.create(clean, by_day)
    orders.add(1, 2)
    orders.run(clean, by_day, together=True)
    orders.add(1, 1)
    with pytest.raises(AuditFailed):
        orders.run(clean, by_day, together=True)
    assert (len(orders.rows("clean")), len(orders.rows("by_day"))) == (2, 2)
    assert "main" in orders.catalog.load_table(clean.name).metadata.refs


@pytest.mark.parametrize(("sql", "options"), [(BY_DAY, {}), (CLEAN, {"mode": "upsert", "key": "id"})])
def test_a_failed_check_publishes_nothing(orders: Orders, sql: str, options: dict[str, Any]) -> None:
    checked = orders.model("by_day", sql, checks=["amount < 10"], **options)
    orders.create(checked)
    orders.add(1, 1, 1)
    with raises(RowRefused, table=checked.name, hint=re.compile("let the query leave such rows out")):
        orders.run(checked)
    assert orders.rows("by_day") == []
    assert set(orders.catalog.load_table(checked.name).metadata.refs) <= {"main"}


def test_of_two_runs_at_once_the_first_to_commit_wins(orders: Orders) -> None:
    by_day = orders.model("by_day", BY_DAY)
    orders.create(by_day)
    orders.add(1)

    def run_another(_name: str, _decision: object) -> None:
        orders.run(by_day)

    with pytest.raises(PipelineError, match="another run committed first"):
        orders.run(by_day, on_step=run_another)
    assert orders.rows("by_day") == orders.defined(BY_DAY)


ENDS = ("aborted", "committed")  # of a run that is overtaken, and of the next one


class Heard:
    """An observer of runs: their events, and the runs that have not ended."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []
        self.names: dict[str, str] = {}

    def started(self, run: RunStart) -> None:
        self.names[run.run_id] = run.pipeline
        self.events.append(("started", run.pipeline))

    def ended(self, result: RunResult) -> None:
        if self.names.pop(result.run_id, None):
            self.events.append(("failed" if result.error else "committed", result.pipeline))

    def aborted(self, run_id: str, reason: str) -> None:
        if name := self.names.pop(run_id, None):
            self.events.append(("aborted", name))


@pytest.mark.parametrize("moment", ["while it is staged", "before commit"])
def test_a_run_that_is_overtaken_is_aborted_and_the_next_attempt_is_committed(orders: Orders, moment: str) -> None:
    clean = orders.model("clean", CLEAN, mode="upsert", key=["id"])
    by_day = orders.model("by_day", BY_DAY)
    orders.create(clean, by_day)
    orders.add(1)
    orders.run(by_day, clean, together=True)
    orders.add(2)
    strangers = iter([{"id": 1, "day": FIRST_DAY, "country": "XX", "amount": 7}])

    def bring(*what: object) -> None:
        if what[0] in (clean.name, moment):
            for stranger in strangers:
                orders.lake.table(clean.name).append([stranger])

    heard = Heard()
    when = {"on_step": bring} if moment == "while it is staged" else {"retry": RetryPolicy(on_step=bring)}
    with observing(heard):
        orders.run(by_day, clean, together=True, **when)
    names = [by_day.name, clean.name]
    attempts = [[("started", name) for name in names] + [(end, name) for name in names] for end in ENDS]
    assert ([sorted(heard.events[:4]), sorted(heard.events[4:])], heard.names) == (list(map(sorted, attempts)), {})
    assert orders.rows("clean") == orders.defined(CLEAN)


class Killed(BaseException):
    """The driver is gone."""


@pytest.mark.requirement("spark.atomic")
def test_a_run_that_is_killed_at_any_step_brings_nothing_in_twice(orders: Orders) -> None:
    clean, by_region = orders.model("clean", CLEAN, mode="append"), orders.model("by_region", BY_REGION)
    orders.create(clean, by_region)
    orders.add_country("NO", "north")
    seen: list[str] = []
    for number in count():
        orders.add(1)
        if not _run_killed(orders, clean, by_region, after=number, seen=seen):
            break
        orders.run(clean, by_region, together=True)
        assert orders.rows("clean") == orders.defined(CLEAN), seen[-1]
        assert orders.rows("by_region") == orders.defined(BY_REGION), seen[-1]
        assert _branches(orders, clean, by_region) == {"main"}, seen[-1]
    assert {"before load", "staged", "before commit", "after commit"} <= set(seen)


def _run_killed(orders: Orders, *models: Model, after: int, seen: list[str]) -> bool:
    """Whether a run was killed: after so many steps of its commits."""
    steps = count()

    def step(name: str) -> None:
        seen.append(name)
        if next(steps) == after:
            raise Killed(name)

    try:
        orders.run(*models, together=True, retry=RetryPolicy(on_step=step))
    except Killed:
        return True
    return False


def _branches(orders: Orders, *models: Model) -> set[str]:
    return {ref for each in models for ref in orders.catalog.load_table(each.name).metadata.refs}


def test_a_table_that_is_rolled_back_to_what_a_run_staged_gets_no_row_twice(orders: Orders) -> None:
    clean = orders.model("clean", CLEAN, mode="append")
    orders.create(clean)
    for day in (1, 2):
        orders.add(day)
        orders.run(clean)
    published = orders.catalog.load_table(clean.name).current_snapshot()
    assert published is not None
    assert published.parent_snapshot_id is not None
    orders.add(3)
    orders.run(clean)
    orders.lake.table(clean.name).rollback(published.parent_snapshot_id, with_progress=True)
    orders.run(clean)
    assert orders.rows("clean") == orders.defined(CLEAN)


@pytest.mark.requirement("spark.table-source")
def test_a_pipeline_joins_new_rows_with_a_whole_table(orders: Orders) -> None:
    target = Table(orders.name("clean"), column("id", "long"), column("region", "string"))

    @pipeline(
        source={"orders": sources.table(orders.orders), "countries": sources.table(orders.countries, full=True)},
        target=target,
    )
    def regions(orders: DataFrame, countries: DataFrame) -> DataFrame:
        return orders.join(countries, "country").select("id", "region")

    orders.create_table(target)
    orders.add_country("NO", "north")
    orders.add(1)
    orders.run(regions)
    orders.add(2, 3)
    (result,) = orders.run(regions)
    assert result.rows == 2
    assert orders.rows("clean") == [(0, "north"), (1, "north"), (2, "north")]


@pytest.mark.requirement("spark.table-source")
@pytest.mark.requirement("spark.graph")
def test_a_function_follows_the_changes_of_a_model_that_is_published_with_it(orders: Orders) -> None:
    clean = orders.model("clean", CLEAN, mode="upsert", key=["id"])
    target = Table(orders.name("by_region"), column("id", "long"), column("amount", "long"), column("region", "string"))
    inputs = {
        "orders": sources.table(clean.name, changes=True),
        "countries": sources.table(orders.countries, full=True),
    }

    @pipeline(source=inputs, target=target, mode="upsert", key=["id"])
    def regions(orders: DataFrame, countries: DataFrame) -> DataFrame:
        return orders.join(countries, "country", "left").select("id", "amount", "region", "_change_type")

    orders.create(clean)
    orders.create_table(target)
    rows = orders.lake.table(orders.orders)

    def change_and_delete() -> None:
        rows.delete("id = 1")
        rows.upsert([{"id": 0, "day": FIRST_DAY + timedelta(1), "country": "NO", "amount": 7}], key="id")

    def delete_and_move() -> None:  # one row goes, and the others get another region
        rows.delete("id = 2")
        orders.add_country("NO", "north")

    for step in (lambda: orders.add(1, 2, 3), change_and_delete, delete_and_move):
        step()
        orders.run(clean, regions, together=True)
        assert orders.rows("clean") == orders.defined(CLEAN), step
        assert orders.rows("by_region") == orders.defined(
            "SELECT id, amount, region FROM {clean} LEFT JOIN {countries} USING (country)"
        ), step


@pytest.mark.requirement("spark.table-source")
def test_inserts_updates_and_deletes_are_appended_to_a_log_of_changes(orders: Orders) -> None:
    kinds = [column("id", "long"), column("kind", "string"), column("amount", "long")]

    @pipeline(source=sources.table(orders.orders, changes=True), target=Table(orders.name("clean"), *kinds))
    def log(rows: DataFrame) -> DataFrame:
        return rows.selectExpr("id", "_change_type AS kind", "amount")

    orders.create_table(log.target)
    orders.add(1, 2)
    orders.run(log)
    orders.delete(0)
    orders.lake.table(orders.orders).upsert(
        [{"id": 1, "day": FIRST_DAY + timedelta(2), "country": "NO", "amount": 7}], key="id"
    )
    orders.run(log)
    orders.add(3)
    orders.run(log)
    assert [result.snapshot_id for result in orders.run(log)] == [None]
    assert orders.rows("clean") == [
        (0, "DELETE", 10),
        (0, "INSERT", 10),
        (1, "DELETE", 10),
        (1, "INSERT", 7),
        (1, "INSERT", 10),
        (2, "INSERT", 10),
    ]


def test_a_full_refresh_of_an_upsert_has_one_row_for_each_key_and_none_that_is_deleted(orders: Orders) -> None:
    """The input is a log of changes: its `amount` is their order, its `country` says what they are."""

    @pipeline(
        source=sources.table(orders.orders),
        target=Table(orders.name("clean"), column("day", "date"), column("amount", "long")),
        mode="upsert",
        key=["day"],
        sequence="amount",
        op="country",
    )
    def latest(rows: DataFrame) -> DataFrame:
        return rows.select("day", "amount", "country")

    orders.create_table(latest.target)
    for day, kind, amount in ((1, "insert", 1), (2, "insert", 2), (1, "update", 3), (2, "delete", 4)):
        orders.add(day, country=kind, amount=amount)
    for refreshed in (frozenset[str](), frozenset(("latest",))):
        orders.run(latest, full_refresh=refreshed)
        assert orders.rows("clean") == [(FIRST_DAY + timedelta(1), 3)]


# --- environments ----------------------------------------------------------------------------------------------------


def _publish(orders: Orders, *models: Model) -> EnvironmentPublication:
    names = [each.name for each in models]
    plan = plan_environment_publication(orders.catalog, names, "dev")
    publish_environment(orders.catalog, names, plan)
    return plan


def test_a_graph_runs_in_an_environment_and_is_published_at_once(orders: Orders) -> None:
    clean = orders.model("clean", CLEAN, mode="upsert", key=["id"])
    by_day = orders.model("by_day", BY_DAY.replace("{orders}", "{clean}"))  # has no rows on main yet
    orders.create(clean, by_day)
    orders.add(1, 2)
    orders.run(clean)
    orders.add(3)
    first, second = orders.run(clean, by_day, env="dev")
    assert (first.inserted, second.rows) == (1, 3)  # goes on where main was
    assert [result.snapshot_id for result in orders.run(clean, by_day, env="dev")] == [None, None]
    assert (len(orders.rows("clean")), orders.rows("by_day")) == (2, [])
    expected = [(each.table, each.rows_added, each.rows_removed) for each in _differences(orders, clean, by_day)]
    assert expected == [(clean.name, 1, 0), (by_day.name, 3, 0)]
    _publish(orders, clean, by_day)
    assert orders.rows("clean") == orders.defined(CLEAN)
    assert orders.rows("by_day") == orders.defined(BY_DAY.replace("{orders}", "{clean}"))
    assert [result.snapshot_id for result in orders.run(clean, by_day)] == [None, None]
    assert _branches(orders, clean, by_day) == {"main"}


def _differences(orders: Orders, *models: Model) -> list[TableDifference]:
    names = [each.name for each in models]
    return diff_environment(find_members(orders.catalog, names, "dev"), "dev")


def test_main_and_an_environment_run_side_by_side(orders: Orders) -> None:
    clean = orders.model("clean", CLEAN, mode="upsert", key=["id"])
    orders.create(clean)
    orders.add(1)
    orders.run(clean)

    def run_on_main(_name: str, _decision: object) -> None:
        orders.run(clean)

    orders.add(2)
    orders.run(clean, env="dev", on_step=run_on_main)  # neither removes what the other one has staged
    assert orders.rows("clean") == orders.defined(CLEAN)
    with pytest.raises(EnvironmentMoved):
        _publish(orders, clean)
    names = [clean.name]
    plan = plan_environment_drop(find_members(orders.catalog, names, "dev"), "dev")
    perform_environment_drop(orders.catalog, names, plan)
    assert _branches(orders, clean) == {"main"}


def test_files_that_are_loaded_in_an_environment_are_loaded_on_main_once_it_is_published(orders: Orders) -> None:
    target = Table(orders.name("clean"), column("id", "long"), checks=["id > 0"])

    @pipeline(source=sources.csv("landing/*.csv"), target=target, max_bad_share=0.9)
    def load(frame: DataFrame) -> DataFrame:
        return frame.selectExpr("CAST(id AS long) AS id")

    def run(env: str | None) -> int:
        options: dict[str, Any] = {"catalog": orders.catalog, "folder": orders.folder, "owner": "tests", "env": env}
        return run_pipeline(load, spark=orders.spark, **options).files

    def land(name: str) -> None:
        (orders.folder / "landing").mkdir(exist_ok=True)
        (orders.folder / "landing" / name).write_text("id\n1\n-1\n")

    orders.create_table(target)
    land("a.csv")
    assert run(None) == 1
    land("b.csv")
    assert [run("dev"), run("dev")] == [1, 0]
    quarantine = orders.lake.table(f"{target.name}__quarantine")
    assert (len(orders.rows("clean")), quarantine.scan().to_arrow().num_rows) == (1, 1)
    land("c.csv")
    assert run("dev") == 1
    publish_environment(
        orders.catalog, [target.name], plan_environment_publication(orders.catalog, [target.name], "dev")
    )
    assert (len(orders.rows("clean")), quarantine.scan().to_arrow().num_rows) == (3, 3)
    assert run(None) == 0
