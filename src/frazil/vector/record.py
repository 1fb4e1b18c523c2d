"""The record of an index in the catalog: which column, how it is compared, and where its files are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from frazil.errors import VectorError
from frazil.protocol import INDEX_TYPE, METRICS, Metric

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def folder_of(location: str) -> str:
    """The name of the folder of an index, from that of a file in it.

    >>> folder_of("s3://lake/words/_index/3f2a/codebook.puffin")
    '3f2a'
    """
    return location.rpartition("/")[0].rpartition("/")[2]


@dataclass(frozen=True)
class SegmentInfo:
    """A segment: its file, and how much it holds."""

    path: str
    size: int
    vectors: int
    files: int

    def to_json(self) -> dict[str, Any]:
        return {"path": self.path, "size": self.size, "vectors": self.vectors, "files": self.files}


@dataclass(frozen=True)
class IndexRecord:
    """What the catalog keeps of an index."""

    name: str
    field_id: int
    metric: Metric
    dimension: int
    probes: int  # lists that a search looks at, if it does not say otherwise
    seed: int
    codebook: str
    segments: tuple[SegmentInfo, ...]
    version: int = 0  # of the record in the catalog; 0 before it is there

    @property
    def vectors(self) -> int:
        return sum(segment.vectors for segment in self.segments)

    def with_segments(self, segments: Sequence[SegmentInfo]) -> IndexRecord:
        return replace(self, segments=tuple(segments))

    def to_json(self) -> dict[str, Any]:
        """The record as the catalog has it, without its name and version."""
        return {
            "type": INDEX_TYPE,
            "field-id": self.field_id,
            "metric": self.metric,
            "dimension": self.dimension,
            "probes": self.probes,
            "seed": self.seed,
            "codebook": {"path": self.codebook},
            "segments": [segment.to_json() for segment in self.segments],
        }

    @classmethod
    def of(cls, stored: Mapping[str, Any], *, table: str) -> IndexRecord:
        """A record as the catalog answers it; one that this version cannot read is an error."""
        try:
            name, record = str(stored["name"]), stored["record"]
            if record["type"] != INDEX_TYPE or record["metric"] not in METRICS:
                raise ValueError(f"its type is {record['type']}, its metric {record['metric']}")
            segments = tuple(
                SegmentInfo(str(info["path"]), int(info["size"]), int(info["vectors"]), int(info["files"]))
                for info in record["segments"]
            )
            return cls(
                name,
                int(record["field-id"]),
                record["metric"],
                int(record["dimension"]),
                int(record["probes"]),
                int(record.get("seed", 0)),
                str(record["codebook"]["path"]),
                segments,
                int(stored["version"]),
            )
        except (KeyError, TypeError, ValueError) as exc:
            raise VectorError(
                f"{table} has an index that this version of Frazil cannot read: {exc}",
                hint="upgrade frazil, or drop the index and create it again",
                table=table,
                problem="unknown-index",
            ) from exc
