"""Views of the catalog in the words of an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.errors import MissingExtra, QueryError

if TYPE_CHECKING:
    from frazil.client import FrazilCatalog


def view_sql(catalog: FrazilCatalog, name: str, dialect: str = "duckdb") -> tuple[str, str]:
    """The query of a view, and the namespace of names without one in it: as it was written for the engine, else
    translated.
    """
    view = catalog.load_view(name)
    version = view.current_version()
    dialects = {
        representation.root.dialect.lower(): representation.root.sql for representation in version.representations
    }
    namespace = ".".join(version.default_namespace)
    if dialect in dialects:
        return dialects[dialect], namespace
    written, sql = next(iter(dialects.items()))
    try:
        import sqlglot
    except ImportError as exc:
        raise MissingExtra("sqlglot", extra="sinks") from exc
    try:
        return sqlglot.transpile(sql, read=written, write=dialect)[0], namespace
    except (sqlglot.errors.SqlglotError, ValueError) as exc:
        raise QueryError(
            f"the view {name} is written for {written}, and cannot be translated for {dialect}: {exc}", reason=str(exc)
        ) from exc
