"""The sales example with its models: processes that compute them, changes of their inputs, and what each table must
hold.
"""

from __future__ import annotations

import datetime as dt
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any, Generic, TypeVar

from frazil import Lake
from frazil.client import FrazilCatalog
from frazil.errors import ProgressMismatch
from frazil.services import ports
from frazil.services.spark import Spark
from frazil.write.commit import InputState, read_progress
from tests.faults.graph_runner import runner_settings
from tests.faults.pipeline_processes import Runners, load_landing

T = TypeVar("T")
Row = tuple[Any, ...]
SALES, CUSTOMERS = "lakehouse.sales", "lakehouse.customers"
ORDERS, SILVER_CUSTOMERS, REVENUE = "silver.orders", "silver.customers", "gold.revenue"
MODELS = (ORDERS, SILVER_CUSTOMERS, REVENUE)
ROWS, LATE, CORRECTED = 40, 3, 4  # of a landing file
LONGEST_RUN_SECONDS = 12.0
REFUSED = ("overtaken", "contended")  # another run or writer was first


class Deck(Generic[T]):
    """Draws at random; nothing comes again before everything has come."""

    def __init__(self, chance: random.Random, *cards: T) -> None:
        self.chance, self.cards, self.left = chance, cards, list[T]()

    def draw(self) -> T:
        self.left = self.left or self.chance.sample(self.cards, len(self.cards))
        return self.left.pop()


