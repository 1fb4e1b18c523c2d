"""Table metadata between its file, the plain JSON that commits work on, and the bytes that a load answers.

A `Version` is one immutable metadata file. Its load reply is kept as bytes, with the list of snapshots at the very end:

    {"metadata-location":"...","config":{},"metadata":{...,"snapshots":[ A , B , C ]}}
                                                                         ^ snapshots_at

so that the next version's reply is a new head, the same bytes of snapshots, and one more. A commit's cost then grows
with the number of snapshots by a copy in memory and the write of the file, not by serialising them again.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from frazil.catalog import schemas
from frazil.catalog.bodies import COUNT_FROM_BYTES, TooLong, Unpackable, count_values, unpack_gzip
from frazil.catalog.fields import Json
from frazil.catalog.http import pack
from frazil.catalog.locations import Place, parse_location
from frazil.catalog.metadata_types import check_table, text_properties
from frazil.catalog.updates import MAX_FORMAT_VERSION, NO_SNAPSHOT
from frazil.config import Limits
from frazil.errors import MetadataCorrupt
from frazil.properties import STRICT, PropertyRule, safe_properties

_SNAPSHOTS = b',"snapshots":['
_TAIL = b"]}}"
BYTES_PER_VALUE = 8  # metadata has more: names, paths and numbers of many digits


@dataclass(slots=True)
class Version:
    """One metadata file: parsed, and as the bytes of a reply."""

    location: str
    metadata: Json
    reply: bytes
    metadata_at: int  # where the metadata starts in the reply
    snapshots_at: int  # where the first snapshot starts; -1 for a view
    etag: str
    place: Place
    stored: bytes | None = None  # the file, where it holds properties that are not served
    checked_at: float = 0.0  # when the file was last seen in the object store
    _refs_reply: bytes | None = None
    _packed: dict[str, bytes] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def kind(self) -> str:
        return "view" if self.snapshots_at < 0 else "table"

    @property
    def file_bytes(self) -> memoryview:
        """What the metadata file holds."""
        if self.stored is not None:
            return memoryview(self.stored)
        return memoryview(self.reply)[self.metadata_at : -1]

    @property
    def file_size(self) -> int:
        return len(self.stored) if self.stored is not None else len(self.reply) - self.metadata_at - 1

    @property
    def snapshot_bytes(self) -> memoryview:
        """The inside of the list of snapshots."""
        return memoryview(self.reply)[self.snapshots_at : -len(_TAIL)]

    @property
    def refs_etag(self) -> str:
        return self.etag[:-1] + '-refs"'

    def refs_reply(self) -> bytes:
        """The reply with only the snapshots that a branch or tag points to."""
        if self._refs_reply is None:
            wanted = {ref["snapshot-id"] for ref in self.metadata["refs"].values()}
            few = [s for s in self.metadata["snapshots"] if s["snapshot-id"] in wanted]
            head = self.reply[: self.snapshots_at]
            self._refs_reply = head + orjson.dumps(few)[1:-1] + _TAIL
        return self._refs_reply

    def packed(self, which: str = "all") -> bytes:
        """The reply in gzip, made once."""
        body = self._packed.get(which)
        if body is None:
            with self._lock:  # one thread packs, the others wait for it
                body = self._packed.get(which) or pack(self.reply if which == "all" else self.refs_reply())
                self._packed[which] = body
        return body

    def is_packed(self, which: str = "all") -> bool:
        return which in self._packed

    @property
    def bytes_held(self) -> int:
        """About what it costs to keep: the reply, and the parsed form at five times the size of its text."""
        return 6 * len(self.reply) + len(self.stored or b"") + 2048


def etag_of(location: str, *, hides: bool = False) -> str:
    """The tag of what is served. It is another one if properties are hidden: clients must not keep an answer that has
    them.

    >>> etag_of("file:///w/t/metadata/00000-a.metadata.json")
    '"a16fa5d6b807589c0188989903eb55b3"'
    """
    digest = hashlib.sha256(location.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f'"{digest}-safe"' if hides else f'"{digest}"'


def table_version(
    location: str, metadata: Json, previous: Version | None = None, *, rule: PropertyRule = STRICT
) -> Version:
    """The version as a whole; `previous` lends the bytes of the snapshots that both share. What the rule refuses is not
    served.
    """
    head = reply_head(location)
    known_safe = (
        previous is not None and previous.stored is None and metadata["properties"] is previous.metadata["properties"]
    )
    served = metadata["properties"] if known_safe else safe_properties(metadata["properties"], rule)
    hides = served is not metadata["properties"]
    written = orjson.dumps(_to_write({**metadata, "properties": served} if hides else metadata))[:-1]
    start = head + written + _SNAPSHOTS
    snapshots = _snapshot_bytes(metadata["snapshots"], previous)
    reply = b"".join((start, *snapshots, _TAIL))
    stored = b"".join((orjson.dumps(_to_write(metadata))[:-1], _SNAPSHOTS, *snapshots, _TAIL[:-1])) if hides else None
    return Version(
        location,
        metadata,
        reply,
        len(head),
        len(start),
        etag_of(location, hides=hides),
        parse_location(location),
        stored,
    )


def reply_head(location: str) -> bytes:
    """The reply up to the metadata."""
    return b'{"metadata-location":' + orjson.dumps(location) + b',"config":{},"metadata":'


def _snapshot_bytes(snapshots: list[Json], previous: Version | None) -> list[bytes | memoryview]:
    """The inside of the list of snapshots, in pieces that are still to be joined: half a megabyte is copied once, not
    three times.
    """
    if previous is not None:
        old = previous.metadata["snapshots"]
        count = len(old)
        # Equal here means the very same objects: commits add to the list, or build another one.
        if 0 < count <= len(snapshots) and snapshots[:count] == old:
            known = previous.snapshot_bytes
            return [known] if count == len(snapshots) else [known, b",", orjson.dumps(snapshots[count:])[1:-1]]
    return [orjson.dumps(snapshots)[1:-1]]


def with_config(reply: bytes, config: Mapping[str, str], **more: object) -> bytes:
    """A copy of a reply with this configuration, and further fields.

    >>> with_config(b'{"metadata-location":"s","config":{},"metadata":{}}', {"a": "b"}, more=[1])
    b'{"metadata-location":"s","config":{"a":"b"},"more":[1],"metadata":{}}'
    """
    # In a JSON string the quotes would be escaped, so this is the reply's own field; a staged reply has it at the end.
    own = b',"config":{}'
    at = reply.rindex(own) if reply.startswith(b'{"metadata":') else reply.index(own)
    fields = orjson.dumps({"config": config, **{name.replace("_", "-"): value for name, value in more.items()}})[1:-1]
    return reply[:at] + b"," + fields + reply[at + len(own) :]


def staged_reply(metadata: Json) -> bytes:
    """The reply to a staged create: metadata without a file."""
    return orjson.dumps({"metadata": {**_to_write(metadata), "snapshots": []}, "config": {}})


def _to_write(metadata: Json) -> Json:
    """The metadata without its snapshots, as the file has it."""
    version = metadata["format-version"]
    out: Json = {"format-version": version, "table-uuid": metadata["table-uuid"], "location": metadata["location"]}
    if version > 1:
        out["last-sequence-number"] = metadata["last-sequence-number"]
    for key in (
        "last-updated-ms",
        "last-column-id",
        "current-schema-id",
        "schemas",
        "default-spec-id",
        "partition-specs",
    ):
        out[key] = metadata[key]
    if version == 1:  # for readers that know only the first edition of version 1
        out["schema"] = next(s for s in metadata["schemas"] if s["schema-id"] == metadata["current-schema-id"])
        out["partition-spec"] = next(
            s for s in metadata["partition-specs"] if s["spec-id"] == metadata["default-spec-id"]
        )["fields"]
    for key in ("last-partition-id", "default-sort-order-id", "sort-orders", "properties"):
        out[key] = metadata[key]
    current = metadata["current-snapshot-id"]
    out["current-snapshot-id"] = None if version >= 3 and current == NO_SNAPSHOT else current
    if version >= 3:
        out["next-row-id"] = metadata["next-row-id"]
    if metadata["encryption-keys"]:
        out["encryption-keys"] = metadata["encryption-keys"]
    for key in ("refs", "statistics", "partition-statistics", "snapshot-log", "metadata-log"):
        out[key] = metadata[key]
    return out


# --- reading ---------------------------------------------------------------------------------------------------------


def parse_file(location: str, content: bytes, limits: Limits | None = None) -> Json:
    """The JSON object that a metadata file holds, packed or not."""
    limits = limits or Limits()
    try:
        if content[:2] == b"\x1f\x8b":
            content = unpack_gzip(content, max_bytes=limits.metadata_bytes, max_ratio=limits.body_ratio)
        _check_size(location, content, limits)
        value = orjson.loads(content)
    except TooLong as exc:
        raise MetadataCorrupt(location, f"it unpacks to {exc}") from exc
    except (Unpackable, orjson.JSONDecodeError) as exc:
        raise MetadataCorrupt(location, str(exc)) from exc
    if not isinstance(value, dict):
        raise MetadataCorrupt(location, "it is not a JSON object")
    return value


def _check_size(location: str, content: bytes, limits: Limits) -> None:
    """Passes when the file may be parsed: it is not too long, and not made of more values than metadata of its length
    has.
    """
    if len(content) > limits.metadata_bytes:
        raise MetadataCorrupt(location, f"it has {len(content)} bytes; at most {limits.metadata_bytes} are read")
    if len(content) >= COUNT_FROM_BYTES:
        most = limits.json_values + len(content) // BYTES_PER_VALUE
        if count_values(content, most) > most:
            raise MetadataCorrupt(location, "it is made of too many tiny values to be metadata")


def parse_like(content: bytes, like: Version) -> Json | None:
    """The JSON of a metadata file that continues a version which is already parsed, without parsing what both share.

    Our files end with the list of snapshots, and a commit adds to its end: head, the same bytes, more. None when this
    file is not of that kind. That the head is valid JSON once it is closed shows that the list was cut at the top
    level, and nowhere else.
    """
    known = like.snapshot_bytes
    if len(known) == 0 or not content.endswith(b"]}"):
        return None
    start = content.find(_SNAPSHOTS + bytes(known[:64]))
    inside = start + len(_SNAPSHOTS)
    if start < 0 or memoryview(content)[inside : inside + len(known)] != known:
        return None
    more = content[inside + len(known) : -2]
    try:
        document: Json = orjson.loads(content[:start] + b"}")
        added = orjson.loads(b"[" + more[1:] + b"]") if more[:1] == b"," else []
    except orjson.JSONDecodeError:
        return None
    if more and not added:
        return None
    return {**document, "snapshots": [*like.metadata["snapshots"], *added]}


def normalise(document: Json, location: str, *, known_snapshots: int = 0) -> Json:
    """Metadata as commits work on it: what older versions leave out or name otherwise is filled in, and the types are
    checked.
    """
    try:
        metadata = _normalise(document)
        check_table(metadata, known_snapshots=known_snapshots)
        return metadata
    except RecursionError as exc:
        raise MetadataCorrupt(location, "it is nested too deeply") from exc
    except (KeyError, TypeError, ValueError, AttributeError, StopIteration) as exc:
        raise MetadataCorrupt(location, f"it is not table metadata ({type(exc).__name__}: {exc})") from exc


_DEFAULTS: tuple[tuple[str, Any], ...] = (
    ("properties", {}),
    ("snapshots", []),
    ("statistics", []),
    ("partition-statistics", []),
    ("snapshot-log", []),
    ("metadata-log", []),
    ("encryption-keys", []),
)


def _normalise(document: Json) -> Json:
    version = document["format-version"]
    if type(version) is not int or not 1 <= version <= MAX_FORMAT_VERSION:
        raise ValueError(f"format version {version!r} is not supported")
    out = {k: v for k, v in document.items() if k not in ("schema", "partition-spec")}
    _fill_shape(out, document)
    for key, default in _DEFAULTS:
        if out.get(key) is None:
            out[key] = type(default)()
    out["properties"] = text_properties(out["properties"])
    out["table-uuid"] = str(document["table-uuid"])
    out["location"] = str(document["location"]).rstrip("/")
    out["last-sequence-number"] = document.get("last-sequence-number") or 0
    out["next-row-id"] = document.get("next-row-id") or 0
    out["last-updated-ms"] = int(document["last-updated-ms"])
    out["last-column-id"] = int(document["last-column-id"])
    _fill_refs(out)
    return out


def _fill_shape(out: Json, document: Json) -> None:
    """Schemas, specs and sort orders; the first edition of version 1 has one of each, without ids."""
    if "schemas" not in document:
        out["schemas"] = [{"schema-id": 0, **document["schema"]}]
        out["current-schema-id"] = out["schemas"][0]["schema-id"]
    if "partition-specs" not in document:
        out["partition-specs"], out["default-spec-id"] = (
            [{"spec-id": 0, "fields": _with_field_ids(document.get("partition-spec", []))}],
            0,
        )
    elif document["format-version"] == 1:  # there, the ids of partition fields are optional
        out["partition-specs"] = [
            {**spec, "fields": _with_field_ids(spec["fields"])} for spec in document["partition-specs"]
        ]
    if document.get("last-partition-id") is None:
        ids = [f["field-id"] for s in out["partition-specs"] for f in s["fields"]]
        out["last-partition-id"] = max(ids, default=schemas.FIRST_PARTITION_ID - 1)
    if "sort-orders" not in document:
        out["sort-orders"], out["default-sort-order-id"] = [{"order-id": 0, "fields": []}], 0
    next(s for s in out["schemas"] if s["schema-id"] == out["current-schema-id"])
    next(s for s in out["partition-specs"] if s["spec-id"] == out["default-spec-id"])
    next(o for o in out["sort-orders"] if o["order-id"] == out["default-sort-order-id"])


def _with_field_ids(terms: list[Json]) -> list[Json]:
    return [{"field-id": schemas.FIRST_PARTITION_ID + position, **term} for position, term in enumerate(terms)]


def _fill_refs(out: Json) -> None:
    current = out.get("current-snapshot-id")
    out["current-snapshot-id"] = NO_SNAPSHOT if current is None else int(current)
    out["refs"] = dict(out.get("refs") or {})
    if out["current-snapshot-id"] != NO_SNAPSHOT:
        out["refs"].setdefault("main", {"snapshot-id": out["current-snapshot-id"], "type": "branch"})
    ids = {s["snapshot-id"] for s in out["snapshots"]}
    lost = [name for name, ref in out["refs"].items() if ref["snapshot-id"] not in ids]
    if lost:
        raise ValueError(f"refs {lost} point to snapshots that are not in the list")
