"""Five engines that walk the same way through the catalog: make a namespace and a table, append, scan with a filter and
a projection.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from frazil.artifacts.java import JavaNeed, find_java
from tests.engines.spark_sql import SparkProcess
from tests.kit.stack import Project
from tests.kit.stack_lake import SCHEMA, connection, rows, s3_endpoint

Found = list[tuple[str, list[float]]]  # name and embedding


class Walker(Protocol):
    """What each engine does in its own words."""

    def create_namespace(self, name: str) -> None: ...
    def create_table(self, name: str) -> None: ...
    def append(self, name: str, ids: list[int]) -> None: ...
    def find(self, name: str, *, above: int, unlike: str) -> Found: ...
    def drop_table(self, name: str) -> None: ...
    def drop_namespace(self, name: str) -> None: ...
    def close(self) -> None: ...


class Pyiceberg:
    def __init__(self, project: Project, folder: Path) -> None:
        from pyiceberg.catalog import load_catalog

        self.catalog = load_catalog("lake", **connection(project))

    def create_namespace(self, name: str) -> None:
        self.catalog.create_namespace(name)

    def create_table(self, name: str) -> None:
        self.catalog.create_table(name, SCHEMA)

    def append(self, name: str, ids: list[int]) -> None:
        self.catalog.load_table(name).append(rows(*ids))

    def find(self, name: str, *, above: int, unlike: str) -> Found:
        scan = self.catalog.load_table(name).scan(
            f"id > {above} AND name != '{unlike}'", selected_fields=("name", "embedding")
        )
        return [(row["name"], row["embedding"]) for row in scan.to_arrow().to_pylist()]

    def drop_table(self, name: str) -> None:
        self.catalog.drop_table(name)

    def drop_namespace(self, name: str) -> None:
        self.catalog.drop_namespace(name)

    def close(self) -> None:
        self.catalog.close()


class Daft:
    def __init__(self, project: Project, folder: Path) -> None:
        import daft

        self.pyiceberg = Pyiceberg(project, folder)
        self.catalog = daft.Catalog.from_iceberg(self.pyiceberg.catalog)
        keys = connection(project)
        self.io = daft.io.IOConfig(
            s3=daft.io.S3Config(
                endpoint_url=keys["s3.endpoint"],
                key_id=keys["s3.access-key-id"],
                access_key=keys["s3.secret-access-key"],
                region_name="us-east-1",
            )
        )

    def create_namespace(self, name: str) -> None:
        self.catalog.create_namespace(name)

    def create_table(self, name: str) -> None:
        import daft

        self.catalog.create_table(name, daft.from_arrow(rows()).schema())

    def append(self, name: str, ids: list[int]) -> None:
        import daft

        daft.from_arrow(rows(*ids)).write_iceberg(
            self.pyiceberg.catalog.load_table(name), mode="append", io_config=self.io
        )

    def find(self, name: str, *, above: int, unlike: str) -> Found:
        import daft

        frame = daft.read_iceberg(self.pyiceberg.catalog.load_table(name), io_config=self.io)
        result = frame.where((daft.col("id") > above) & (daft.col("name") != unlike)).select("name", "embedding")
        return [(row["name"], list(row["embedding"])) for row in result.to_pylist()]

    def drop_table(self, name: str) -> None:
        self.catalog.drop_table(name)

    def drop_namespace(self, name: str) -> None:
        self.catalog.drop_namespace(name)

    def close(self) -> None:
        self.pyiceberg.close()


class Sql:
    """An engine that speaks SQL: the dialects differ in a few words."""

    types: str  # of the three columns
    insert: str  # a query over the ids {ids} that gives the three columns
    catalog_name = "lake"

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        raise NotImplementedError

    def create_namespace(self, name: str) -> None:
        self.sql(f"CREATE SCHEMA {self.catalog_name}.{name}")

    def create_table(self, name: str) -> None:
        self.sql(f"CREATE TABLE {self.catalog_name}.{name} ({self.types})")

    def append(self, name: str, ids: list[int]) -> None:
        values = ", ".join(f"(CAST({number} AS BIGINT))" for number in ids)
        self.sql(f"INSERT INTO {self.catalog_name}.{name} {self.insert.format(ids=values)}")

    def find(self, name: str, *, above: int, unlike: str) -> Found:
        sql = self.sql(
            f"SELECT name, embedding FROM {self.catalog_name}.{name} WHERE id > {above} AND name <> '{unlike}'"
        )
        return [(name, list(embedding)) for name, embedding in sql]

    def drop_table(self, name: str) -> None:
        self.sql(f"DROP TABLE {self.catalog_name}.{name}")

    def drop_namespace(self, name: str) -> None:
        self.sql(f"DROP SCHEMA {self.catalog_name}.{name}")


class Spark(Sql):
    types = "id BIGINT, name STRING, embedding ARRAY<FLOAT>"
    insert = (
        "SELECT id, concat('item-', id), transform(sequence(0, 127), x -> CAST(id + x / 128 AS FLOAT)) FROM "
        "VALUES {ids} AS t(id)"
    )

    def __init__(self, project: Project, folder: Path) -> None:
        keys = connection(project)
        flags = {
            "catalog.uri": keys["uri"],
            "catalog.warehouse": keys["warehouse"],
            "s3.endpoint": keys["s3.endpoint"],
            "s3.access_key_id": keys["s3.access-key-id"],
            "s3.secret_access_key": keys["s3.secret-access-key"],
            "spark.master": "local[2]",
            "spark.driver_memory": "1g",
            "spark.java_home": str(find_java(JavaNeed.SPARK, search=[]).home),
        }
        self.process = SparkProcess(flags, folder)

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        return self.process.sql(statement)

    def close(self) -> None:
        self.process.close()


class Trino(Sql):
    catalog_name = "iceberg"
    types = "id BIGINT, name VARCHAR, embedding ARRAY(REAL)"
    insert = (
        "SELECT id, 'item-' || CAST(id AS VARCHAR), transform(sequence(0, 127), x -> CAST(id + x / 128e0 AS REAL)) "
        "FROM (VALUES {ids}) AS t (id)"
    )

    def __init__(self, project: Project, folder: Path) -> None:
        import trino

        self.connection = trino.dbapi.connect(host="127.0.0.1", port=project.settings.stack.ports.trino, user="test")

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.connection.cursor().execute(statement).fetchall()]

    def close(self) -> None:
        self.connection.close()


class Duckdb(Sql):
    types = "id BIGINT, name VARCHAR, embedding FLOAT[]"
    insert = (
        "SELECT id, 'item-' || id, list_transform(range(128), x -> (id + x / 128)::FLOAT) FROM (VALUES {ids}) AS t (id)"
    )

    def __init__(self, project: Project, folder: Path) -> None:
        import duckdb
        from duckdb_extensions import import_extension

        self.connection = duckdb.connect(config={"extension_directory": str(folder / "duckdb")})
        for name in ("httpfs", "avro", "iceberg"):
            import_extension(name, con=self.connection)
            self.connection.execute(f"LOAD {name}")
        keys = connection(project)
        host = s3_endpoint(project).removeprefix("http://")
        self.connection.execute(
            f"CREATE SECRET (TYPE s3, KEY_ID '{keys['s3.access-key-id']}', SECRET '{keys['s3.secret-access-key']}', "
            f"ENDPOINT '{host}', URL_STYLE 'path', USE_SSL false, REGION 'us-east-1')"
        )
        options = "TYPE iceberg, AUTHORIZATION_TYPE 'none', ACCESS_DELEGATION_MODE 'none'"
        self.connection.execute(f"ATTACH 'default' AS lake ({options}, ENDPOINT '{keys['uri']}')")

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(statement).fetchall()

    def close(self) -> None:
        self.connection.close()


WALKERS: dict[str, type[Walker]] = {
    "pyiceberg": Pyiceberg,
    "spark": Spark,
    "trino": Trino,
    "duckdb": Duckdb,
    "daft": Daft,
}