class GraphLake(Runners):
    """The example in a folder, its catalog, and processes that load files and compute models."""

    def __init__(self, folder: Path, uri: str, catalog: FrazilCatalog, chance: random.Random) -> None:
        super().__init__(folder, uri, "tests.faults.graph_runner")
        self.catalog, self.lake = catalog, Lake(catalog=catalog)
        self.calls = 30  # to the catalog, in the last run that computed something
        self.begin(chance)
        self.expired: set[int] = set()  # snapshots of inputs

    def begin(self, chance: random.Random) -> None:
        """A new campaign: nothing is counted yet, and chance decides what comes."""
        self.chance = chance
        corrections = (self.correct, self.correct_customers, self.delete, self.delete_customers)
        self.changes = Deck(chance, *corrections, self.roll_back, self.compact)
        self.rolled_back = Deck(chance, SALES, CUSTOMERS, ORDERS, REVENUE)
        self.compacted, self.cut = Deck(chance, SALES, *MODELS), Deck(chance, SALES, ORDERS)
        self.checked: Counter[str] = Counter()  # tables, in `check`
        self.done: Counter[str] = Counter()  # changes of the inputs that had an effect, and kills of runs

    def note(self, what: str) -> None:
        """What happens, which a campaign that fails prints."""
        print(what, end=" ", flush=True)

    @contextmanager
    def warm_spark(self) -> Iterator[Spark]:
        """Runs share the JVM of a warm Spark, which lives on when they are killed."""
        self.close()
        self.idle.clear()
        spark = Spark(runner_settings(self.folder, self.uri, **{"stack.ports.spark": str(ports.free_port())}))
        spark.start()
        try:
            yield spark
        finally:
            self.close()
            self.idle.clear()
            spark.stop()

    # --- runs --------------------------------------------------------------------------------------------------------

    def run(self, what: str = "graph") -> str:
        """A run that is not disturbed. If history that it needs is gone, it says so, and a full refresh follows."""
        with self.runner() as runner:
            answer = self._note(runner.run(what))
            if answer == "expired":
                answer = self._note(runner.run("refresh"))
        assert "tables" in answer, answer
        return answer

    def _note(self, answer: str) -> str:
        if answer.startswith(tuple("123")) and "tables" in answer:
            self.calls = int(answer.split()[-2])
        return answer

    def kill_once(self) -> bool:
        """A run that is killed at a call to the catalog, or after some time; False if it ended before that."""
        by_call = self.chance.random() < 0.7
        die_at = self.chance.randint(1, self.calls + 2) if by_call else 0
        with self.runner() as runner:
            runner.begin("graph", die_at=die_at, when=self.chance.choice(["before", "after"]))
            if not by_call:
                time.sleep(self.chance.uniform(0, LONGEST_RUN_SECONDS))
                runner.process.kill()
                runner.process.wait()  # also if it has answered before: it is not used again
            killed = not runner.answer()
        self.done["kill"] += killed
        return killed

    def run_both(self) -> None:
        """Two runs at once, while their inputs change; what is refused is refused because the other one was first."""
        with self.runner() as first, self.runner() as second:
            for runner in (first, second):
                runner.begin("graph")
            self.change_inputs()
            answers = [first.answer(), second.answer()]
        assert any("tables" in answer for answer in answers), answers
        assert all("tables" in answer or answer in REFUSED for answer in answers), answers

    def continue_old_run(self) -> None:
        """A run stops before a call to the catalog, a newer one runs to its end, and the old one goes on."""
        with self.runner() as old, self.runner() as new:
            old.begin("graph", die_at=self.chance.randint(1, self.calls), when="pause")
            assert old.wait_until_stopped()
            self.change_inputs()
            assert "tables" in new.run("graph")
            old.go_on()
            answer = old.answer()
            assert "tables" in answer or answer in REFUSED, answer

    # --- changes of the inputs ---------------------------------------------------------------------------------------

    @property
    def days(self) -> list[dt.date]:
        files = (self.folder / "landing").glob("sales-*.csv")
        return sorted(dt.date.fromisoformat(file.stem.removeprefix("sales-")) for file in files)

    def land(self) -> None:
        """The files of one more day, loaded: new orders, late ones, corrected ones, and customers that moved."""
        landing, folder = load_landing(), self.folder / "landing"
        days = len(self.days) + 1
        (file,) = landing.write_landing(folder, days=days, rows=ROWS, bad=2, repeated=2, late=LATE, corrected=CORRECTED)
        landing.write_customers(
            folder, dt.date.fromisoformat(file.stem.removeprefix("sales-")), self.chance.randrange(3)
        )
        self.run("load")

    def change_inputs(self) -> None:
        for name in (SALES, CUSTOMERS):
            while not self.lake.table(name).count():  # rolled back to its start: nothing to correct or delete
                self.note(f"{name} is empty")
                self.land()
        change = self.changes.draw()
        self.note(change.__name__)
        snapshots = self._snapshots()
        change()
        self.done[change.__name__] += self._snapshots() != snapshots

    def correct(self) -> None:
        """Some orders get another amount, in place."""
        rows = self._sample(SALES, 3)
        for row in rows:
            row["amount"] += Decimal("1.25")
        self.lake.table(SALES).overwrite(rows, filter=_among("order_id", rows))

    def correct_customers(self) -> None:
        rows = self._sample(CUSTOMERS, 3)
        for row in rows:
            row["country"], row["updated_at"] = "no", row["updated_at"] + dt.timedelta(minutes=1)
        self.lake.table(CUSTOMERS).upsert(rows, key="customer_id", sequence="updated_at")

    def delete(self) -> None:
        self.lake.table(SALES).delete(_among("order_id", self._sample(SALES, 3)))

    def delete_customers(self) -> None:
        self.lake.table(CUSTOMERS).delete(_among("customer_id", self._sample(CUSTOMERS, 3)))

    def roll_back(self) -> None:
        """An input, or a model's own table with its progress, becomes what it was."""
        table = self.lake.table(self.rolled_back.draw())
        snapshots = [entry.snapshot_id for entry in table.history()][1:4]
        if snapshots:
            self.note(table.name)
            with suppress(ProgressMismatch):  # an empty snapshot that a stage began with has none
                table.rollback(self.chance.choice(snapshots), with_progress=True)

    def compact(self) -> None:
        table = self.lake.table(self.compacted.draw())
        table.maintain("compact", "manifests", dry_run=False, rewrite_all=True)

    def expire(self) -> None:
        """All snapshots but the current one expire, also those that a model has read last; then it runs, or says that
        it has to be computed from all rows.
        """
        table = self.catalog.load_table(self.cut.draw())
        before = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
        table.maintenance.expire_snapshots().older_than(dt.datetime.now() + dt.timedelta(minutes=1)).commit()
        gone = before - {snapshot.snapshot_id for snapshot in table.refresh().metadata.snapshots}
        self.expired |= gone
        self.done["expire"] += bool(gone)
        self.run()

    def _snapshots(self) -> list[int | None]:
        tables = self.catalog.load_tables((SALES, CUSTOMERS, *MODELS))
        return [table.metadata.current_snapshot_id for table in tables]

    def _sample(self, name: str, most: int) -> list[dict[str, Any]]:
        rows = self.lake.table(name).scan().to_arrow().to_pylist()
        key = "order_id" if name == SALES else "customer_id"
        rows.sort(key=lambda row: (row[key], str(row)))
        chosen = {row[key] for row in self.chance.sample(rows, min(most, len(rows)))}
        return [row for row in rows if row[key] in chosen]

    # --- what must hold ----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Every derived table is its definition over the snapshots that its progress names, unless one has expired."""
        for name in MODELS:
            table = self.catalog.load_table(name)
            inputs = read_progress(table.metadata).part(f"{name}/part-0").inputs
            rows = [self._rows_at(each, inputs.get(each)) for each in INPUTS[name]]
            if None not in rows:
                assert self.rows(name) == sorted(DEFINITIONS[name](*rows)), (name, inputs)
                self.checked[name] += 1

    def check_fresh(self) -> None:
        """Every derived table is its definition over its inputs as they are now."""
        for name in MODELS:
            expected = DEFINITIONS[name](
                *(self.lake.table(each).scan().to_arrow().to_pylist() for each in INPUTS[name])
            )
            assert self.rows(name) == sorted(expected), name

    def check_counts(self, *, least: int) -> None:
        """The checks looked at each derived table, mostly once per step: not where an input had expired."""
        self.note(f"\nchecks: {dict(self.checked)}; changes: {dict(self.done)}\n")
        assert min(self.checked[name] for name in MODELS) >= least, self.checked

    def check_clean(self) -> None:
        """No staging branch is left, and each run that committed is recorded once."""
        for name in MODELS:
            table = self.catalog.load_table(name)
            assert set(table.metadata.refs) <= {"main"}, (name, table.metadata.refs)
            if self.catalog.table_exists(f"{name}__runs"):
                runs = self.catalog.load_table(f"{name}__runs").scan(row_filter="status = 'committed'").to_arrow()
                assert len(set(runs["run_id"].to_pylist())) == runs.num_rows

    def rows(self, name: str) -> list[Row]:
        return sorted(tuple(row.values()) for row in self.lake.table(name).scan().to_arrow().to_pylist())

    def _rows_at(self, name: str, state: InputState | None) -> list[dict[str, Any]] | None:
        """The rows of an input; None if their snapshot has expired."""
        if state is None or state.snapshot_id is None:
            return []
        if self.catalog.load_table(name).metadata.snapshot_by_id(state.snapshot_id) is None:
            assert state.snapshot_id in self.expired, (name, state)
            return None
        return self.lake.table(name).scan(at=state.snapshot_id).to_arrow().to_pylist()


