"""One case in a process of its own: `python -m benchmarks.graph.case WRITER FOLDER URI ORDERS CHANGES`; prints what it
cost as JSON. WRITER is ours or rebuild.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.batch.tree import TreeMeter
from benchmarks.graph.rows import CHECKS, LARGE_ORDERS, REVENUE, SILVER, Size, ids, orders
from frazil import Table, column
from frazil.client import connect
from frazil.config import load_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.client import FrazilCatalog

ORDERS = [
    column("order_id", "long"),
    column("customer_id", "int"),
    column("amount", "decimal(12,2)"),
    column("country", "string"),
    column("day", "date"),
    column("load", "int"),
]


class Case:
    """The tables of one writer, in a namespace of its own."""

    def __init__(self, spark: SparkSession, catalog: FrazilCatalog, namespace: str, folder: Path, size: Size) -> None:
        self.spark, self.catalog, self.folder, self.size = spark, catalog, folder, size
        self.names = {name: f"{namespace}.{name}" for name in ("orders", "silver", "revenue", "large")}
        catalog.create_namespace(namespace)
        self.create(Table(self.names["orders"], *ORDERS, partition_by=["day"]))

    def create(self, table: Table) -> None:
        self.catalog.create_table(table.identifier, table.schema(), partition_spec=table.partition_spec())

    def load(self, number: int) -> None:
        """Brings orders to the first table, as its owner does: not measured."""
        first, last = ids(self.size, number)
        query = orders(self.size, number).format(range=f"range({first}, {last})")
        rows = self.spark.sql(query).repartition(4, "day") if number == 0 else self.spark.sql(query).coalesce(1)
        rows.sortWithinPartitions("day").writeTo(f"{self.catalog.name}.{self.names['orders']}").append()

    def check(self) -> list[Any]:
        """What the tables came to."""
        qualified = {name: f"{self.catalog.name}.{table}" for name, table in self.names.items()}
        return [[str(value) for value in self.spark.sql(sql.format(**qualified)).first()] for sql in CHECKS]


def ours(case: Case) -> Callable[[], None]:
    """The graph, published in one commit."""
    from frazil.pipelines.models import GraphRun, ModelSchemas, derivation_of, model

    models = [
        model(case.names["silver"], SILVER.format(**case.names), mode="append", partition_by="day"),
        model(case.names["revenue"], REVENUE.format(**case.names), mode="replace-partition", partition_by="day"),
        model(case.names["large"], LARGE_ORDERS.format(**case.names), mode="upsert", key="order_id"),
    ]
    schemas = {case.names["orders"]: case.catalog.load_table(case.names["orders"]).schema()}
    for table in ModelSchemas(lambda: case.spark, case.folder / "models").tables(models, schemas):
        case.create(table)
    derivations = [derivation_of(each) for each in models]

    def run() -> None:
        GraphRun(derivations, case.spark, case.catalog, case.folder, "bench").run_together()

    return run


def rebuild(case: Case) -> Callable[[], None]:
    """What one writes without Frazil: each table again from all rows."""
    qualified = {name: f"{case.catalog.name}.{table}" for name, table in case.names.items()}
    steps = {"silver": (SILVER, "day"), "revenue": (REVENUE, "day"), "large": (LARGE_ORDERS, "")}

    def run() -> None:
        for name, (sql, day) in steps.items():
            partitioned = f"PARTITIONED BY ({day})" if day else ""
            query = sql.format(**qualified)
            case.spark.sql(f"CREATE OR REPLACE TABLE {qualified[name]} USING iceberg {partitioned} AS {query}")

    return run


def measured(run: Callable[[], None]) -> dict[str, float]:
    """What a call costs."""
    meter, start = TreeMeter(), time.perf_counter()
    with meter.measured():
        run()
    return {"cpu_s": meter.cpu_s, "wall_s": time.perf_counter() - start}


def measure_changes(load: Callable[[int], None], run: Callable[[], None], changes: int) -> list[dict[str, float]]:
    """The cost of each change, after the first load and a change to be warm."""
    for number in (0, 1):
        load(number)
        run()
    costs = []
    for number in range(2, 2 + changes):
        load(number)
        costs.append(measured(run))
    return costs


def main(arguments: Sequence[str]) -> None:
    """Runs the case and prints its cost."""
    writer, folder, uri, rows, changes = arguments
    meter, begun = TreeMeter(), time.perf_counter()
    settings = load_settings(
        flags={"catalog.uri": uri, "spark.master": "local[2]", "spark.driver_memory": "2g"},
        folder=Path(folder),
        environ={},
    )
    from frazil.spark.session import spark_session

    with spark_session(settings, app_name="graph", log=Path(folder) / "spark.log") as spark:
        with meter.measured():
            pass
        start = {"cpu_s": 0.0, "wall_s": time.perf_counter() - begun}
        case = Case(spark, connect(settings), writer, Path(folder), Size(int(rows), int(changes)))
        costs = measure_changes(case.load, {"ours": ours, "rebuild": rebuild}[writer](case), int(changes))
        print(json.dumps({"start": start, "changes": costs, "tables": case.check()}))


if __name__ == "__main__":
    main(sys.argv[1:])
