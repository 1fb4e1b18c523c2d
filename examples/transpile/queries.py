"""Makes files of SQL queries, the same ones for the same arguments: the kinds that analysts and their tools write, in
Snowflake's dialect.

About 2% cannot be read, as in any log of queries.

python queries.py --rows 100000 --folder queries
python queries.py --rows 100000 --folder s3://lakehouse/queries
"""

# ruff: noqa: S608  # these texts are data and are not run
from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

SCHEMA = pa.schema([("query_id", pa.string()), ("sql", pa.string())])
ROW_GROUP = 20_000
FACTS = {
    "orders": ["order_total", "discount", "quantity", "shipping_cost"],
    "payments": ["amount", "fee", "refund"],
    "sessions": ["duration_ms", "page_views", "clicks"],
    "shipments": ["weight_kg", "distance_km", "cost"],
    "tickets": ["minutes_open", "replies", "score"],
}
DIMENSIONS = {
    "customers": ["country", "segment", "signup_channel"],
    "products": ["category", "brand", "supplier"],
    "stores": ["region", "city", "format"],
    "campaigns": ["medium", "objective", "owner"],
}
SCHEMAS = ["analytics", "sales", "mart", "raw_events", "finance", "ops"]
PERIODS = ["day", "week", "month", "quarter", "year"]
WORDS = ["new", "open", "late", "paid", "north", "south", "web", "store", "gift", "trial"]

Template = Callable[[random.Random], str]


def _fact(chance: random.Random) -> tuple[str, str]:
    table = chance.choice(list(FACTS))
    return f"{chance.choice(SCHEMAS)}.{table}", chance.choice(FACTS[table])


def _dimension(chance: random.Random) -> tuple[str, str, str]:
    table = chance.choice(list(DIMENSIONS))
    return f"{chance.choice(SCHEMAS)}.{table}", chance.choice(DIMENSIONS[table]), f"{table[:-1]}_id"


def _date(chance: random.Random) -> str:
    return f"{chance.randrange(2019, 2026)}-{chance.randrange(1, 13):02}-{chance.randrange(1, 29):02}"


def lookup(chance: random.Random) -> str:
    table, field, key = _dimension(chance)
    where = f"{key} = {chance.randrange(10**7)} AND {field} = '{chance.choice(WORDS)}'"
    return f"SELECT * FROM {table} WHERE {where} LIMIT {chance.randrange(1, 500)}"


def totals(chance: random.Random) -> str:
    table, measure = _fact(chance)
    period = chance.choice(PERIODS)
    return (
        f"SELECT DATE_TRUNC('{period}', created_at) AS {period}, SUM({measure}) AS total, COUNT(DISTINCT customer_id) "
        f"AS customers\n"
        f"FROM {table}\nWHERE created_at >= '{_date(chance)}'::DATE\n"
        f"GROUP BY 1\nHAVING SUM({measure}) > {chance.randrange(10**6)}\nORDER BY 1 DESC"
    )


def star_join(chance: random.Random) -> str:
    (fact, measure), (dimension, field, key) = _fact(chance), _dimension(chance)
    return (
        f"SELECT d.{field}, AVG(f.{measure}) AS mean, APPROX_COUNT_DISTINCT(f.{key}) AS n FROM {fact} f "
        f"{chance.choice(['JOIN', 'LEFT JOIN', 'INNER JOIN'])} {dimension} d ON f.{key} = d.{key} "
        f"WHERE f.created_at BETWEEN DATEADD({chance.choice(PERIODS)}, -{chance.randrange(1, 90)}, CURRENT_DATE) AND "
        f"CURRENT_DATE "
        f"AND d.{field} IN ({', '.join(repr(word) for word in chance.sample(WORDS, 3))}) GROUP BY d.{field}"
    )


