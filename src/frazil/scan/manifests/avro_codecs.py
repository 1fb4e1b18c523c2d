"""Unpacks the blocks of Avro files; none may grow to far more than its file could hold."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import pyarrow as pa

from frazil.scan.manifests.avro_schema import AvroError


def unpack(codec: str, block: bytes, room: int) -> bytes:
    """A block's records. A few kilobytes can say that they are gigabytes: what does not fit into the room
    is refused.
    """
    if codec not in _CODECS:
        raise AvroError(f"its blocks are packed with '{codec}', which is not read here")
    content = _CODECS[codec](block, room)
    if len(content) > room:
        raise AvroError("it unpacks to far more than a file of its size holds")
    return content


def _inflate(block: bytes, room: int) -> bytes:
    packed = zlib.decompressobj(-15)
    content = packed.decompress(block, room + 1)
    if not packed.eof and len(content) <= room:
        raise AvroError("a block ends too early")
    return content


def _unpack_zstandard(block: bytes, room: int) -> bytes:
    from zstandard import ZstdDecompressor

    with ZstdDecompressor().stream_reader(block) as reader:
        return bytes(reader.read(room + 1))


def _unpack_snappy(block: bytes, room: int) -> bytes:
    """Snappy's own format, which starts with its length, and a checksum of what it unpacks to."""
    size, shift = 0, 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > room:
        raise AvroError("it unpacks to far more than a file of its size holds")
    try:
        content = bytes(pa.decompress(block[:-4], decompressed_size=size, codec="snappy", asbytes=True))
    except (OSError, pa.ArrowException) as exc:
        raise AvroError(f"a block cannot be unpacked ({exc})") from exc
    if zlib.crc32(content) != int.from_bytes(block[-4:], "big"):
        raise AvroError("a block's checksum is wrong")
    return content


def _unpack_bzip2(block: bytes, room: int) -> bytes:
    from bz2 import BZ2Decompressor

    try:
        return BZ2Decompressor().decompress(block, room + 1)
    except OSError as exc:
        raise AvroError(f"a block cannot be unpacked ({exc})") from exc


_CODECS: dict[str, Callable[[bytes, int], bytes]] = {
    "null": lambda block, _room: block,
    "deflate": _inflate,
    "zstandard": _unpack_zstandard,
    "snappy": _unpack_snappy,
    "bzip2": _unpack_bzip2,
}
