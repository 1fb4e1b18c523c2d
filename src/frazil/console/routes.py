"""The routes of the console: its files, which anyone may load, and its JSON, for callers that the gate lets pass.

Everything here reads. The pages take from the REST API what it has; these routes have the rest.
"""

from __future__ import annotations

from frazil.catalog import AUTHENTICATED, PUBLIC, Privilege, Route, on_warehouse
from frazil.console.assets import serve_file, serve_page
from frazil.console.listing import list_tables
from frazil.console.session import show_session

_API = "/console/api"
_IN = f"{_API}/{{prefix}}"

ROUTES: tuple[Route, ...] = (
    Route("GET", "/", "showConsole", serve_page, PUBLIC, quick=True),
    Route("HEAD", "/", "headConsole", serve_page, PUBLIC, quick=True),
    Route("GET", "/console/static/{file}", "getConsoleFile", serve_file, PUBLIC, quick=True),
    Route("GET", f"{_API}/session", "getConsoleSession", show_session, AUTHENTICATED),
    Route("GET", f"{_IN}/tables", "listConsoleTables", list_tables, on_warehouse(Privilege.DISCOVER), stops=True),
)
