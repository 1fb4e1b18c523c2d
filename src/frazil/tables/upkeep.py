"""How a declared table wants to be kept: `Table(..., upkeep=Upkeep(keep_days=30))`. It becomes properties of
the table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from frazil.errors import DeclarationError
from frazil.protocol import (
    PROPERTY_MAX_SNAPSHOT_AGE_MS,
    PROPERTY_MIN_INPUT_FILES,
    PROPERTY_MIN_SNAPSHOTS,
    PROPERTY_ORPHAN_AGE_MS,
    PROPERTY_ORPHANS_ENABLED,
    PROPERTY_TARGET_FILE_BYTES,
    PROPERTY_UPKEEP_ENABLED,
)
from frazil.units import parse_age

# Iceberg's own names where it has one: every engine's maintenance then honours the same rules.

_SIZES = {"kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}
_LEAST_ORPHAN_AGE_MS, _DAY_MS = 3_600_000, 86_400_000


@dataclass(frozen=True)
class Upkeep:
    """What `frazil maintain` does to a table; what is not said is left to Iceberg's defaults.

    - `target_file_size`: how large data files become: `"128MB"`, or a number of bytes.
    - `min_input_files`: the number of small files in a partition that starts a compaction.
    - `keep_days` and `keep_snapshots`: a snapshot expires when it is older *and* that many newer ones are kept.
    - `orphans_older_than`: files that nothing leads to are removed at this age: `"3d"`, `"12h"`.
    - `enabled`: whether the catalog maintains the table by itself (`frazil serve --upkeep`, `frazil upkeep`).
    - `remove_orphans`: whether the catalog also removes orphan files by itself.
    """

    target_file_size: str | int | None = None
    min_input_files: int | None = None
    keep_days: float | None = None
    keep_snapshots: int | None = None
    orphans_older_than: str | None = None
    enabled: bool | None = None
    remove_orphans: bool | None = None

    def properties(self, *, table: str) -> dict[str, str]:
        """The same as properties of the table.

        >>> Upkeep(target_file_size="128MB", keep_days=7).properties(table="lake.t")
        {'write.target-file-size-bytes': '134217728', 'history.expire.max-snapshot-age-ms': '604800000'}
        """
        values = {
            PROPERTY_TARGET_FILE_BYTES: _size(self.target_file_size, table),
            PROPERTY_MIN_INPUT_FILES: _whole(self.min_input_files, "min_input_files", 2, table),
            PROPERTY_MAX_SNAPSHOT_AGE_MS: None if self.keep_days is None else _days(self.keep_days, table),
            PROPERTY_MIN_SNAPSHOTS: _whole(self.keep_snapshots, "keep_snapshots", 1, table),
            PROPERTY_ORPHAN_AGE_MS: _age(self.orphans_older_than, table),
            PROPERTY_UPKEEP_ENABLED: _flag(self.enabled, "enabled", table),
            PROPERTY_ORPHANS_ENABLED: _flag(self.remove_orphans, "remove_orphans", table),
        }
        return {key: str(value) for key, value in values.items() if value is not None}


def _size(value: str | int | None, table: str) -> int | None:
    match = re.fullmatch(r"([1-9]\d{0,8})\s*([kmg]b)", value.strip().lower()) if isinstance(value, str) else None
    if match:
        return int(match[1]) * _SIZES[match[2]]
    if value is None or (isinstance(value, int) and value > 0 and value is not True):
        return value
    raise _wrong(table, "target_file_size", value, '"128MB", "1GB" or a number of bytes')


def _age(value: str | None, table: str) -> int | None:
    if value is None:
        return None
    age = parse_age(value) if isinstance(value, str) else None
    if not age:
        raise _wrong(table, "orphans_older_than", value, '"3d" or "12h"')
    if age < _LEAST_ORPHAN_AGE_MS:
        raise _wrong(
            table,
            "orphans_older_than",
            value,
            '"1h" at least: a commit that is under way has files that nothing leads to yet',
        )
    return age


def _days(value: float, table: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 100_000:
        raise _wrong(table, "keep_days", value, "a number of days")
    return int(value * _DAY_MS)


def _whole(value: int | None, name: str, least: int, table: str) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
        raise _wrong(table, name, value, f"a whole number from {least}")
    return value


def _flag(value: bool | None, name: str, table: str) -> str | None:
    if value is not None and not isinstance(value, bool):
        raise _wrong(table, name, value, "True or False")
    return None if value is None else str(value).lower()


def _wrong(table: str, name: str, value: object, expected: str) -> DeclarationError:
    return DeclarationError(
        f"table '{table}': upkeep {name} is {value!r}, expected {expected}",
        table=table,
        option=name,
        expected=expected,
        got=value,
    )
