"""Former names of modules that docs and examples have named: they can be imported for one more release, with a
DeprecationWarning.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "frazil.pipelines.arrivals": "frazil.pipelines.batch.arrivals",
    "frazil.pipelines.session": "frazil.spark.session",
    "frazil.sinks.delta_repair": "frazil.sinks.delta.repair",
    "frazil.sinks.delta_rollback": "frazil.sinks.delta.rollback",
    "frazil.sinks.replay": "frazil.quarantine.replay",
    "frazil.sinks.replay_delta": "frazil.quarantine.replay_delta",
    "frazil.sinks.rollback": "frazil.write.commit.rollback",
    "frazil.sinks.snapshots": "frazil.write.commit.snapshots",
    "frazil.sinks.spark_format": "frazil.sinks.spark.format",
    "frazil.sinks.sql_limits": "frazil.write.contract.sql_limits",
    "frazil.sinks.upsert_rules": "frazil.write.upsert.rules",
}


class _Former(MetaPathFinder, Loader):
    """Is asked after all others, so it costs nothing where a module exists."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        new = MOVED[module.__name__]
        warnings.warn(
            f"{module.__name__} has moved to {new}; the old name goes with the next release",
            DeprecationWarning,
            stacklevel=2,
        )
        found = import_module(new)
        module.__getattr__ = lambda name: getattr(found, name)  # type: ignore[method-assign]


def install() -> None:
    """Lets the former names be imported."""
    if not any(isinstance(finder, _Former) for finder in sys.meta_path):
        sys.meta_path.append(_Former())