def _among(key: str, rows: Iterable[dict[str, Any]]) -> str:
    return f"{key} IN ({', '.join(repr(value) for value in sorted({row[key] for row in rows}))})"


def _orders(sales: list[dict[str, Any]]) -> list[Row]:
    versions: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for row in sales:
        rank = (row["ingestion_date"], row["amount"], row["customer_id"], row["country"] is not None, row["country"])
        versions[row["order_id"]].append((rank, row))
    rows = []
    for order_id, ranked in versions.items():
        row = max(ranked, key=lambda version: version[0])[1]
        day = dt.datetime.strptime(order_id[4:12], "%Y%m%d").date()
        rows.append((day, order_id, row["customer_id"], row["amount"], row["country"]))
    return rows


def _customers(customers: list[dict[str, Any]]) -> list[Row]:
    return [(row["customer_id"], row["name"].strip().title(), row["country"].upper()) for row in customers]


def _revenue(orders: list[dict[str, Any]], customers: list[dict[str, Any]]) -> list[Row]:
    countries = {row["customer_id"]: row["country"] for row in customers}
    sums: dict[Row, list[Decimal]] = defaultdict(list)
    for row in orders:
        country = row["country"] or countries.get(row["customer_id"]) or "unknown"
        sums[row["day"], country].append(row["amount"])
    return [(day, country, len(amounts), sum(amounts)) for (day, country), amounts in sums.items()]


INPUTS = {ORDERS: (SALES,), SILVER_CUSTOMERS: (CUSTOMERS,), REVENUE: (ORDERS, SILVER_CUSTOMERS)}
DEFINITIONS: dict[str, Callable[..., list[Row]]] = {
    ORDERS: _orders,
    SILVER_CUSTOMERS: _customers,
    REVENUE: _revenue,
}
