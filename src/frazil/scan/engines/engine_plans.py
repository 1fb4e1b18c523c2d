"""What another engine makes of the same scan: the columns and filters that it pushes down to the table, the ones that
it does not, and how many files it reads. Read from the engine's own plan, so it is what that version of it does.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from frazil.errors import MissingExtra, QueryError
from frazil.scan.engines.sql import quoted, to_sql
from frazil.scan.planning import EngineReport
from frazil.scan.reading import Searchable

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from frazil.client import FrazilCatalog
    from frazil.config import Settings
    from frazil.scan.reading import RowScan

ENGINES = ("duckdb", "daft", "spark")


class _Lake(Protocol):
    @property
    def settings(self) -> Settings: ...

    @property
    def catalog(self) -> FrazilCatalog: ...


class ScannedTable(Searchable, Protocol):
    """A table of a lake, as an engine opens it."""

    @property
    def name(self) -> str: ...

    @property
    def lake(self) -> _Lake: ...

    def load(self) -> Table: ...


def explain_engine(
    table: ScannedTable, scan: RowScan, engine: str, *, session: SparkSession | None = None
) -> EngineReport:
    """What an engine would do to read the same rows."""
    if engine == "duckdb":
        return _duckdb(table, scan)
    if engine == "daft":
        return _daft(table, scan)
    if engine == "spark":
        return _spark(table, scan, session)
    raise QueryError(f"the plans of '{engine}' cannot be read", hint=f"there are: {', '.join(ENGINES)}")


def _query(scan: RowScan, place: str, *, dialect: str, version: str = "") -> str:
    names = ", ".join(quoted(field.name, dialect) for field in scan.fields)
    planner = scan.planner()
    where = f" WHERE {to_sql(planner.bound, planner.schema, dialect=dialect)}" if planner.terms else ""
    limit = "" if scan.limit is None else f" LIMIT {scan.limit}"
    return f"SELECT {names} FROM {place}{version}{where}{limit}"  # noqa: S608  # every name is quoted


# --- DuckDB ----------------------------------------------------------------------------------------------------------


def _duckdb(table: ScannedTable, scan: RowScan) -> EngineReport:
    """DuckDB with its own Iceberg extension. It would tell the files only of a query that it has run."""
    from frazil.scan.engines.duck import ATTACHED, first_line, import_duckdb, open_duckdb

    library = import_duckdb()
    namespace, _, name = table.name.rpartition(".")
    place = f'"{ATTACHED}"."{namespace}"."{name}"'
    version = "" if scan.request.snapshot_id is None else f" AT (VERSION => {scan.request.snapshot_id})"
    con = open_duckdb(table.lake.settings, table.lake.catalog)
    try:
        sql = _query(scan, place, dialect="duckdb", version=version)
        (row,) = con.execute(f"EXPLAIN (FORMAT json) {sql}").fetchall()
    except library.Error as exc:
        raise QueryError(f"DuckDB cannot plan this: {first_line(exc)}", reason=first_line(exc)) from exc
    finally:
        con.close()
    return read_duckdb_plan(row[1])


def read_duckdb_plan(text: str) -> EngineReport:
    """The facts in a plan of DuckDB's, in JSON."""
    scans, filters = [], []
    for node in _nodes(json.loads(text)):
        facts = node.get("extra_info") or {}
        name = str(node.get("operator_name") or node.get("name") or "").strip()
        if facts.get("Function") == "ICEBERG_SCAN" or name == "ICEBERG_SCAN":
            scans.append(facts)
        elif name == "FILTER":
            filters += _texts(facts.get("Expression"))
    facts = scans[0] if scans else {}  # it may know beforehand that there is nothing to read
    return EngineReport(
        "duckdb",
        tuple(part for text in _texts(facts.get("Filters")) for part in split_and(text)),
        tuple(part for filter_ in filters for part in split_and(filter_)),
        tuple(_texts(facts.get("Projections"))),
        None if scans else 0,
        text,
    )


def _nodes(node: Any) -> Iterator[dict[str, Any]]:
    for child in node if isinstance(node, list) else [node]:
        yield child
        yield from _nodes(child.get("children") or [])


def _texts(value: Any) -> list[str]:
    return (
        [] if not value else [str(element) for element in value] if isinstance(value, list) else str(value).splitlines()
    )


# --- Daft ------------------------------------------------------------------------------------------------------------


