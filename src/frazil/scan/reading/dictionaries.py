"""Text columns that are read as a dictionary and an index for each row.

Arrow decodes a text column value by value into new memory. If a file has its values in a dictionary, reading the
indices and looking the values up afterwards takes half the time; and what a filter drops is never looked up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.types import BinaryType, NestedField, StringType

from frazil.scan.reading.project import FileColumn

# A value outside of the dictionary takes 4 bytes for its length alone. Below, most are in it: as indices of at most 2.5
# bytes, which leave room for the dictionary. Arrow would have to build one of the others, slower than reading them.
MOST_BYTES_PER_VALUE = 4


def repeated_texts(
    metadata: pq.FileMetaData, columns: Sequence[FileColumn], fields: Iterable[NestedField]
) -> list[str]:
    """Those of the file's columns for these fields whose texts are in a dictionary, in every row group of the file."""
    ids = {field.field_id for field in fields if isinstance(field.field_type, StringType | BinaryType)}
    # A name with a dot is the path of a field inside of a struct, too.
    names = [
        column.name for column in columns if column.field_id in ids and is_text(column.type) and "." not in column.name
    ]
    if not names or not metadata.num_row_groups:
        return []
    places = {metadata.schema.column(at).path: at for at in range(metadata.num_columns)}
    return [name for name in names if _in_dictionary(metadata, places[name])]


def is_text(kind: pa.DataType) -> bool:
    """Whether values of a type are bytes of any length."""
    types = pa.types
    return bool(
        types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind)
    )


def _in_dictionary(metadata: pq.FileMetaData, at: int) -> bool:
    chunks = (metadata.row_group(number).column(at) for number in range(metadata.num_row_groups))
    return all(
        chunk.has_dictionary_page and chunk.total_uncompressed_size <= MOST_BYTES_PER_VALUE * chunk.num_values
        for chunk in chunks
    )
