"""The sales lakehouse: orders and customers from daily landing files. The tables made from them are in models/."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil import Table, column, pipeline, sources

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

sales = Table(
    "lakehouse.sales",
    column("order_id", "string", required=True, doc="Unique order identifier, such as ORD-001"),
    column("customer_id", "string", required=True, doc="Customer identifier, such as CUST-101"),
    column("amount", "decimal(12,2)", required=True, doc="Order amount in the transaction currency"),
    column("country", "string", doc="Country of the customer"),
    column("ingestion_date", "date", required=True, doc="Date the record was ingested; also the partition key"),
    partition_by=["ingestion_date"],
    properties={"write.format.default": "parquet", "write.parquet.compression-codec": "snappy"},
    checks=["amount >= 0"],
)

customers = Table(
    "lakehouse.customers",
    column("customer_id", "string", required=True),
    column("name", "string"),
    column("country", "string"),
    column("updated_at", "timestamp", required=True),
)


@pipeline(source=sources.csv("landing/*.csv"), target=sales, key=["order_id"], order_by="updated_at")
def daily_sales(orders: DataFrame) -> DataFrame:
    """Orders as they landed, with country codes in capitals; of an order that landed twice, the later version."""
    from pyspark.sql import functions as F

    return orders.withColumn("country", F.upper("country"))


@pipeline(
    source=sources.csv("landing/customers/*.csv"),
    target=customers,
    mode="upsert",
    key=["customer_id"],
    sequence="updated_at",
)
def daily_customers(changes: DataFrame) -> DataFrame:
    """The last version of each customer: files bring new and changed ones, some of them late."""
    return changes
