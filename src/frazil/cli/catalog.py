"""`frazil catalog`: the database's schema, and metadata files that no table points to."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

import click

from frazil.cli.context import Context
from frazil.cli.serve import parse_warehouses
from frazil.cli.show import OUTPUT, echo, print_json
from frazil.errors import ConfigError
from frazil.units import parse_age

if TYPE_CHECKING:
    from frazil.catalog import Context as ServerContext
    from frazil.catalog import Database, Place, S3Access

DATABASE = click.option("--database", metavar="URL", help="The catalog's database.  [default: the server's]")
WAREHOUSE = click.option(
    "--warehouse", "warehouses", multiple=True, metavar="[NAME=]LOCATION", help="A warehouse.  [default: the server's]"
)


@click.group()
def catalog() -> None:
    """Maintain the catalog's database and files."""


@catalog.command()
@DATABASE
@OUTPUT
@click.pass_obj
def migrate(context: Context, database: str | None, output: str) -> None:
    """Bring the database's schema up to date; creates it in an empty database."""
    from frazil.catalog import (
        MetadataFiles,
        VersionCache,
        current_version,
        find_overlaps,
        open_database,
        store_missing_places,
    )
    from frazil.catalog import migrate as take_steps

    opened = open_database(context.settings_with(server__database=database).server.database.get_secret_value())
    try:
        steps = []
        for step in take_steps(opened):
            steps.append(str(step))
            if output == "text":
                echo(f"migrated: {step}")
        files = MetadataFiles(VersionCache(0), access_to=_access(context, opened))
        stored = store_missing_places(opened, files)
        count = len(find_overlaps(opened.read())) if stored else 0
        version = current_version(opened)
        if output == "json":
            print_json({"version": version, "steps": steps, "stored": stored, "overlaps": count})
            return
        if stored:
            hint = "; frazil catalog overlaps lists them, they keep working" if count else ""
            echo(f"stored the folders of {stored} tables and views: {count} overlaps{hint}")
        echo(f"the schema is at version {version}")
    finally:
        opened.close()


def _access(context: Context, database: Database) -> Callable[[Place], S3Access]:
    """How files are reached that must be read while places are stored: as the server reaches them."""
    from frazil.catalog import StoredWarehouses, Warehouses, open_secret_keys

    settings = context.settings.server
    warehouses = Warehouses(settings.warehouses, allow_overlap=True)

    @cache
    def open_all() -> Warehouses:  # with the first file in S3: most databases need none, and no key
        keys = open_secret_keys(*settings.secret_keys)
        StoredWarehouses(database, keys).open_into(warehouses)
        return warehouses

    return lambda place: open_all().access_to(place)


@catalog.command()
@DATABASE
@OUTPUT
@click.pass_obj
def overlaps(context: Context, database: str | None, output: str) -> None:
    """List tables and views whose folders lie in each other. They keep working; new ones are refused."""
    from dataclasses import asdict

    from frazil.catalog import check_schema, find_overlaps, open_database

    url = context.settings_with(server__database=database).server.database.get_secret_value()
    opened = open_database(url)
    try:
        check_schema(opened, url)
        overlapping = find_overlaps(opened.read())
    finally:
        opened.close()
    if output == "json":
        print_json({"overlaps": [asdict(overlap) for overlap in overlapping]})
        return
    for overlap in overlapping:
        echo(f"{overlap.inner} ({overlap.inner.place}) lies in {overlap.outer} ({overlap.outer.place})")
    echo(f"{len(overlapping)} overlaps")


@catalog.command()
@DATABASE
@WAREHOUSE
@click.option(
    "--older-than", default="24h", show_default=True, metavar="AGE", help="Only files older than this: 30m, 24h, 7d."
)
@click.option("--yes", is_flag=True, help="Delete them. Without it, they are only listed.")
@OUTPUT
@click.pass_obj
def sweep(
    context: Context, database: str | None, warehouses: Sequence[str], older_than: str, yes: bool, output: str
) -> None:
    """List metadata files that no table has ever pointed to; delete them with --yes."""
    from dataclasses import asdict

    from frazil.catalog import delete_orphans, find_orphans

    age_ms = age_ms_of(older_than)
    with opened_server(context, database, warehouses) as server:
        orphans = find_orphans(server, older_than_ms=age_ms)
        deleted = delete_orphans(server, orphans) if yes else 0
    if output == "json":
        print_json({"orphans": [asdict(orphan) for orphan in orphans], "deleted": deleted})
        return
    for orphan in orphans:
        echo(f"{orphan.table}  {orphan.location}  {orphan.bytes} bytes  {orphan.age_ms / 3_600_000:.1f} h old")
    size = sum(orphan.bytes for orphan in orphans)
    word = f"deleted {deleted}" if yes else "nothing was deleted; --yes deletes them" if orphans else "nothing to do"
    echo(f"{len(orphans)} orphan metadata files, {size} bytes: {word}")


@contextmanager
def opened_server(context: Context, database: str | None, warehouses: Sequence[str]) -> Iterator[ServerContext]:
    """What a server of these settings works with: its database and its files, without the server.

    Where the local stack was started and nothing else is asked for, that is the stack's server.
    """
    from frazil.catalog import ServerOptions, open_context
    from frazil.services import Catalog, Stack

    settings = context.settings_with(server__database=database).server
    stack = Stack(context.settings).service("catalog")
    assert isinstance(stack, Catalog)
    if database is None and not warehouses and stack.state_file.exists():
        context.talk.note(f"the catalog of the stack in {stack.folder.parent}")
        os.environ.update({**stack.s3_place(), **stack.s3_keys()})
        url, roots = stack.database, stack.warehouses
    else:
        url, roots = settings.database.get_secret_value(), parse_warehouses(warehouses) or dict(settings.warehouses)
    options = ServerOptions(
        url,
        roots,
        settings.allow_locations,
        allow_properties=settings.allow_properties,
        allow_overlap=settings.allow_overlap,
        secret_key=settings.secret_keys[0],
        secret_key_file=settings.secret_keys[1],
    )
    server = open_context(options)
    try:
        yield server
    finally:
        server.close()


def age_ms_of(text: str) -> int:
    """The milliseconds of `--older-than`."""
    age_ms = parse_age(text)
    if age_ms is None:
        raise ConfigError(f"--older-than '{text}' is not an age", hint="30m, 24h or 7d")
    return age_ms
