"""Landing files: listed, cut into slices and read as Arrow batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.pipelines.files.columns import FileColumns, find_columns
    from frazil.pipelines.files.find_lines import LineFinder
    from frazil.pipelines.files.frame import SourceFrame, read_frame
    from frazil.pipelines.files.listing import SourceFile, find_changed, list_local, list_s3
    from frazil.pipelines.files.malformed import Malformed
    from frazil.pipelines.files.read_json import parse_line
    from frazil.pipelines.files.reading import POSITION, Reader, pack_position, schema_of_text, unpack_position
    from frazil.pipelines.files.rows import FileRows, read_positions
    from frazil.pipelines.files.slices import TASK_BYTES, Slice, Task, plan_tasks
    from frazil.pipelines.files.text import TextContract, takes_text

__all__ = [
    "POSITION",
    "TASK_BYTES",
    "FileColumns",
    "FileRows",
    "LineFinder",
    "Malformed",
    "Reader",
    "Slice",
    "SourceFile",
    "SourceFrame",
    "Task",
    "TextContract",
    "find_changed",
    "find_columns",
    "list_local",
    "list_s3",
    "pack_position",
    "parse_line",
    "plan_tasks",
    "read_frame",
    "read_positions",
    "schema_of_text",
    "takes_text",
    "unpack_position",
]

__getattr__ = lazy_names(__name__)
