//! Reads the rows of ns.items, appends one, and makes a table of its own.

mod lake;

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use futures::TryStreamExt;
use iceberg::arrow::schema_to_arrow_schema;
use iceberg::spec::{DataFileFormat, NestedField, PrimitiveType, Schema, Type};
use iceberg::table::Table;
use iceberg::transaction::{ApplyTransactionAction, Transaction};
use iceberg::writer::base_writer::data_file_writer::DataFileWriterBuilder;
use iceberg::writer::file_writer::ParquetWriterBuilder;
use iceberg::writer::file_writer::location_generator::{DefaultFileNameGenerator, DefaultLocationGenerator};
use iceberg::writer::file_writer::rolling_writer::RollingFileWriterBuilder;
use iceberg::writer::{IcebergWriter, IcebergWriterBuilder};
use iceberg::{Catalog, NamespaceIdent, Result, TableCreation, TableIdent};
use parquet::file::properties::WriterProperties;

#[tokio::main]
async fn main() -> Result<()> {
    let catalog = lake::open().await?;
    let items = catalog.load_table(&TableIdent::from_strs(["ns", "items"])?).await?;
    print(&items).await?;
    let items = append(&catalog, &items, vec![3], vec!["rust"]).await?;
    print(&items).await?;

    let schema = Schema::builder()
        .with_fields([
            Arc::new(NestedField::optional(1, "id", Type::Primitive(PrimitiveType::Long))),
            Arc::new(NestedField::optional(2, "name", Type::Primitive(PrimitiveType::String))),
        ])
        .build()?;
    let creation = TableCreation::builder().name("made".to_string()).schema(schema).properties(HashMap::new()).build();
    let made = catalog.create_table(&NamespaceIdent::new("ns".to_string()), creation).await?;
    append(&catalog, &made, vec![7, 8], vec!["x", "y"]).await?;
    Ok(())
}

async fn append(catalog: &dyn Catalog, table: &Table, ids: Vec<i64>, names: Vec<&str>) -> Result<Table> {
    let schema = Arc::new(schema_to_arrow_schema(table.metadata().current_schema())?);
    let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(ids)), Arc::new(StringArray::from(names))];
    let parquet = ParquetWriterBuilder::new(WriterProperties::default(), table.metadata().current_schema().clone());
    let files = RollingFileWriterBuilder::new_with_default_file_size(
        parquet,
        table.file_io().clone(),
        DefaultLocationGenerator::new(table.metadata())?,
        DefaultFileNameGenerator::new("rows".to_string(), None, DataFileFormat::Parquet),
    );
    let mut writer = DataFileWriterBuilder::new(files).build(None).await?;
    writer.write(RecordBatch::try_new(schema, columns)?).await?;
    let transaction = Transaction::new(table);
    let append = transaction.fast_append().add_data_files(writer.close().await?);
    append.apply(transaction)?.commit(catalog).await
}

async fn print(table: &Table) -> Result<()> {
    let batches: Vec<RecordBatch> = table.scan().select(["id"]).build()?.to_arrow().await?.try_collect().await?;
    let ids: Vec<i64> = batches.iter().flat_map(|batch| column(batch).values().to_vec()).collect();
    println!("{} {}", ids.len(), ids.iter().sum::<i64>());
    Ok(())
}

fn column(batch: &RecordBatch) -> &Int64Array {
    batch.column(0).as_any().downcast_ref::<Int64Array>().expect("id is a long")
}
