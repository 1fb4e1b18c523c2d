// Reads the rows of ns.items, appends one, and makes a table of its own.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"

	"lake-rows/lake"
)

func main() {
	ctx := context.Background()
	cat, err := lake.Open(ctx)
	check(err)

	items, err := cat.LoadTable(ctx, catalog.ToIdentifier("ns", "items"))
	check(err)
	print(ctx, items)
	items = write(ctx, items, 3, "go")
	print(ctx, items)

	schema := iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64},
		iceberg.NestedField{ID: 2, Name: "name", Type: iceberg.PrimitiveTypes.String})
	spec := iceberg.NewPartitionSpec(
		iceberg.PartitionField{SourceIDs: []int{2}, FieldID: 1000, Name: "name", Transform: iceberg.IdentityTransform{}})
	made, err := cat.CreateTable(ctx, catalog.ToIdentifier("ns", "made"), schema, catalog.WithPartitionSpec(&spec))
	check(err)
	write(ctx, write(ctx, made, 7, "x"), 8, "y")
}

func write(ctx context.Context, to *table.Table, id int64, name string) *table.Table {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "name", Type: arrow.BinaryTypes.String, Nullable: true}}, nil)
	builder := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	builder.Field(0).(*array.Int64Builder).Append(id)
	builder.Field(1).(*array.StringBuilder).Append(name)
	rows := array.NewTableFromRecords(schema, []arrow.RecordBatch{builder.NewRecordBatch()})
	written, err := to.AppendTable(ctx, rows, 1024, nil)
	check(err)
	return written
}

func print(ctx context.Context, from *table.Table) {
	rows, err := from.Scan(table.WithSelectedFields("id")).ToArrowTable(ctx)
	check(err)
	total := int64(0)
	for _, chunk := range rows.Column(0).Data().Chunks() {
		for _, id := range chunk.(*array.Int64).Int64Values() {
			total += id
		}
	}
	fmt.Println(rows.NumRows(), total)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
