"""The transpile lakehouse: SQL queries, and the same in another dialect."""

from __future__ import annotations

from frazil import Table, column

transpiled = Table(
    "lakehouse.transpiled",
    column("query_id", "string", doc="The query's own id"),
    column("sql", "string", doc="The query as it was found"),
    column("transpiled", "string", doc="The query in the target dialect; NULL if it cannot be read"),
    column("error", "string", doc="Why it cannot be read, or what the target dialect does not have"),
    column("source_file", "string", required=True, doc="The file that it was read from"),
    column("position", "long", required=True, doc="Its row in that file, from 0"),
)
