"""`@pipeline`: a function from DataFrame to DataFrame, with the source it reads, the table it fills, and the rules in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from frazil.errors import DeclarationError
from frazil.pipelines.sources import FileSource
from frazil.tables.declare import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    Transform = Callable[[DataFrame], DataFrame]

Mode = Literal["append", "replace-partition"]
Drift = Literal["evolve", "freeze", "quarantine"]


@dataclass(frozen=True)
class Pipeline:
    """A declared pipeline; calling it is calling the user's function, so that it can be tested alone."""

    name: str
    source: FileSource
    target: Table
    transform: Transform
    key: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()
    mode: Mode = "append"
    max_bad_share: float = 0.05
    drift: Drift = "freeze"

    def __call__(self, frame: DataFrame) -> DataFrame:
        return self.transform(frame)

    @property
    def checks(self) -> tuple[str, ...]:
        """The conditions that the target declares."""
        return tuple(getattr(self.target, "checks", ()))


def pipeline(
    *,
    source: FileSource,
    target: Table,
    name: str | None = None,
    key: Sequence[str] = (),
    order_by: str | Sequence[str] = (),
    mode: Mode = "append",
    max_bad_share: float = 0.05,
    drift: Drift = "freeze",
) -> Callable[[Transform], Pipeline]:
    """Declares the decorated function as a pipeline from `source` into `target`.

    - `key`: of the rows of one load that share it, the last one is kept: by `order_by`, then by file and row.
    - `mode`: `append`, or `replace-partition`: the partitions that the load has rows of are replaced by them.
    - `max_bad_share`: rows that fail their type, NOT NULL or a check go to the quarantine; above this share the run stops instead.
    - `drift`: what happens to columns of the source that the table does not have: `freeze` stops the run, `evolve` adds them to the
      table, `quarantine` sets the rows of such files aside.
    """
    orders = (order_by,) if isinstance(order_by, str) else tuple(order_by)

    def decorate(transform: Transform) -> Pipeline:
        made = Pipeline(name or transform.__name__, source, target, transform, tuple(key), orders, mode, max_bad_share, drift)
        _check(made)
        return made

    return decorate


def _check(made: Pipeline) -> None:
    names = [column.name for column in made.target.columns]
    if unknown := [name for name in made.key if name not in names]:
        raise _wrong(made, f"key names column '{unknown[0]}', which {made.target.name} does not have; it has {', '.join(names)}")
    if made.order_by and not made.key:
        raise _wrong(made, "order_by decides between rows of one key, and no key is given", hint='key=["order_id"]')
    if made.mode not in get_args(Mode):
        raise _wrong(made, f"mode is '{made.mode}', expected one of {', '.join(get_args(Mode))}")
    if made.drift not in get_args(Drift):
        raise _wrong(made, f"drift is '{made.drift}', expected one of {', '.join(get_args(Drift))}")
    if made.mode == "replace-partition" and not made.target.partition_by:
        raise _wrong(made, f"mode is 'replace-partition', but {made.target.name} has no partitions", hint='partition_by=["day"]')
    if not 0 <= made.max_bad_share <= 1:
        raise _wrong(made, f"max_bad_share is {made.max_bad_share}, expected a share from 0 to 1")


def _wrong(made: Pipeline, what: str, *, hint: str | None = None) -> DeclarationError:
    return DeclarationError(f"pipeline '{made.name}': {what}", hint=hint)
