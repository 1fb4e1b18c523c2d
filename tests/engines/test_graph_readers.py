"""Readers of tables that are published as one: PyIceberg, Trino, Spark and Frazil never see a summary that disagrees
with the rows it was made from, on the live stack. Tables that are published one by one are seen to disagree.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from frazil import Lake, Table, column
from frazil.client import FrazilCatalog
from frazil.config import load_settings
from frazil.pipelines.models import Decision, Derivation, GraphRun, derivation_of, model
from frazil.spark.session import spark_session
from frazil.write.commit import RetryPolicy
from tests.conftest import Campaign
from tests.engines.walkers import Trino
from tests.kit.spark_lake import CONF
from tests.kit.stack import Project
from tests.kit.stack_lake import environment

# PySpark leaves the sockets of `collect` to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
BRONZE, SILVER, GOLD = "readers.bronze", "readers.silver", "readers.gold"
READERS = ("pyiceberg", "trino", "spark", "frazil")
Total = Callable[[str], int]  # the sum of a table's amounts
BOTH = f"SELECT (SELECT coalesce(sum(amount), 0) FROM {GOLD}), (SELECT coalesce(sum(amount), 0) FROM {SILVER})"


@dataclass
class Looks:
    """What a reader saw: totals of gold, silver and gold again."""

    reader: str
    total: Total
    seen: list[tuple[int, int, int]] = field(default_factory=list)

    def look(self) -> None:
        self.seen.append((self.total(GOLD), self.total(SILVER), self.total(GOLD)))

    @property
    def settled(self) -> list[tuple[int, int]]:
        """Gold and silver where gold was the same before and after: every run adds to its total."""
        return [(gold, silver) for gold, silver, again in self.seen if gold == again]

    @property
    def disagreeing(self) -> list[tuple[int, int]]:
        return [(gold, silver) for gold, silver in self.settled if gold != silver]


@dataclass
class Graph:
    """Orders, their cleaned copy and its sum, on the live stack; each reader has its own way to the tables."""

    catalog: FrazilCatalog
    spark: SparkSession
    folder: Path
    totals: Mapping[str, Total]
    derivations: list[Derivation]

    def add_orders(self) -> None:
        Lake(catalog=self.catalog).table(BRONZE).append([{"id": 1, "amount": 10}, {"id": 2, "amount": 5}])

    def run(self, looks: list[Looks], *, together: bool) -> list[str]:
        """A run during which all readers look at each step; the steps."""
        steps: list[str] = []

        def look(step: str) -> None:
            steps.append(step)
            for each in looks:
                each.look()

        def begin(name: str, _: Decision) -> None:
            look(f"compute {name}")

        run = GraphRun(
            self.derivations,
            self.spark,
            self.catalog,
            self.folder,
            "tests",
            on_step=begin,
            retry=RetryPolicy(on_step=look),
        )
        results = run.run_together() if together else run.run()
        assert all(result.snapshot_id is not None for result in results)
        return steps

    def looks(self) -> list[Looks]:
        return [Looks(reader, self.totals[reader]) for reader in READERS]

    def look_at_both(self) -> tuple[int, int]:
        """Gold and silver by one query of `lake.sql`, which reads both as they were at one moment."""
        columns = Lake(catalog=self.catalog).sql(BOTH).to_arrow().columns
        gold, silver = (int(column[0].as_py()) for column in columns)
        return gold, silver


@pytest.fixture(scope="module")
def graph(
    live_stack: Project, stack_catalog: FrazilCatalog, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Graph]:
    folder = tmp_path_factory.mktemp("readers")
    settings = load_settings(flags=CONF, folder=folder, environ=environment(live_stack))
    columns = [column("id", "long"), column("amount", "long")]
    silver = model(SILVER, f"SELECT id, amount FROM {BRONZE} WHERE amount > 0", mode="append", columns=columns)
    gold = model(GOLD, f"SELECT sum(amount) AS amount FROM {SILVER}", columns=[column("amount", "long")])
    stack_catalog.create_namespace("readers")
    for table in (Table(BRONZE, *columns), silver.table(), gold.table()):
        stack_catalog.create_table(table.identifier, table.schema())
    trino = Trino(live_stack, folder)
    with spark_session(settings, app_name="readers", log=folder / "spark.log") as spark:

        def by_pyiceberg(name: str) -> int:
            amounts = stack_catalog.load_table(name).scan(selected_fields=("amount",)).to_arrow()["amount"]
            return sum(amounts.to_pylist())

        def by_trino(name: str) -> int:
            return int(trino.sql(f"SELECT coalesce(sum(amount), 0) FROM iceberg.{name}")[0][0])

        def by_spark(name: str) -> int:
            (row,) = spark.sql(f"SELECT coalesce(sum(amount), 0) FROM {stack_catalog.name}.{name}").collect()
            return int(row[0])

        def by_frazil(name: str) -> int:
            rows = Lake(catalog=stack_catalog).sql(f"SELECT coalesce(sum(amount), 0) FROM {name}").to_arrow()
            return int(rows.column(0)[0].as_py())

        totals = dict(zip(READERS, (by_pyiceberg, by_trino, by_spark, by_frazil), strict=True))
        yield Graph(stack_catalog, spark, folder, totals, [derivation_of(silver), derivation_of(gold)])
    trino.close()
    for identifier in stack_catalog.list_tables("readers"):
        stack_catalog.purge_table(identifier)
    stack_catalog.drop_namespace("readers")


@pytest.mark.requirement("spark.atomic")
def test_at_every_step_of_an_atomic_run_readers_find_gold_and_silver_in_agreement(graph: Graph) -> None:
    graph.add_orders()
    looks = graph.looks()
    steps = graph.run(looks, together=True)
    assert {"staged", "before commit", "after commit", f"compute {GOLD}"} <= set(steps)
    assert {each.reader: each.disagreeing for each in looks} == {reader: [] for reader in READERS}
    assert {each.reader: len(each.settled) for each in looks} == dict.fromkeys(READERS, len(steps))


@pytest.mark.requirement("spark.atomic")
def test_between_two_commits_of_a_run_that_is_not_atomic_every_reader_finds_that_they_disagree(graph: Graph) -> None:
    graph.add_orders()
    looks = graph.looks()
    graph.run(looks, together=False)
    assert {each.reader: bool(each.disagreeing) for each in looks} == dict.fromkeys(READERS, True)


@pytest.mark.requirement("spark.atomic")
def test_readers_that_poll_during_atomic_runs_never_find_that_gold_and_silver_disagree(
    graph: Graph, campaign: Campaign
) -> None:
    looks, queries = graph.looks(), list[tuple[int, int]]()
    with polling(*(each.look for each in looks), lambda: queries.append(graph.look_at_both())):
        for _ in range(campaign.size(short=2, full=100)):
            graph.add_orders()
            graph.run([], together=True)
    totals = {**{each.reader: each.settled for each in looks}, "one query": queries}
    print({reader: f"{len(seen)} looks at {len(set(seen))} states" for reader, seen in totals.items()})
    assert {each.reader: each.disagreeing for each in looks} == {reader: [] for reader in READERS}
    # readers that are as slow as the runs come to look at many of their results
    assert min(len(set(seen)) for seen in totals.values()) >= campaign.size(short=1, full=20)
    assert [(gold, silver) for gold, silver in queries if gold != silver] == []


@contextmanager
def polling(*looks: Callable[[], None]) -> Iterator[None]:
    """Each look is repeated, in a thread of its own; the first error ends it, and is raised."""
    done, errors = threading.Event(), list[Exception]()

    def poll(look: Callable[[], None]) -> None:
        try:
            while not done.is_set():
                look()
        except Exception as exc:
            errors.append(exc)

    threads = [threading.Thread(target=poll, args=(look,)) for look in looks]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
