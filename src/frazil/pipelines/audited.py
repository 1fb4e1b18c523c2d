"""Write, audit, publish: rows go to a stage, the checks run there, and main gets the rows with their progress only if
they pass.

The stage knows no progress of its own. Publishing moves main to the staged snapshot in the one commit that also moves
the progress, so that a kill at any moment leaves either nothing on main, or all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from frazil.errors import AuditFailed, PipelineError
from frazil.spark import spark_error, spark_errors
from frazil.write.contract import is_query

if TYPE_CHECKING:
    from pyiceberg.typedef import Identifier
    from pyspark.sql import SparkSession

    from frazil.client import FrazilCatalog


class Audited(Protocol):
    """What is audited: a pipeline, or a derivation."""

    @property
    def name(self) -> str: ...

    @property
    def identifier(self) -> Identifier: ...

    @property
    def audit(self) -> tuple[str, ...]: ...

    @property
    def branch(self) -> str: ...


@dataclass(frozen=True)
class Audit:
    """The checks of a pipeline on a snapshot that main does not have yet; a `publishing.Judge`.

    `passed` is a snapshot whose rows are known to meet the conditions: what only adds files to it is judged by these
    alone.
    """

    pipeline: Audited
    spark: SparkSession
    catalog: FrazilCatalog
    rows: int
    passed: int | None = None

    @property
    def branch(self) -> str:
        return self.pipeline.branch

    def check(self, snapshot_id: int, base_id: int | None) -> None:
        """Raises `AuditFailed` with what each check that failed has found."""
        failures = {}
        for check in self.pipeline.audit:
            # None, too, where the ref was empty
            since = base_id if base_id == self.passed and not is_query(check) else None
            if violations := self._find(check, snapshot_id, since):
                failures[check] = violations
        if failures:
            table = ".".join(self.pipeline.identifier)
            raise AuditFailed(self.pipeline.name, table, self.branch, rows=self.rows, failures=failures)

    def _find(self, check: str, snapshot_id: int, since: int | None) -> int:
        table = ".".join(f"`{part}`" for part in (self.catalog.name, *self.pipeline.identifier))
        try:
            if since is None:
                return int(self.spark.sql(audit_query(check, f"{table} VERSION AS OF {snapshot_id}")).collect()[0][0])
            ends = {"start-snapshot-id": str(since), "end-snapshot-id": str(snapshot_id)}
            return self.spark.read.options(**ends).table(table).where(f"NOT ({check})").count()
        except spark_errors() as exc:
            raise PipelineError(
                f"pipeline '{self.pipeline.name}': the audit '{check}' cannot be run: {spark_error(str(exc))}",
                hint=f"main is unchanged, the new rows are on branch '{self.branch}'; fix the check and run again",
                pipeline=self.pipeline.name,
                check=check,
            ) from exc


def audit_query(check: str, table: str) -> str:
    """The query that counts what a check finds wrong. A condition that is NULL for a row has not failed, as everywhere
    in SQL.

    >>> audit_query("amount < 10", "t")
    'SELECT count(*) FROM t WHERE NOT (amount < 10)'
    >>> audit_query("SELECT id FROM {table} GROUP BY 1 HAVING count(*) > 1", "t")
    'SELECT count(*) FROM (SELECT id FROM t GROUP BY 1 HAVING count(*) > 1)'
    """
    if is_query(check):
        return f"SELECT count(*) FROM ({check.strip().rstrip(';').replace('{table}', table)})"  # noqa: S608  # the project's own SQL
    return f"SELECT count(*) FROM {table} WHERE NOT ({check})"  # noqa: S608
