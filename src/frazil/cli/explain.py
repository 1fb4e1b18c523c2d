"""`frazil explain`: which files a scan reads, and why not the others."""

from __future__ import annotations

import click

from frazil.cli.complete import complete_any_ref, complete_tables
from frazil.cli.context import Context
from frazil.cli.show import REFERENCE, output_option, print_json


@click.command()
@click.argument("table", shell_complete=complete_tables)
@click.option("--where", metavar="FILTER", help="Which rows: country = 'NO' AND amount > 10.")
@click.option("--columns", metavar="A,B", help="Which columns; all unless given.")
@click.option(
    "--at",
    metavar="REFERENCE",
    shell_complete=complete_any_ref,
    help=f"As of when: {REFERENCE}.",
)
@click.option(
    "--engine",
    type=click.Choice(["duckdb", "daft", "spark"]),
    help="Show also what this engine pushes down, and what not.",
)
@click.option(
    "--row-groups/--no-row-groups",
    default=True,
    show_default=True,
    help="Look into the footers of the files that are left.",
)
@output_option("text", "json", former={"tree": "text"})
@click.pass_obj
def explain(
    context: Context,
    table: str,
    where: str | None,
    columns: str | None,
    at: str | None,
    engine: str | None,
    row_groups: bool,
    output: str,
) -> None:
    """Show which files a scan of a table skips, and why.

    Layer by layer, with the term of the filter that decides. Nothing but metadata is read: the manifest list,
    manifests, and the footers of the files that are left.
    """
    from frazil.lake import Lake

    names = None if columns is None else [name.strip() for name in columns.split(",") if name.strip()]
    scan = Lake(context.settings, catalog=context.catalog).table(table).scan(where, names, at=at)
    if engine == "spark":
        from frazil.spark import spark_session

        log = context.settings.stack.folder / "logs" / "explain-spark.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with spark_session(context.settings, app_name="frazil explain", log=log) as session:
            report = scan.explain(row_groups=row_groups, engine=engine, session=session)
    else:
        report = scan.explain(row_groups=row_groups, engine=engine)
    if output == "json":
        print_json(report.to_json())
        return
    from rich.console import Console

    console = Console()
    (console if console.is_terminal else Console(width=160)).print(report.tree())
