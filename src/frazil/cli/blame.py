"""`frazil blame`: where rows came from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from frazil.cli.complete import complete_any_ref, complete_tables
from frazil.cli.context import Context
from frazil.cli.log import as_json as entry_as_json
from frazil.cli.origins import describe_entry, describe_origins, describe_values, origins_as_json
from frazil.cli.show import OUTPUT, REFERENCE, echo, print_json
from frazil.units import count

if TYPE_CHECKING:
    from frazil.history import Blame, RowBlame, RowSource, Upstream
    from frazil.pipelines.sources import FileSource


@click.command()
@click.argument("table", shell_complete=complete_tables)
@click.option("--where", required=True, metavar="SQL", help="A condition, as checks have it: amount >= 1e6.")
@click.option(
    "--at",
    default="main",
    metavar="REFERENCE",
    shell_complete=complete_any_ref,
    show_default=True,
    help=f"{REFERENCE}.",
)
@click.option("--columns", metavar="COL[,COL]", help="Show these columns only.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="How many rows.")
@OUTPUT
@click.pass_obj
def blame(context: Context, table: str, where: str, at: str, columns: str | None, limit: int, output: str) -> None:
    """Show where rows came from: file, snapshot, run and source.

    Rows that compaction or an upsert only rewrote are followed to the snapshot that brought them, and from there to
    landing files, offsets, or the tables that it was made from.
    """
    from frazil.lake import Lake

    live = Lake(context.settings, catalog=context.catalog).table(table)
    chosen = [name.strip() for name in columns.split(",")] if columns else None
    result = live.blame(where, at=at, columns=chosen, limit=limit, sources=_sources())
    if output == "json":
        print_json(as_json(result))
        return
    for line in describe(result):
        echo(line)


def _sources() -> dict[str, FileSource]:
    """How landing files are spelled, as the project in this folder says, if there is one that can be read."""
    from frazil.errors import FrazilError
    from frazil.pipelines.sources import FileSource
    from frazil.project import FILE_NAME, load_project

    if not (Path.cwd() / FILE_NAME).exists():
        return {}
    try:
        pipelines = load_project(Path.cwd()).pipelines
    except FrazilError:  # old rows have an origin, whatever the project is now
        return {}
    return {each.name: each.source for each in pipelines if isinstance(each.source, FileSource)}


@dataclass
class Node:
    """A line, and those below it."""

    text: str
    children: list[Node] = field(default_factory=list)


def describe(result: Blame) -> Iterator[str]:
    """A short tree for each row."""
    if not result.rows:
        yield f"{result.table} at snapshot {result.snapshot_id}: no row where {result.where}"
        return
    more = "the first " if result.more else ""
    rows = f"{more}{count(len(result.rows), 'row')}"
    yield f"{result.table} at snapshot {result.snapshot_id}: {rows} where {result.where}"
    for row in result.rows:
        yield from draw(_row(row))
    if result.more:
        yield "... and more (--limit)"


def draw(node: Node, above: str = "", head: str = "") -> Iterator[str]:
    """A tree as lines.

    >>> print("\\n".join(draw(Node("row", [Node("file", [Node("a")]), Node("snapshot")]))))
    row
    ├─ file
    │  └─ a
    └─ snapshot
    """
    yield f"{above}{head}{node.text}"
    below = above + {"": "", "├─ ": "│  ", "└─ ": "   "}[head]
    for place, child in enumerate(node.children):
        yield from draw(child, below, "└─ " if place == len(node.children) - 1 else "├─ ")


def _row(row: RowBlame) -> Node:
    rewritten = [Node(f"rewritten by {describe_entry(entry)}") for entry in row.rewritten_by]
    sources = [_source(source, "came with") for source in row.sources]
    if len(sources) > 1:
        sources = [Node("the table had identical rows: it came with one of these snapshots", sources)]
    return Node(describe_values(row.values), [Node(f"file {row.file}, row {row.position}"), *rewritten, *sources])


def _source(source: RowSource, verb: str = "") -> Node:
    if source.entry is not None:
        text = describe_entry(source.entry)
    elif source.snapshot_id is not None:
        text = f"snapshot {source.snapshot_id}, which has expired"
    else:
        text = f"the snapshot with sequence number {source.sequence}, which has expired"
    origins = _nodes([*([f"not certain: {source.doubt}"] if source.doubt else []), *describe_origins(source.origins)])
    return Node(f"{verb} {text}".strip(), [*origins, *map(_upstream, source.upstream)])


def _upstream(table: Upstream) -> Node:
    since = "" if table.input.since_id is None else f"; the commit before had read snapshot {table.input.since_id}"
    below = [_source(source, "new:") for source in table.snapshots]
    below += [Node(f"... and {count(table.more, 'older snapshot')}")] if table.more else []
    below += [Node(table.problem)] if table.problem else []
    return Node(f"made from {table.input.table} at snapshot {table.input.snapshot_id}{since}", below)


def _nodes(lines: Sequence[str]) -> list[Node]:
    """Lines that are indented belong to the one before them."""
    nodes: list[Node] = []
    for line in lines:
        if line.startswith("  ") and nodes:
            nodes[-1].children.append(Node(line.strip()))
        else:
            nodes.append(Node(line))
    return nodes


def as_json(result: Blame) -> dict[str, Any]:
    """The same for programs: docs/cli-json.md has its shape."""
    return {
        "table": result.table,
        "where": result.where,
        "snapshot_id": result.snapshot_id,
        "rows": [_row_as_json(row) for row in result.rows],
        "more": result.more,
    }


def _row_as_json(row: RowBlame) -> dict[str, Any]:
    return {
        "values": row.values,
        "file": row.file,
        "position": row.position,
        "row_id": row.row_id,
        "rewritten_by": [entry_as_json(entry) for entry in row.rewritten_by],
        "sources": [_source_as_json(source) for source in row.sources],
    }


def _source_as_json(source: RowSource) -> dict[str, Any]:
    return {
        "snapshot_id": source.snapshot_id,
        "sequence_number": source.sequence,
        "snapshot": None if source.entry is None else entry_as_json(source.entry),
        "doubt": source.doubt,
        "origins": origins_as_json(source.origins),
        "upstream": [_upstream_as_json(table) for table in source.upstream],
    }


def _upstream_as_json(table: Upstream) -> dict[str, Any]:
    return {
        "table": table.input.table,
        "snapshot_id": table.input.snapshot_id,
        "since_snapshot_id": table.input.since_id,
        "snapshots": [_source_as_json(source) for source in table.snapshots],
        "more": table.more,
        "problem": table.problem,
    }
