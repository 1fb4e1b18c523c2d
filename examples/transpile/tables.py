"""Where the rows go: the declared Iceberg table with its ledger of files, or a Delta table with the same columns."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse import transpiled

import frazil.sinks
from frazil.client import FrazilCatalog, connect
from frazil.config import Settings
from frazil.pipelines import ledger_of, ledger_rows, read_ledger
from frazil.pipelines.batch.arrivals import Tag
from frazil.pipelines.sources import SourceFile
from frazil.tables import apply_steps, plan

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table

    from frazil.sinks import ArrowSink

NAME = "transpile"
Identity = tuple[str, int, str]


@dataclass(frozen=True)
class Ledger:
    """The table that says which files are in; its rows are committed together with the last rows of a file."""

    table: Table

    @classmethod
    def of(cls, catalog: FrazilCatalog) -> Ledger:
        """The ledger of the declared table; both are made if they are missing."""
        for declared in (transpiled, ledger_of(transpiled)):
            list(apply_steps(plan(declared, catalog), catalog))
        return cls(catalog.load_table(ledger_of(transpiled).identifier))

    @property
    def identifier(self) -> tuple[str, ...]:
        return ledger_of(transpiled).identifier

    def finished(self) -> set[Identity]:
        files = (SourceFile(**row) for batch in read_ledger(self.table, NAME) for row in batch.to_pylist())
        return set().union(*map(identities, files))

    def rows(self, *files: SourceFile) -> pa.Table:
        return ledger_rows(files, pipeline=NAME, run_id=uuid.uuid4().hex, ledger=self.table)


def identities(file: SourceFile) -> set[Identity]:
    """What a file is known by: its path and content, or its path and modification time, as for files that were loaded
    without a hash.
    """
    tag = Tag.parse(file.tag)
    return {(file.path, file.size, known) for known in (tag.stamp, tag.content) if known}


def source_of(file: SourceFile, position: Mapping[str, int]) -> str:
    """The name of a file in the table's progress: one with other content is another one. A file begun under its time
    keeps that name.
    """
    tag = Tag.parse(file.tag)
    by_time = f"{file.path}@{tag.stamp}"
    return by_time if by_time in position or not tag.content else f"{file.path}@{tag.content}"


def open_iceberg(settings: Settings, *, flush_rows: int) -> tuple[ArrowSink, Ledger]:
    """The sink of the declared table, and its ledger; both tables are made if they are missing."""
    catalog = connect(settings)
    ledger = Ledger.of(catalog)
    return frazil.sinks.open(transpiled.name, name=NAME, catalog=catalog, flush_rows=flush_rows), ledger


def open_delta(uri: str, settings: Settings, *, flush_rows: int) -> ArrowSink:
    """The sink of a Delta table with the declared columns; it is made if it is missing."""
    options = make_delta(uri, settings)
    return frazil.sinks.open(uri, name=NAME, storage_options=options, flush_rows=flush_rows)


def make_delta(uri: str, settings: Settings) -> dict[str, str]:
    """Makes the Delta table if it is missing; gives the options to reach it with."""
    from deltalake import DeltaTable

    from frazil.sinks.delta import create_delta_table

    options = delta_options(settings) if uri.startswith("s3://") else {}
    if not DeltaTable.is_deltatable(uri, options):
        create_delta_table(uri, transpiled.schema(), storage_options=options)
    return options


def delta_options(settings: Settings) -> dict[str, str]:
    """How delta-rs reaches the object store of the settings."""
    s3 = settings.s3
    keys = {"AWS_ACCESS_KEY_ID": s3.access_key_id, "AWS_SECRET_ACCESS_KEY": s3.secret_access_key}
    options = {name: secret.get_secret_value() for name, secret in keys.items() if secret}
    # A commit is a PUT that fails if the file is there: the store must honour If-None-Match, as SeaweedFS and S3 do.
    options |= {"AWS_REGION": s3.region, "conditional_put": "etag"}
    if s3.endpoint:
        options |= {"AWS_ENDPOINT_URL": s3.endpoint, "AWS_ALLOW_HTTP": str(s3.endpoint.startswith("http://")).lower()}
    return options
