"""Frames of Daft for the sink: `sink.write(stream_frame(frame), position=...)`.

A sink takes a frame as it is, too. But then Daft computes all of it first, in memory; streamed, its batches go into the
sink as they are made, and at most a few of them wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    import daft

WAITING = 2  # results that Daft may have ready before the sink has taken the one before


def stream_frame(frame: daft.DataFrame) -> pa.RecordBatchReader:
    """The frame's rows as an Arrow stream: computed while it is read, in no promised order."""
    schema = frame.schema().to_pyarrow_schema()
    return pa.RecordBatchReader.from_batches(
        schema, (batch.cast(schema) for batch in frame.to_arrow_iter(results_buffer_size=WAITING))
    )
