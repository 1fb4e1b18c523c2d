"""Makes files of a Delta table readable that are in its log under a doubly encoded path.

Until partition paths were encoded once, a file of a partition such as `ä` or `a/b` was logged under a path that no
reader finds; its rows are in the folder, and a `vacuum` would delete them. The repair is one commit that replaces each
such path by the real one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction

from frazil.sinks.delta.log import DeltaLog, now_ms
from frazil.sinks.delta.target import delta_layout, open_log
from frazil.write.files import TableLayout, internal_values, partition_text


def repair_paths(uri: str, storage_options: Mapping[str, str] | None = None) -> int:
    """Corrects the paths of files that lie where only a doubly decoded path leads; returns how many there were."""
    log = open_log(uri, storage_options or {})

    def attempt(table: DeltaTable) -> int:
        layout = delta_layout(uri, table, {})
        actions = [action for pair in _corrections(log, table, layout) for action in pair]
        if actions:
            table.create_write_transaction(actions, "append", table.schema(), table.metadata().partition_columns)
        return len(actions) // 2

    return log.until_decided(attempt)


def _corrections(log: DeltaLog, table: DeltaTable, layout: TableLayout) -> Iterator[tuple[RemoveAction, AddAction]]:
    files = pa.table(table.get_add_actions(flatten=False))
    values = _partition_texts(files, layout)
    for number, file in enumerate(files.to_pylist()):
        logged = unquote(file["path"])
        real = unquote(logged)
        if real != logged and not _exists(log, logged) and _exists(log, real):
            texts = {name: column[number] for name, column in values.items()}
            # Without bounds, which cannot be had back from here as they were: readers skip fewer files, and no row.
            statistics = json.dumps({"numRecords": file["num_records"]})
            added = AddAction(real, file["size_bytes"], texts, file["modification_time"], False, statistics)
            yield RemoveAction(logged, False, now_ms()), added


def _partition_texts(files: pa.Table, layout: TableLayout) -> dict[str, list[str | None]]:
    """The partition values of all files, by column."""
    partitions = files.column("partition").combine_chunks() if layout.keys else None
    columns = {key: internal_values(pc.struct_field(partitions, key.name), key.result) for key in layout.keys}
    return {key.name: [partition_text(value, key.result) for value in values] for key, values in columns.items()}


def _exists(log: DeltaLog, path: str) -> bool:
    return log.io.new_input(f"{log.uri.rstrip('/')}/{path}").exists()
