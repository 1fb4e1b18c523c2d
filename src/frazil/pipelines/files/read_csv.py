"""CSV by pyarrow: every column as text, rows of the wrong length or encoding separately."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from frazil.errors import PipelineError
from frazil.pipelines.files.lines import LineRange, first_line
from frazil.pipelines.files.malformed import Malformed, OnMalformed
from frazil.pipelines.files.slices import Slice
from frazil.pipelines.sources import CsvOptions
from frazil.write.contract import convert

BLOCK_BYTES = 1 << 20


def read_names(filesystem: Any, path: str, options: CsvOptions) -> tuple[str, ...]:
    """The columns that a file has: its header, or `_c0`, `_c1`, ... as many as its first row has; none if it
    is empty.
    """
    line = first_line(filesystem, path, quote=options.quote.encode() if options.newlines_in_values else None)
    if not line.strip():
        return ()
    column_names = pv.read_csv(io.BytesIO(line), parse_options=_parse_options(options)).column_names
    if not options.header:
        return tuple(f"_c{number}" for number in range(len(column_names)))
    if twice := sorted({name for name in column_names if column_names.count(name) > 1}):
        raise PipelineError(
            f"{path}: column '{twice[0]}' stands twice in the header",
            hint="fix the file, or move it away",
            path=path,
            column=twice[0],
        )
    return tuple(column_names)


def read(
    filesystem: Any, path: str, piece: Slice, options: CsvOptions, on_malformed: OnMalformed
) -> Iterator[tuple[Any, pa.RecordBatch]]:
    """The rows of a slice as text, with the numbers of each batch; the header is row 1, empty lines do not count."""
    names = read_names(filesystem, path, options)
    if not names:
        return
    invalid: list[int] = []  # the numbers of rows that were left out, as if the slice began with row 0
    skipped = int(options.header and piece.start == 0)

    def leave_out(row: pv.InvalidRow) -> str:
        number = row.number - 1
        invalid.append(number - skipped)
        reason = f"expected {row.expected_columns} columns, got {row.actual_columns}"
        on_malformed(Malformed(piece.number, number + 1, reason, row.text))
        return "skip"

    with _open(filesystem, path, piece) as stream:
        reader = pv.open_csv(
            stream,
            read_options=pv.ReadOptions(
                use_threads=False, block_size=BLOCK_BYTES, column_names=names, skip_rows_after_names=skipped
            ),
            parse_options=_parse_options(options, leave_out),
            convert_options=pv.ConvertOptions(
                column_types={name: pa.binary() for name in names},  # text is checked by row, not by block
                strings_can_be_null=True,
                null_values=list(options.null_values),
                quoted_strings_can_be_null=False,
            ),
        )
        seen = 0
        for batch in reader:
            numbers = _numbers(seen, batch.num_rows, invalid) + skipped + 1
            seen += batch.num_rows
            yield from _as_text(batch, numbers, piece, on_malformed)


def _open(filesystem: Any, path: str, piece: Slice) -> Any:
    if piece.end is None:
        return filesystem.open_input_stream(path, compression="detect")
    return LineRange(filesystem.open_input_file(path), piece.start, piece.end)


def _parse_options(options: CsvOptions, on_invalid: Any = None) -> pv.ParseOptions:
    return pv.ParseOptions(
        delimiter=options.delimiter,
        quote_char=options.quote,
        double_quote=options.escape is None,
        escape_char=options.escape or False,
        newlines_in_values=options.newlines_in_values,
        invalid_row_handler=on_invalid,
    )


def _numbers(first: int, count: int, invalid: list[int]) -> Any:
    """The place of each row among all, also those that were left out.

    >>> _numbers(0, 4, [1]).tolist()
    [0, 2, 3, 4]
    """
    import numpy as np

    rows = np.arange(first, first + count, dtype=np.int64)
    if not invalid:
        return rows
    gaps = np.array(invalid, dtype=np.int64) - np.arange(len(invalid))
    return rows + np.searchsorted(gaps, rows, side="right")


def _as_text(
    batch: pa.RecordBatch, numbers: Any, piece: Slice, on_malformed: OnMalformed
) -> Iterator[tuple[Any, pa.RecordBatch]]:
    columns = [convert(values, pa.string()) for values in batch.columns]
    faulty = [column.misfits for column in columns if column.misfits is not None]
    if not faulty:
        yield numbers, pa.RecordBatch.from_arrays([column.values for column in columns], batch.schema.names)
        return
    bad = faulty[0]
    for more in faulty[1:]:
        bad = pc.or_(bad, more)
    for at in pc.indices_nonzero(bad).to_pylist():
        text = ",".join(
            (value or b"").decode("utf-8", "backslashreplace") for value in batch.slice(at, 1).to_pylist()[0].values()
        )
        on_malformed(Malformed(piece.number, int(numbers[at]), "expected UTF-8, got other bytes", text))
    kept = pc.invert(bad)
    good = pa.RecordBatch.from_arrays([column.values.filter(kept) for column in columns], batch.schema.names)
    yield numbers[kept.to_numpy(zero_copy_only=False)], good