def latest(chance: random.Random) -> str:
    table, measure = _fact(chance)
    return (
        f"SELECT customer_id, {measure}, created_at FROM {table} WHERE {measure} > {chance.randrange(10**5) / 100} "
        f"QUALIFY ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY created_at DESC) = {chance.randrange(1, 4)}"
    )


def running(chance: random.Random) -> str:
    table, measure = _fact(chance)
    days = chance.randrange(2, 60)
    return (
        f"WITH daily AS (SELECT created_at::DATE AS day, SUM({measure}) AS total FROM {table} GROUP BY 1),\n"
        f"smooth AS (SELECT day, AVG(total) OVER (ORDER BY day ROWS BETWEEN {days} PRECEDING AND CURRENT ROW) AS mean "
        f"FROM daily)\n"
        f"SELECT d.day, d.total, s.mean, IFF(d.total > s.mean * {chance.randrange(110, 300) / 100}, 'high', 'usual') "
        f"AS label\n"
        f"FROM daily d JOIN smooth s USING (day) WHERE d.day > '{_date(chance)}'"
    )


def cohorts(chance: random.Random) -> str:
    table, _ = _fact(chance)
    period = chance.choice(PERIODS)
    return (
        f"SELECT c.{period}, COUNT(*) AS members, "
        f"COUNT_IF(DATEDIFF(day, c.first_at, o.created_at) <= {chance.randrange(7, 400)}) AS returned "
        f"FROM (SELECT customer_id, MIN(created_at) AS first_at, DATE_TRUNC({period}, MIN(created_at)) AS {period} "
        f"FROM {table} GROUP BY 1) c "
        f"LEFT JOIN {table} o ON o.customer_id = c.customer_id WHERE c.first_at > '{_date(chance)}' GROUP BY 1"
    )


def buckets(chance: random.Random) -> str:
    table, measure = _fact(chance)
    steps = sorted(chance.sample(range(1, 5000), 4))
    cases = " ".join(f"WHEN {measure} < {step} THEN 'under {step}'" for step in steps)
    return (
        f"SELECT CASE {cases} ELSE 'over' END AS bucket, COUNT(*) FROM {table} WHERE NVL({measure}, 0) >= 0 GROUP "
        f"BY bucket"
    )


def nested(chance: random.Random) -> str:
    table, _ = _fact(chance)
    return (
        f"SELECT e.id, f.value:name::STRING AS name, e.payload:meta.version::INT AS version FROM {table} e, "
        f"LATERAL FLATTEN(input => e.payload:items) f "
        f"WHERE e.payload:kind::STRING = '{chance.choice(WORDS)}' AND e.id > {chance.randrange(10**8)}"
    )


def text_work(chance: random.Random) -> str:
    table, field, key = _dimension(chance)
    return (
        f"SELECT {key}, UPPER(TRIM({field})) || '-' || LPAD({key}::VARCHAR, {chance.randrange(5, 12)}, '0') AS label, "
        f"SPLIT_PART(email, '@', 2) AS domain FROM {table} WHERE {field} ILIKE '%{chance.choice(WORDS)}%' OR "
        f"REGEXP_LIKE({field}, "
        f"'^{chance.choice(WORDS)}[0-9]{{{chance.randrange(1, 6)}}}$')"
    )


def upsert(chance: random.Random) -> str:
    table, measure = _fact(chance)
    return (
        f"MERGE INTO {table} t USING (SELECT * FROM staging.batch_{chance.randrange(10**6)}) s ON t.id = s.id "
        f"WHEN MATCHED AND s.deleted THEN DELETE WHEN MATCHED THEN UPDATE SET {measure} = s.{measure} "
        f"WHEN NOT MATCHED THEN INSERT (id, {measure}) VALUES (s.id, s.{measure})"
    )


