"""Stored names: their values never change, and modules take them from `frazil.protocol`."""

from __future__ import annotations

import ast
from pathlib import Path

from frazil import protocol

SOURCE = Path(protocol.__file__).parent

STORED = {
    "RESERVED_PREFIX": "frazil.",
    "PROPERTY_PROGRESS_PREFIX": "frazil.progress.",
    "PROPERTY_PROJECT": "frazil.project",
    "PROPERTY_APPLIED": "frazil.applied",
    "PROPERTY_UPSERTED_BY": "frazil.upserted-by",
    "PROPERTY_NAME_MAPPING": "schema.name-mapping.default",
    "PROPERTY_TARGET_FILE_BYTES": "write.target-file-size-bytes",
    "PROPERTY_MAX_SNAPSHOT_AGE_MS": "history.expire.max-snapshot-age-ms",
    "PROPERTY_MIN_SNAPSHOTS": "history.expire.min-snapshots-to-keep",
    "PROPERTY_MAX_REF_AGE_MS": "history.expire.max-ref-age-ms",
    "PROPERTY_MIN_INPUT_FILES": "upkeep.compact.min-input-files",
    "PROPERTY_ORPHAN_AGE_MS": "upkeep.orphans.older-than-ms",
    "PROPERTY_UPKEEP_ENABLED": "upkeep.enabled",
    "PROPERTY_ORPHANS_ENABLED": "upkeep.orphans.enabled",
    "PROPERTY_MANIFEST_BYTES": "commit.manifest.target-size-bytes",
    "PROPERTY_REBASE_APPENDS": "commit.rebase-appends.enabled",
    "PROPERTY_GC_ENABLED": "gc.enabled",
    "SUMMARY_PROGRESS": "frazil.progress",
    "SUMMARY_REF": "frazil.ref",
    "SUMMARY_COMMIT": "frazil.commit",
    "CLAIM_REBASES": "rebase",
    "SUMMARY_PART": "frazil.part",
    "SUMMARY_STAGED_BY": "frazil.staged-by",
    "SUMMARY_UPSERT": "frazil.upsert",
    "SUMMARY_OVERWRITE": "frazil.overwrite",
    "SUMMARY_ROLLBACK": "frazil.rollback-to",
    "SUMMARY_ROLLBACK_PROGRESS": "frazil.rollback",
    "SUMMARY_REPLAY": "frazil.replay",
    "SUMMARY_RELEASE": "frazil.release",
    "SUMMARY_UPKEEP": "frazil.upkeep",
    "QUARANTINE_SUFFIX": "__quarantine",
    "LEDGER_SUFFIX": "__ledger",
    "RUNS_SUFFIX": "__runs",
    "COMPANION_SUFFIXES": ("__ledger", "__quarantine", "__runs"),
    "STAGING_PREFIX": "frazil_stage",
    "ROLLBACK_TAG_PREFIX": "frazil_rollback_",
    "INDEX_FOLDER": "_index",
    "PROPERTY_INDEX_PREFIX": "vector.index.",
    "INDEX_TYPE": "frazil-vector-v1",
    "METRICS": ("cosine", "l2", "ip"),
    "INDEX_NAME": "[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}",
    "PRIVILEGES": ("discover", "read", "write", "create", "drop", "purge", "register", "maintain", "manage"),
    "BLOB_PREFIX": "frazil-vector-",
}
LOGGERS = {"frazil.upkeep"}  # names of loggers that happen to be stored names, too


def test_stored_names_keep_their_values() -> None:
    assert {name: value for name, value in vars(protocol).items() if name.isupper()} == STORED


def test_other_modules_spell_no_stored_name_themselves() -> None:
    stored = {value for value in STORED.values() if isinstance(value, str)} - LOGGERS
    spelled = [
        f"{file.relative_to(SOURCE)}:{node.lineno}: {node.value!r}"
        for file in sorted(SOURCE.rglob("*.py"))
        if file.name != "protocol.py" or file.parent != SOURCE
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Constant) and node.value in stored
    ]
    assert spelled == []


def test_every_stored_name_says_what_it_holds() -> None:
    body = ast.parse(Path(protocol.__file__).read_text("utf-8")).body
    undocumented = [
        statement.targets[0].id
        for statement, following in zip(body, [*body[1:], None], strict=True)
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
        if not (isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant))
    ]
    assert undocumented == ["COMPANION_SUFFIXES"]
