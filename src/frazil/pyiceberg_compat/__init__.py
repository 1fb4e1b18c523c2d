"""Every private name of PyIceberg that Frazil touches, each with its reason.

A release of PyIceberg may change such a name without notice, so it is used here only; `tools/private_names.py` finds
other uses, and a test fails on them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.pyiceberg_compat.manifests import (
        FILE_FIELDS,
        DeleteManifestWriter,
        ManifestWriterV3,
        copy_manifest,
        in_blocks,
        inherit_from_manifest,
        partition_fields_of,
        partitions_of,
    )
    from frazil.pyiceberg_compat.rest import OpenRestCatalog, parse_metadata, raise_for_answer, retried
    from frazil.pyiceberg_compat.schemas import fields_by_id, ids_by_name, schema_without_ids, with_small_types
    from frazil.pyiceberg_compat.transactions import (
        OpenCreateTransaction,
        OpenTransaction,
        staged_table,
        staged_updates,
    )

__all__ = [
    "FILE_FIELDS",
    "DeleteManifestWriter",
    "ManifestWriterV3",
    "OpenCreateTransaction",
    "OpenRestCatalog",
    "OpenTransaction",
    "copy_manifest",
    "fields_by_id",
    "ids_by_name",
    "in_blocks",
    "inherit_from_manifest",
    "parse_metadata",
    "partition_fields_of",
    "partitions_of",
    "raise_for_answer",
    "retried",
    "schema_without_ids",
    "staged_table",
    "staged_updates",
    "with_small_types",
]

__getattr__ = lazy_names(__name__)