def build(chance: random.Random) -> str:
    table, measure = _fact(chance)
    return (
        f"CREATE OR REPLACE TABLE scratch.t_{chance.randrange(10**6)} AS SELECT *, {measure} / NULLIF(quantity, 0) AS "
        f"rate FROM {table} "
        f"WHERE created_at < TO_TIMESTAMP('{_date(chance)} 00:00:00') UNION ALL SELECT *, NULL FROM {table}_archive"
    )


def unpivoted(chance: random.Random) -> str:
    table, measure = _fact(chance)
    years = sorted(chance.sample(range(2015, 2026), 3))
    return (
        f"SELECT * FROM (SELECT region, YEAR(created_at) AS y, {measure} FROM {table}) "
        f"PIVOT (SUM({measure}) FOR y IN ({', '.join(map(str, years))})) WHERE region <> '{chance.choice(WORDS)}'"
    )


TEMPLATES: tuple[Template, ...] = (
    *(lookup, totals, star_join, latest, running, cohorts, buckets, nested, text_work, upsert, build, unpivoted),
)
BREAKS: tuple[Callable[[str, random.Random], str], ...] = (
    lambda sql, chance: sql[: chance.randrange(len(sql) // 2, len(sql))] + " (",  # cut off
    lambda sql, _: sql.replace("FROM", "FORM", 1) + " FROM WHERE",  # a slip of the hand
    lambda sql, _: sql + " AND note = 'it''s",  # a quote that never closes
    lambda sql, _: f"{{{{ config(materialized='table') }}}} {sql} {{% if x %}}",  # a template that was not rendered
)


def make_query(number: int, *, seed: int = 0, bad_share: float = 0.02) -> str:
    """Query `number` of a seed."""
    chance = random.Random(f"{seed}/{number}")
    sql = chance.choice(TEMPLATES)(chance)
    return chance.choice(BREAKS)(sql, chance) if chance.random() < bad_share else sql


def make_queries(count: int, *, first: int = 0, seed: int = 0, bad_share: float = 0.02) -> Iterator[pa.RecordBatch]:
    """Queries `first` to `first + count` with their ids, in batches of a row group."""
    for start in range(first, first + count, ROW_GROUP):
        numbers = range(start, min(start + ROW_GROUP, first + count))
        ids = [f"q-{seed}-{number:08}" for number in numbers]
        texts = [make_query(number, seed=seed, bad_share=bad_share) for number in numbers]
        yield pa.record_batch([ids, texts], schema=SCHEMA)


def write_queries(path: Path, count: int, *, first: int = 0, seed: int = 0, bad_share: float = 0.02) -> Path:
    """A Parquet file of queries; it appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    with pq.ParquetWriter(part, SCHEMA) as writer:
        for batch in make_queries(count, first=first, seed=seed, bad_share=bad_share):
            writer.write_batch(batch)
    part.replace(path)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000, help="queries in the file (%(default)s)")
    parser.add_argument("--first", type=int, default=0, help="number of the first query (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="another one gives other queries (%(default)s)")
    parser.add_argument("--folder", default="queries", help="where the file goes, or s3://bucket/prefix (%(default)s)")
    chosen = parser.parse_args()
    name = f"queries-{chosen.seed}-{chosen.first:08}.parquet"
    with tempfile.TemporaryDirectory() as folder:
        queries = write_queries(Path(folder) / name, chosen.rows, first=chosen.first, seed=chosen.seed)
        upload(queries, chosen.folder)
    print(f"{chosen.folder}/{name}")


def upload(file: Path, location: str) -> None:
    """Copies a file into a folder, or to the object store of the settings; it appears whole."""
    from files import find_store  # not where these queries are made for something else

    from frazil.config import load_settings

    store, folder = find_store(location, load_settings())
    store.create_dir(folder)
    part, path = f"{folder}/{file.name}.part", f"{folder}/{file.name}"
    pyarrow.fs.copy_files(str(file), part, source_filesystem=pyarrow.fs.LocalFileSystem(), destination_filesystem=store)
    store.move(part, path)


if __name__ == "__main__":
    main()
