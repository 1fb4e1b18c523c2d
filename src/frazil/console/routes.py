"""The routes of the console: its files, which anyone may load, and its JSON, for callers that the gate lets pass.

Routes with POST do their work in child processes (work/), or change the catalog's database. The pages take from the
REST API what it has; these routes have the rest. Those that change tables have a preview.
"""

from __future__ import annotations

from frazil.catalog import AUTHENTICATED, PUBLIC, Privilege, Route, on_relation, on_server, on_warehouse
from frazil.console import actions
from frazil.console.access import access_routes
from frazil.console.actions import Handler
from frazil.console.assets import serve_file, serve_page
from frazil.console.auditing import list_records
from frazil.console.checks import list_checks, show_checks
from frazil.console.compaction import show_compaction
from frazil.console.connecting import show_connections
from frazil.console.files import show_files
from frazil.console.indexes import list_indexes
from frazil.console.listing import list_tables
from frazil.console.partitions import show_partitions
from frazil.console.pipelines import apply_plan, list_runs, show_pipelines, show_plan, show_states
from frazil.console.queries import prepare_queries, run_sql, write_csv
from frazil.console.rows import show_rows
from frazil.console.session import show_session
from frazil.console.snapshots import list_snapshots
from frazil.console.table import show_table
from frazil.console.tree import show_tree
from frazil.console.upkeep import ask, list_upkeep, preview, show_state

_API = "/console/api"
_IN = f"{_API}/{{prefix}}"
_TABLE = f"{_IN}/namespaces/{{namespace}}/tables/{{table}}"
_READ = on_relation(Privilege.READ)
_WRITE = on_relation(Privilege.WRITE)
_SEEN = on_warehouse(Privilege.DISCOVER)
_MAINTAIN = on_relation(Privilege.MAINTAIN)


def _with_preview(path: str, name: str, preview: Handler, change: Handler) -> tuple[Route, Route]:
    """A change of a table, and what it would do."""
    return (
        Route("POST", f"{_TABLE}/{path}/preview", f"previewConsole{name}", preview, _READ, stops=True),
        Route("POST", f"{_TABLE}/{path}", f"doConsole{name}", change, _WRITE, writes=True),
    )


ROUTES: tuple[Route, ...] = (
    Route("GET", "/", "showConsole", serve_page, PUBLIC, quick=True),
    Route("HEAD", "/", "headConsole", serve_page, PUBLIC, quick=True),
    Route("GET", "/console/static/{file}", "getConsoleFile", serve_file, PUBLIC, quick=True),
    Route("GET", f"{_API}/session", "getConsoleSession", show_session, AUTHENTICATED),
    Route("GET", f"{_API}/audit", "listConsoleAuditLog", list_records, on_server(Privilege.MANAGE)),
    Route("GET", f"{_IN}/tables", "listConsoleTables", list_tables, _SEEN, stops=True),
    Route("GET", f"{_IN}/checks", "listConsoleChecks", list_checks, _SEEN, stops=True),
    Route("GET", f"{_TABLE}/checks", "showConsoleChecks", show_checks, _READ, stops=True),
    Route("GET", f"{_IN}/connect", "showConsoleConnections", show_connections, _SEEN),
    Route("GET", f"{_IN}/pipelines", "showConsolePipelines", show_pipelines, _SEEN, stops=True),
    Route("GET", f"{_IN}/pipelines/states", "showConsoleStates", show_states, _SEEN, stops=True),
    Route("POST", f"{_IN}/query", "runConsoleQuery", run_sql, _SEEN, stops=True),
    Route("POST", f"{_IN}/query/csv", "writeConsoleCsv", write_csv, _SEEN, stops=True),
    Route("POST", f"{_IN}/query/prepare", "prepareConsoleQueries", prepare_queries, _SEEN, stops=True),
    Route("GET", f"{_IN}/plan", "showConsolePlan", show_plan, _SEEN, stops=True),
    Route("POST", f"{_IN}/plan", "applyConsolePlan", apply_plan, _SEEN, writes=True),
    Route("GET", _TABLE, "showConsoleTable", show_table, _READ),
    Route("GET", f"{_TABLE}/snapshots", "listConsoleSnapshots", list_snapshots, _READ),
    Route("GET", f"{_TABLE}/rows", "showConsoleRows", show_rows, _READ, stops=True),
    Route("GET", f"{_TABLE}/files", "showConsoleFiles", show_files, _READ, stops=True),
    Route("GET", f"{_TABLE}/partitions", "showConsolePartitions", show_partitions, _READ, stops=True),
    Route("GET", f"{_TABLE}/metadata", "showConsoleMetadata", show_tree, _READ, stops=True),
    Route("GET", f"{_TABLE}/indexes", "listConsoleIndexes", list_indexes, _READ, stops=True),
    Route("GET", f"{_TABLE}/compaction", "showConsoleCompaction", show_compaction, _READ, stops=True),
    Route("GET", f"{_TABLE}/runs", "listConsoleRuns", list_runs, _READ, stops=True),
    Route("GET", f"{_IN}/upkeep", "listConsoleUpkeep", list_upkeep, on_warehouse(Privilege.DISCOVER), stops=True),
    Route("GET", f"{_TABLE}/upkeep", "showConsoleUpkeep", show_state, _READ),
    Route("POST", f"{_TABLE}/upkeep", "requestUpkeep", ask, _MAINTAIN, writes=True),
    Route("POST", f"{_TABLE}/upkeep/plan", "planUpkeep", preview, _MAINTAIN, stops=True),
    Route("GET", f"{_TABLE}/quarantine", "showConsoleQuarantine", actions.show_quarantine, _READ, stops=True),
    Route("POST", f"{_TABLE}/quarantine/rows", "listConsoleQuarantine", actions.list_quarantined, _READ, stops=True),
    *_with_preview("replay", "Replay", actions.preview_replay, actions.replay),
    *_with_preview("rollback", "Rollback", actions.preview_rollback, actions.roll_back),
    *_with_preview("refs/drop", "DropRef", actions.preview_drop, actions.drop_ref),
    Route("POST", f"{_TABLE}/refs", "createConsoleRef", actions.create_ref, _WRITE, writes=True),
    *access_routes(f"{_API}/access"),
)
