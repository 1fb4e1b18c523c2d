"""What only Java writes: equality deletes, by the writers of Iceberg's library in Spark's JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def delete_equal(spark: SparkSession, name: str, values: dict[str, Any]) -> None:
    """A delete file that removes all older rows with these values from an unpartitioned table."""
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
    place = iceberg.io.OutputFileFactory.builderFor(table, 1, 1).format(parquet).build().newOutputFile()
    writer = factory.newEqualityDeleteWriter(place, table.spec(), None)
    writer.write(record)
    writer.close()
    table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()
