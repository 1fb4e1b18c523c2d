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
    PROPERTY_TARGET_FILE_BYTES,
)

# Iceberg's own names where it has one: every engine's maintenance then honours the same rules.

_SIZES = {"kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}
_AGES = {"m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LEAST_ORPHAN_AGE_MS = _AGES["h"]


@dataclass(frozen=True)
class Upkeep:
    """What `frazil maintain` does to a table; what is not said is left to Iceberg's defaults.

    - `target_file_size`: how large data files become: `"128MB"`, or a number of bytes.
    - `min_input_files`: so many small files of a partition are worth a compaction.
    - `keep_days` and `keep_snapshots`: a snapshot expires when it is older *and* that many newer ones are kept.
    - `orphans_older_than`: files that nothing leads to are removed at this age: `"3d"`, `"12h"`.
    """

    target_file_size: str | int | None = None
    min_input_files: int | None = None
    keep_days: float | None = None
    keep_snapshots: int | None = None
    orphans_older_than: str | None = None

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
        }
        return {key: str(value) for key, value in values.items() if value is not None}


def _size(given: str | int | None, table: str) -> int | None:
    found = re.fullmatch(r"([1-9]\d{0,8})\s*([kmg]b)", given.strip().lower()) if isinstance(given, str) else None
    if found:
        return int(found[1]) * _SIZES[found[2]]
    if given is None or (isinstance(given, int) and given > 0 and given is not True):
        return given
    raise _wrong(table, "target_file_size", given, '"128MB", "1GB" or a number of bytes')


def _age(given: str | None, table: str) -> int | None:
    if given is None:
        return None
    found = re.fullmatch(r"([1-9]\d{0,5})([mhd])", given) if isinstance(given, str) else None
    if found is None:
        raise _wrong(table, "orphans_older_than", given, '"3d" or "12h"')
    age = int(found[1]) * _AGES[found[2]]
    if age < _LEAST_ORPHAN_AGE_MS:
        raise _wrong(
            table,
            "orphans_older_than",
            given,
            '"1h" at least: a commit that is under way has files that nothing leads to yet',
        )
    return age


def _days(given: float, table: str) -> int:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given < 100_000:
        raise _wrong(table, "keep_days", given, "a number of days")
    return int(given * _AGES["d"])


def _whole(given: int | None, name: str, least: int, table: str) -> int | None:
    if given is not None and (isinstance(given, bool) or not isinstance(given, int) or given < least):
        raise _wrong(table, name, given, f"a whole number from {least}")
    return given


def _wrong(table: str, name: str, found: object, expected: str) -> DeclarationError:
    return DeclarationError(
        f"table '{table}': upkeep {name} is {found!r}, expected {expected}", table=table, expected=expected
    )
