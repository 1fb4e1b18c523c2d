"""What upkeep does to a table by itself: the table's own properties, Iceberg's names where Iceberg has one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from frazil.errors import UpkeepError
from frazil.protocol import (
    PROPERTY_GC_ENABLED,
    PROPERTY_MANIFEST_BYTES,
    PROPERTY_MAX_REF_AGE_MS,
    PROPERTY_MAX_SNAPSHOT_AGE_MS,
    PROPERTY_MIN_INPUT_FILES,
    PROPERTY_MIN_SNAPSHOTS,
    PROPERTY_ORPHAN_AGE_MS,
    PROPERTY_ORPHANS_ENABLED,
    PROPERTY_TARGET_FILE_BYTES,
    PROPERTY_UPKEEP_ENABLED,
)

COMPACT, DELETES, MANIFESTS, EXPIRE = "compact", "deletes", "manifests", "expire"  # steps that a debt is made of
INDEXES, ORPHANS = "indexes", "orphans"
STEPS = (COMPACT, DELETES, MANIFESTS, INDEXES, EXPIRE, ORPHANS)  # in the order in which they run
MB = 1 << 20
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
MOST_DIGITS = 18  # more do not fit into the integers of Iceberg and of databases
LEAST_ORPHAN_AGE_MS = HOUR_MS  # a commit that is under way may well be some minutes old


@dataclass(frozen=True)
class Policy:
    """The rules of one table; the defaults are Iceberg's own."""

    target_file_bytes: int = 512 * MB
    delete_file_bytes: int = 64 * MB
    manifest_bytes: int = 8 * MB
    min_input_files: int = 5
    max_snapshot_age_ms: int = 5 * DAY_MS
    min_snapshots: int = 1
    max_ref_age_ms: int | None = None
    orphan_age_ms: int = 3 * DAY_MS
    may_delete: bool = True  # gc.enabled: another table may share the files of one that says no
    enabled: bool | None = None  # upkeep by the catalog; None: as its operator has set
    removes_orphans: bool | None = None  # by the catalog, likewise

    @classmethod
    def of(cls, properties: Mapping[str, str], *, table: str) -> Policy:
        """The rules that a table's properties hold.

        >>> Policy.of({"history.expire.min-snapshots-to-keep": "10"}, table="t").min_snapshots
        10
        """

        def number(key: str, default: int, least: int = 1) -> int:
            text = properties.get(key, str(default))
            if not re.fullmatch(rf"\s*\+?0*[0-9]{{1,{MOST_DIGITS}}}\s*", text) or int(text) < least:
                raise _wrong(table, key, text, f"a whole number from {least:,} with at most {MOST_DIGITS} digits")
            return int(text)

        def flag(key: str) -> bool | None:
            text = properties.get(key)
            if text is not None and text.lower() not in ("true", "false"):
                raise _wrong(table, key, text, "true or false")
            return None if text is None else text.lower() == "true"

        return cls(
            target_file_bytes=number(PROPERTY_TARGET_FILE_BYTES, cls.target_file_bytes),
            delete_file_bytes=number("write.delete.target-file-size-bytes", cls.delete_file_bytes),
            manifest_bytes=number(PROPERTY_MANIFEST_BYTES, cls.manifest_bytes),
            min_input_files=number(PROPERTY_MIN_INPUT_FILES, cls.min_input_files, least=2),
            max_snapshot_age_ms=number(PROPERTY_MAX_SNAPSHOT_AGE_MS, cls.max_snapshot_age_ms, least=0),
            min_snapshots=number(PROPERTY_MIN_SNAPSHOTS, cls.min_snapshots),
            max_ref_age_ms=number(PROPERTY_MAX_REF_AGE_MS, 1) if PROPERTY_MAX_REF_AGE_MS in properties else None,
            orphan_age_ms=number(PROPERTY_ORPHAN_AGE_MS, cls.orphan_age_ms, least=LEAST_ORPHAN_AGE_MS),
            may_delete=properties.get(PROPERTY_GC_ENABLED, "true").lower() != "false",
            enabled=flag(PROPERTY_UPKEEP_ENABLED),
            removes_orphans=flag(PROPERTY_ORPHANS_ENABLED),
        )


def _wrong(table: str, key: str, text: str, expected: str) -> UpkeepError:
    shown = text if len(text) <= 60 else f"{text[:60]}..."
    return UpkeepError(
        f"{table}: table property '{key}' is '{shown}', expected {expected}",
        hint="change the property",
        table=table,
        option=key,
    )
