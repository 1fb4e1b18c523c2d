"""Iceberg's Java library in Spark's JVM, for what only it writes, and to see whether it reads what we write."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def delete_equal(spark: SparkSession, name: str, values: dict[str, Any]) -> None:
    """A delete file that removes all older rows with these values, of whatever partition: the table's first spec has
    none.
    """
    jvm, gateway = spark._jvm, spark.sparkContext._gateway
    assert jvm is not None
    assert gateway is not None
    iceberg = jvm.org.apache.iceberg
    table = iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)
    schema = table.schema().select(list(values))
    ids = gateway.new_array(jvm.int, len(values))
    record = iceberg.data.GenericRecord.create(schema)
    for at, field in enumerate(schema.columns()):
        ids[at] = field.fieldId()
        record.setField(field.name(), values[field.name()])  # py4j makes an int of a small number, never a long
    parquet = iceberg.FileFormat.PARQUET
    # The class is nested in one whose own constructor is not public: py4j finds it by its binary name.
    builder = getattr(jvm, "org.apache.iceberg.data.GenericFileWriterFactory$Builder")(table)
    factory = builder.deleteFileFormat(parquet).equalityFieldIds(ids).equalityDeleteRowSchema(schema).build()
    spec = table.specs().get(0)
    place = (
        iceberg.io.OutputFileFactory.builderFor(table, 1, 1).defaultSpec(spec).format(parquet).build().newOutputFile()
    )
    writer = factory.newEqualityDeleteWriter(place, spec, None)
    writer.write(record)
    writer.close()
    table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()


def read_puffin(spark: SparkSession, name: str) -> list[tuple[str, list[int], str, str | None]]:
    """The blobs of a table's statistics files: type, fields, bytes (as text) and the property `ndv`."""
    jvm = spark._jvm
    assert jvm is not None
    table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)
    puffin = []
    for statistics in table.statisticsFiles():
        reader = jvm.org.apache.iceberg.puffin.Puffin.read(table.io().newInputFile(statistics.path())).build()
        pairs = reader.readAll(reader.fileMetadata().blobs()).iterator()
        while pairs.hasNext():
            pair = pairs.next()
            blob, buffer = pair.first(), pair.second()
            payload = bytes(jvm.org.apache.iceberg.util.ByteBuffers.toByteArray(buffer))
            puffin.append(
                (
                    blob.type(),
                    list(blob.inputFields()),
                    base64.b64encode(payload).decode(),
                    blob.properties().get("ndv"),
                )
            )
        reader.close()
    return sorted(puffin)


def append_nanos(spark: SparkSession, name: str, times: list[str | None]) -> None:
    """Rows with times in nanoseconds, numbered from zero: PyIceberg writes no format 3, and Spark has no such type."""
    jvm = spark._jvm
    assert jvm is not None
    iceberg = jvm.org.apache.iceberg
    table = iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)
    parquet = iceberg.FileFormat.PARQUET
    builder = getattr(jvm, "org.apache.iceberg.data.GenericFileWriterFactory$Builder")(table)
    factory = builder.dataFileFormat(parquet).dataSchema(table.schema()).build()
    place = iceberg.io.OutputFileFactory.builderFor(table, 1, 1).format(parquet).build().newOutputFile()
    writer = factory.newDataWriter(place, table.spec(), None)
    for number, time in enumerate(times):
        record = iceberg.data.GenericRecord.create(table.schema())
        record.setField("id", number)
        record.setField("seen", None if time is None else jvm.java.time.LocalDateTime.parse(time))
        writer.write(record)
    writer.close()
    table.newAppend().appendFile(writer.toDataFile()).commit()


def remove_orphans(spark: SparkSession, name: str, before_ms: int) -> list[str]:
    """Deletes the files below a table's location that its metadata does not lead to; gives their locations."""
    jvm = spark._jvm
    assert jvm is not None
    table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)
    action = jvm.org.apache.iceberg.spark.actions.SparkActions.get(spark._jsparkSession).deleteOrphanFiles(table)
    return list(action.usePrefixListing(True).olderThan(before_ms).execute().orphanFileLocations())


def add_catalog(spark: SparkSession, name: str, uri: str) -> None:
    """Another catalog of the session: `lake` at another address."""
    prefix = "spark.sql.catalog.lake"
    for key, value in spark.sparkContext.getConf().getAll():
        if key == prefix or key.startswith(f"{prefix}."):
            spark.conf.set(key.replace(prefix, f"spark.sql.catalog.{name}"), value)
    spark.conf.set(f"spark.sql.catalog.{name}.uri", uri)


def append_late(spark: SparkSession, name: str, source: str, insert: str) -> list[Any]:
    """Java prepares an append of the files of another table, Spark inserts rows, then Java commits what it had prepared
    on the older head. Gives the heads before and after the insert, and of Java's snapshot as it is in the table: its
    id, its parent, whether its manifest list is another one, and the number of its manifests.
    """
    jvm = spark._jvm
    assert jvm is not None
    iceberg = jvm.org.apache.iceberg
    table, other = (iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, each) for each in (name, source))
    base = table.operations().current()
    append = table.newAppend()
    tasks = other.newScan().planFiles().iterator()
    while tasks.hasNext():
        append.appendFile(tasks.next().file())
    prepared = append.apply()
    spark.sql(insert)
    late = iceberg.TableMetadata.buildFrom(base).setBranchSnapshot(prepared, "main").build()
    table.operations().commit(base, late)
    table.refresh()
    snapshot = table.snapshot(prepared.snapshotId())
    moved = snapshot.manifestListLocation() != prepared.manifestListLocation()
    parents = [base.currentSnapshot().snapshotId(), snapshot.parentId()]
    return [*parents, prepared.snapshotId(), moved, snapshot.allManifests(table.io()).size()]
