"""Manifest lists and manifests: Avro files decoded into Arrow columns, and the bounds that they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.scan.manifests.avro import read_bounds
    from frazil.scan.manifests.avro_schema import AvroError, parse_schema
    from frazil.scan.manifests.bounds import (
        BYTES,
        DAY_UNITS,
        REAL,
        WHOLE,
        Mask,
        Range,
        certain,
        decode,
        stored_type,
        without_nan,
    )
    from frazil.scan.manifests.counting import decoded_files
    from frazil.scan.manifests.entries import EntryColumns, read_entries
    from frazil.scan.manifests.manifest import Manifest, ManifestCache, Read
    from frazil.scan.manifests.manifest_list import ManifestList, decode_list
    from frazil.scan.manifests.references import (
        Candidates,
        References,
        TableFiles,
        comparable,
        folders_of,
        has_dots,
        in_portions,
        real_folder,
    )

__all__ = [
    "BYTES",
    "DAY_UNITS",
    "REAL",
    "WHOLE",
    "AvroError",
    "Candidates",
    "EntryColumns",
    "Manifest",
    "ManifestCache",
    "ManifestList",
    "Mask",
    "Range",
    "Read",
    "References",
    "TableFiles",
    "certain",
    "comparable",
    "decode",
    "decode_list",
    "decoded_files",
    "folders_of",
    "has_dots",
    "in_portions",
    "parse_schema",
    "read_bounds",
    "read_entries",
    "real_folder",
    "stored_type",
    "without_nan",
]

__getattr__ = lazy_names(__name__)