def _daft(table: ScannedTable, scan: RowScan) -> EngineReport:
    try:
        import daft
    except ImportError as exc:
        raise MissingExtra("daft", extra="daft") from exc
    planner = scan.planner()
    frame = daft.read_iceberg(table.load(), snapshot_id=scan.request.snapshot_id)
    if planner.terms:
        frame = frame.where(to_sql(planner.bound, planner.schema, dialect="daft"))
    frame = frame.select(*(field.name for field in scan.fields))
    text = io.StringIO()
    (frame if scan.limit is None else frame.limit(scan.limit)).explain(show_all=True, file=text)
    return read_daft_plan(text.getvalue())


def read_daft_plan(text: str) -> EngineReport:
    """The facts in the plans that Daft prints."""
    optimized = text.partition("== Optimized Logical Plan ==")[2].partition("== Physical Plan ==")[0]
    # Long lines are wrapped: what goes on begins with "|     ".
    lines = re.sub(r"\n\|     +", " ", optimized).splitlines()
    facts = {
        key.strip("|* ").strip(): rest.strip() for key, sign, rest in (line.partition("=") for line in lines) if sign
    }
    kept = [line.partition("Filter:")[2].strip() for line in lines if re.match(r"\W*Filter:", line)]
    pushed = [facts[key] for key in ("Partition Filter", "Filter pushdown") if key in facts]
    columns = facts.get("Projection pushdown", "").strip("[]")
    tasks = facts.get("Num Scan Tasks", "")
    return EngineReport(
        "daft",
        tuple(part for term in pushed for part in split_and(term, " & ")),
        tuple(part for term in kept for part in split_and(term, " & ")),
        tuple(name.strip() for name in columns.split(",") if name.strip()),
        int(tasks) if tasks.isdigit() else None,
        text,
    )


# --- Spark -----------------------------------------------------------------------------------------------------------


def _spark(table: ScannedTable, scan: RowScan, session: SparkSession | None) -> EngineReport:
    if session is None:
        raise QueryError("Spark plans in a session: give one", hint="explain(engine='spark', session=spark)")
    name = f"`{table.lake.settings.catalog.name}`.{quoted(table.name, 'spark')}"
    version = "" if scan.request.snapshot_id is None else f" VERSION AS OF {scan.request.snapshot_id}"
    frame = session.sql(_query(scan, name, dialect="spark", version=version))
    return read_spark_plan(frame._jdf.queryExecution().executedPlan().toString())


def read_spark_plan(text: str) -> EngineReport:
    """The facts in a physical plan of Spark's."""
    scan = re.search(r"BatchScan [^\[\n]*\[([^\]]*)\][^\n]*?\bfilters=(.*?), (?:runtimeFilters|groupedBy)=", text)
    kept = [part for condition in re.findall(r"Filter \((.*)\)$", text, re.MULTILINE) for part in split_and(condition)]
    if scan is None:
        return EngineReport("spark", (), tuple(kept), (), None, text)
    columns = tuple(re.sub(r"#\d+L?$", "", part.strip()) for part in scan[1].split(",") if part.strip())
    return EngineReport("spark", tuple(split_outside(scan[2], ", ")), tuple(kept), columns, None, text)


# ---------------------------------------------------------------------------------------------------------------------


def split_and(text: str, word: str = " AND ") -> list[str]:
    """The parts of a conjunction, without the parentheses around all of it.

    >>> split_and("((a = 1 AND b = 2) AND c IN (3, 4))"), split_and("[[a == 1] & [b > 2]] & [c == 3]", " & ")
    (['a = 1', 'b = 2', 'c IN (3, 4)'], ['a == 1', 'b > 2', 'c == 3'])
    """
    text = text.strip()
    while text[:1] in ("(", "[") and _end(text) == len(text):
        text = text[1:-1].strip()
    parts = split_outside(text, word)
    return [text] if len(parts) == 1 else [term for part in parts for term in split_and(part, word)]


def split_outside(text: str, word: str) -> list[str]:
    """The text at a word that stands outside of parentheses and quotes."""
    depth, quote, start, parts = 0, "", 0, []
    for at, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        else:
            depth += (sign in "([") - (sign in ")]")
            if depth == 0 and text.upper().startswith(word.upper(), at):
                parts.append(text[start:at].strip())
                start = at + len(word)
    return [part for part in (*parts, text[start:].strip()) if part]


def _end(text: str) -> int:
    """Where the first parenthesis is closed."""
    depth = 0
    for at, sign in enumerate(text):
        depth += (sign in "([") - (sign in ")]")
        if depth == 0:
            return at + 1
    return -1
