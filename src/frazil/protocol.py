"""The stored names that modules share: table properties, snapshot summary keys, companion tables, refs.

They are in the tables of every lake, so no value here ever changes; a test pins them. A name that only one module reads
and writes stays in that module.
"""

from __future__ import annotations

from typing import Literal, get_args

# --- table properties ------------------------------------------------------------------------------------------------

RESERVED_PREFIX = "frazil."
"""How the properties begin that only Frazil sets."""
PROPERTY_PROGRESS_PREFIX = "frazil.progress."
"""The progress of the sinks on a ref, whose name follows; see `write.commit.progress`."""
PROPERTY_PROJECT = "frazil.project"
"""The project that a table belongs to; see `ownership`."""
PROPERTY_APPLIED = "frazil.applied"
"""What was applied last to a declared table; see `tables.shape.Record`."""
PROPERTY_UPSERTED_BY = "frazil.upserted-by"
"""On the quarantine of a table that is upserted: the key columns."""
PROPERTY_NAME_MAPPING = "schema.name-mapping.default"
"""Iceberg's name mapping, for data files without field ids."""
PROPERTY_TARGET_FILE_BYTES = "write.target-file-size-bytes"
"""How large data files should be."""
PROPERTY_MAX_SNAPSHOT_AGE_MS = "history.expire.max-snapshot-age-ms"
"""How long expiry keeps a snapshot."""
PROPERTY_MIN_SNAPSHOTS = "history.expire.min-snapshots-to-keep"
"""How many snapshots of a branch expiry keeps, however old."""
PROPERTY_MAX_REF_AGE_MS = "history.expire.max-ref-age-ms"
"""How long expiry keeps a branch or tag without an age of its own."""
PROPERTY_MIN_INPUT_FILES = "upkeep.compact.min-input-files"
"""From how many small files on compaction rewrites a group."""
PROPERTY_ORPHAN_AGE_MS = "upkeep.orphans.older-than-ms"
"""From what age on a file that no snapshot names is an orphan."""
PROPERTY_UPKEEP_ENABLED = "upkeep.enabled"
"""Whether upkeep by the catalog works on the table."""
PROPERTY_ORPHANS_ENABLED = "upkeep.orphans.enabled"
"""Whether upkeep by the catalog removes orphan files of the table."""
PROPERTY_INDEX_PREFIX = "vector.index."
"""A vector index that is declared with the table, whose name follows: its column, metric and lists as JSON."""
PROPERTY_MANIFEST_BYTES = "commit.manifest.target-size-bytes"
"""How large manifests should be."""
PROPERTY_REBASE_APPENDS = "commit.rebase-appends.enabled"
"""Whether the catalog rebases appends whose branch has moved; see `catalog.appends`."""
PROPERTY_GC_ENABLED = "gc.enabled"
"""Whether files of the table may be deleted; another table may share them."""

# --- records of vector indexes ---------------------------------------------------------------------------------------

INDEX_TYPE = "frazil-vector-v1"
"""The type of an index, in the catalog's record of it and in the copy."""
Metric = Literal["cosine", "l2", "ip"]
"""How an index compares vectors."""
METRICS: tuple[Metric, ...] = get_args(Metric)
INDEX_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
"""What the name of an index is like."""

# --- access ----------------------------------------------------------------------------------------------------------

PRIVILEGES = ("discover", "read", "write", "create", "drop", "purge", "register", "maintain", "manage")
"""What can be granted on a table or what holds it; docs/security.md says what each one allows."""

# --- blobs in Puffin files -------------------------------------------------------------------------------------------

BLOB_PREFIX = "frazil-vector-"
"""How the types of blobs begin that an index consists of."""

# --- snapshot summaries, and the commit information of Delta ---------------------------------------------------------

SUMMARY_PROGRESS = "frazil.progress"
"""All progress as of the snapshot; in Delta, the progress of the part."""
SUMMARY_REF = "frazil.ref"
"""The ref whose progress the snapshot tells, unless it is main."""
SUMMARY_COMMIT = "frazil.commit"
"""What the commit of a sink consumed: part, generation, commit number, positions."""
CLAIM_REBASES = "rebase"
"""In `SUMMARY_COMMIT`: true if the commit depends on the progress of its part alone: the catalog may rebase it."""
SUMMARY_PART = "frazil.part"
"""In Delta: the part that committed."""
SUMMARY_STAGED_BY = "frazil.staged-by"
"""The pipeline that staged the snapshot on a branch for its audit."""
SUMMARY_UPSERT = "frazil.upsert"
"""How many rows an upsert inserted, updated, deleted and left alone."""
SUMMARY_OVERWRITE = "frazil.overwrite"
"""How many rows an overwrite found, where it found none because the ref was empty: the catalog does not rebase it."""
SUMMARY_ROLLBACK = "frazil.rollback-to"
"""The snapshot that a rollback returned to."""
SUMMARY_ROLLBACK_PROGRESS = "frazil.rollback"
"""In Delta: the progress of all parts after a rollback."""
SUMMARY_REPLAY = "frazil.replay"
"""In the target table: how many rows a replay brought in, from which quarantine."""
SUMMARY_RELEASE = "frazil.release"
"""In the quarantine: how many rows left it, and where to."""
SUMMARY_UPKEEP = "frazil.upkeep"
"""The step of upkeep that made the snapshot."""

# --- companion tables ------------------------------------------------------------------------------------------------

QUARANTINE_SUFFIX = "__quarantine"
"""Follows a table's name: the rows that broke its contract."""
LEDGER_SUFFIX = "__ledger"
"""Follows a table's name: the landing files that were loaded into it."""
RUNS_SUFFIX = "__runs"
"""Follows a table's name: the runs of its pipeline."""
COMPANION_SUFFIXES = (LEDGER_SUFFIX, QUARANTINE_SUFFIX, RUNS_SUFFIX)

# --- refs ------------------------------------------------------------------------------------------------------------

STAGING_PREFIX = "frazil_stage"
"""How the names of staging branches begin."""
ROLLBACK_TAG_PREFIX = "frazil_rollback_"
"""How the names of tags begin that keep a snapshot while a rollback returns to it."""

# --- folders ---------------------------------------------------------------------------------------------------------

INDEX_FOLDER = "_index"
"""Below a table's location: the files of its indexes. Spark's removal of orphans skips names that begin with `_`."""
