"""DuckDB over the lake: its Iceberg extension, attached read-only to the catalog, with the keys of the object store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from frazil.artifacts import cache_folder
from frazil.config import Settings, redact_url
from frazil.errors import MissingExtra, QueryError

if TYPE_CHECKING:
    import duckdb

    from frazil.client import FrazilCatalog

ATTACHED = "lake"
EXTENSIONS = ("httpfs", "avro", "iceberg")
NO_EXTENSIONS = {  # by themselves; and none of the variables of this program as tables
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "python_enable_replacements": False,
}


def open_duckdb(settings: Settings, catalog: FrazilCatalog) -> duckdb.DuckDBPyConnection:
    """A DuckDB in memory that sees the catalog's tables as `lake.<namespace>.<table>` and cannot change them."""
    library = import_duckdb()
    from duckdb_extensions import import_extension

    # The extensions come from wheels, not from DuckDB's site: the first use works offline, too.
    folder = cache_folder() / "duckdb"
    folder.mkdir(parents=True, exist_ok=True)
    con: duckdb.DuckDBPyConnection = library.connect(config={**NO_EXTENSIONS, "extension_directory": str(folder)})
    try:
        for name in EXTENSIONS:
            try:
                con.execute(f"LOAD {name}")
            except library.IOException:  # the first time
                import_extension(name, con=con)
                con.execute(f"LOAD {name}")
        if secret := _s3_secret(settings, catalog):
            con.execute(secret)
        con.execute(_attach(catalog.properties))
        con.execute("SET lock_configuration = true")
    except library.Error as exc:
        con.close()
        raise QueryError(
            f"DuckDB could not open the catalog at {redact_url(catalog.properties['uri'])}: {first_line(exc)}",
            reason=first_line(exc),
        ) from exc
    return con


def connect_closed(**settings: str | int | bool) -> duckdb.DuckDBPyConnection:
    """A DuckDB in memory that reads what is registered and nothing else: no file, no network, no extension, no Python
    variable.

    SQL may come from anyone who can create a view in the catalog. The settings cannot be changed afterwards, also not
    by SQL.
    """
    con: duckdb.DuckDBPyConnection = import_duckdb().connect(
        config={**NO_EXTENSIONS, "enable_external_access": False, **settings}
    )
    con.execute("SET lock_configuration = true")
    return con


def import_duckdb() -> ModuleType:
    """DuckDB, and the wheels of its extensions; or the command that installs them."""
    try:
        import duckdb
        import duckdb_extensions  # noqa: F401
    except ImportError as exc:
        raise MissingExtra("duckdb", extra="duckdb") from exc
    return duckdb


def _attach(known: Mapping[str, str]) -> str:
    access = f"TOKEN {literal(known['token'])}" if known.get("token") else "AUTHORIZATION_TYPE 'none'"
    options = f"TYPE iceberg, ENDPOINT {literal(known['uri'])}, {access}, ACCESS_DELEGATION_MODE 'none', READ_ONLY"
    return f"ATTACH {literal(known.get('warehouse', ''))} AS {ATTACHED} ({options})"


def _s3_secret(settings: Settings, catalog: FrazilCatalog) -> str | None:
    """The keys and the endpoint, as PyIceberg would use them: what is set here, else what the catalog returned."""
    properties = catalog.properties
    endpoint = (
        properties.get("s3.endpoint") or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    )
    key = properties.get("s3.access-key-id") or os.environ.get("AWS_ACCESS_KEY_ID")
    secret = properties.get("s3.secret-access-key") or os.environ.get("AWS_SECRET_ACCESS_KEY")
    if not (endpoint or key):
        return None
    options = {
        "KEY_ID": key,
        "SECRET": secret,
        "REGION": properties.get("s3.region") or os.environ.get("AWS_REGION") or settings.s3.region,
    }
    options["SESSION_TOKEN"] = properties.get("s3.session-token") or os.environ.get("AWS_SESSION_TOKEN")
    parts = [f"{name} {literal(value)}" for name, value in options.items() if value]
    if endpoint:
        parts += s3_address(endpoint, path_style=settings.s3.path_style_access)
    return f"CREATE SECRET (TYPE s3, {', '.join(parts)})"


def s3_address(endpoint: str, *, path_style: bool) -> list[str]:
    """An S3 endpoint in the words of DuckDB's secrets.

    >>> s3_address("http://127.0.0.1:8333", path_style=True)
    ["ENDPOINT '127.0.0.1:8333'", "URL_STYLE 'path'", 'USE_SSL false']
    """
    parts = urlsplit(endpoint)
    place, secure = parts.netloc + parts.path.rstrip("/"), str(parts.scheme == "https").lower()
    return [f"ENDPOINT {literal(place)}", f"URL_STYLE '{'path' if path_style else 'vhost'}'", f"USE_SSL {secure}"]


def literal(text: str) -> str:
    """
    >>> literal("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


def first_line(exc: Exception) -> str:
    """What DuckDB said, without the picture of the query below it, and without addresses of memory."""
    return str(exc).partition("\n\nLINE ")[0].partition("\n\nStack Trace")[0].strip().replace("\n", " ")
