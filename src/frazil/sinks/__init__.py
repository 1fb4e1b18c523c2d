"""Arrow sinks: rows wait in a bounded buffer, become well-sized files, and are committed exactly once. The promises:
docs/sinks.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.sinks.arguments import as_checks as as_checks
    from frazil.sinks.arguments import as_position as as_position
    from frazil.sinks.arguments import check_names as check_names
    from frazil.sinks.arguments import check_stream as check_stream
    from frazil.sinks.arguments import check_table as check_table
    from frazil.sinks.arguments import check_values as check_values
    from frazil.sinks.audit_steps import REPLAY_PART as REPLAY_PART
    from frazil.sinks.iceberg import IcebergTarget as IcebergTarget
    from frazil.sinks.location import delta_location as delta_location
    from frazil.sinks.location import delta_options as delta_options
    from frazil.sinks.one_write import WriteResult
    from frazil.sinks.one_write import append as append
    from frazil.sinks.one_write import delete as delete
    from frazil.sinks.one_write import overwrite as overwrite
    from frazil.sinks.one_write import upsert as upsert
    from frazil.sinks.opening import Host, Mode, open
    from frazil.sinks.opening import SinkArguments as SinkArguments
    from frazil.sinks.opening import TableName as TableName
    from frazil.sinks.opening import open_delta as open_delta
    from frazil.sinks.python import Options
    from frazil.sinks.python import as_catalog as as_catalog
    from frazil.sinks.python import part_name as part_name
    from frazil.sinks.sink import ONLY_SOURCE as ONLY_SOURCE
    from frazil.sinks.sink import ArrowSink, FlushPolicy, SinkOptions
    from frazil.sinks.sink import BadRows as BadRows
    from frazil.sinks.sink import Target as Target

__all__ = [
    "ArrowSink",
    "FlushPolicy",
    "Host",
    "Mode",
    "Options",
    "SinkOptions",
    "WriteResult",
    "open",
]

__getattr__ = lazy_names(__name__)
