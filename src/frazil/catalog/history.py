"""The metadata files of a table, as they lie in its folder: which were once current, which can still be read."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from frazil.catalog.fields import Json
from frazil.catalog.files import Entry
from frazil.catalog.locations import Place, parse_location
from frazil.catalog.metadata import normalise, parse_file
from frazil.catalog.warehouse import MetadataFiles
from frazil.errors import MetadataCorrupt, MetadataMissing, Unavailable

_NAME = re.compile(r"(\d{1,9})-.*\.metadata\.json")


def number_of(location: str) -> int | None:
    """
    >>> number_of("s3://b/t/metadata/00042-x.metadata.json"), number_of("s3://b/t/metadata/snap-1.avro")
    (42, None)
    """
    match = _NAME.fullmatch(location.rpartition("/")[2])
    return int(match[1]) if match else None


def list_metadata_files(files: MetadataFiles, current: str) -> list[Entry]:
    """The metadata files in the folder of the current one, the newest number first."""
    folder = current.rpartition("/")[0]
    place = parse_location(folder)
    entries = [e for e in files.store(place).list(place) if number_of(e.location) is not None]
    return sorted(entries, key=lambda e: (number_of(e.location) or 0, e.modified_ms), reverse=True)


def read_or_reason(files: MetadataFiles, location: str) -> tuple[Json | None, str]:
    """The metadata, or None and why it cannot be read."""
    try:
        return normalise(parse_file(location, files.read_bytes(location)), location), ""
    except (MetadataCorrupt, MetadataMissing, Unavailable) as exc:
        return None, exc.message


@dataclass(frozen=True)
class Ancestry:
    """The files that were once current, as far back as the logs go; unknown below `known_from`."""

    places: frozenset[Place]
    known_from: float  # a number; infinite when nothing is known

    @functools.cached_property
    def folders(self) -> frozenset[Place]:
        return frozenset(replace(place, path=place.path.rpartition("/")[0]) for place in self.places)


def ancestry(files: MetadataFiles, current: str) -> Ancestry:
    """The table's versions from the current one back. A log holds a hundred or so: its oldest entry's own log goes on
    from there.
    """
    locations = list(_walk_back(files, current))
    numbers = [number_of(location) for location in locations]
    # A file without a number hides how far back the others go: then only what is newer than the current one is certain.
    known = [math.inf if number is None else number for number in numbers]
    known_from = known[0] if None in numbers else min(known)
    return Ancestry(frozenset(map(parse_location, locations)), known_from)


def uuid_in(files: MetadataFiles, location: str) -> str | None:
    """The UUID of the table or view that a metadata file says it is of; None when it does not say."""
    try:
        metadata = parse_file(location, files.read_bytes(location))
    except (MetadataCorrupt, MetadataMissing, Unavailable):
        return None
    uuid = metadata.get("table-uuid") or metadata.get("view-uuid")
    return str(uuid) if uuid else None


def _walk_back(files: MetadataFiles, current: str) -> Iterator[str]:
    location: str | None = current
    visited: set[str] = set()
    while location is not None and location not in visited:
        visited.add(location)
        yield location
        metadata, _ = read_or_reason(files, location)
        log = [entry["metadata-file"] for entry in metadata["metadata-log"]] if metadata else []
        yield from log
        location = log[0] if log else None
