"""The lines of a file that begin inside a range of its bytes: two neighbouring ranges share no line, and lose none."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

BLOCK_BYTES = 1 << 20
MOST_HEADER_BYTES = 16 << 20


class LineRange(io.RawIOBase):
    """A stream of the lines that begin in `[start, end)` of a seekable file; closing it closes the file."""

    def __init__(self, file: Any, start: int, end: int) -> None:
        self._file, self._left = file, b""
        self._at, self._end, self._over = start, end, start >= end
        if 0 < start < end:  # the line that is under way belongs to the range before
            self._at = start - 1
            file.seek(self._at)
            while (cut := self._fill().find(b"\n")) < 0 and not self._over:
                self._left = b""
            self._left = self._left[cut + 1 :] if cut >= 0 else b""
            if self._at - len(self._left) >= end:
                self._left, self._over = b"", True

    def read(self, size: int = -1) -> bytes:
        """The next bytes; none at the end."""
        if not self._left:
            self._fill()
        data, self._left = (
            (self._left, b"") if size < 0 or len(self._left) <= size else (self._left[:size], self._left[size:])
        )
        return data

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()

    def _fill(self) -> bytes:
        """More bytes, cut after the last line that begins before the end."""
        if self._over:
            return b""
        data = self._file.read(BLOCK_BYTES)
        before, self._at = self._at, self._at + len(data)
        if not data:
            self._over = True
        elif self._at >= self._end:
            # The line that holds the byte before the end began before it: it is ours up to its newline.
            cut = data.find(b"\n", max(self._end - 1 - before, 0))
            if cut >= 0:
                data, self._over = data[: cut + 1], True
                self._at = before + cut + 1
        self._left += data
        return self._left


def iter_lines(stream: Any) -> Iterator[bytes]:
    """The lines of a stream without their ends; the last one may lack its newline."""
    rest = b""
    while data := stream.read(BLOCK_BYTES):
        *lines, rest = (rest + data).split(b"\n")
        yield from lines
    if rest:
        yield rest


def first_line(filesystem: Any, path: str, *, quote: bytes | None = None) -> bytes:
    """The first line that is not empty, with its newline; with `quote`, one whose quotes are closed."""
    line = b""
    with filesystem.open_input_stream(path, compression="detect") as stream:
        while len(line) < MOST_HEADER_BYTES:
            data: bytes = stream.read(64 << 10)
            line = (line + data).lstrip(b"\r\n")
            end = line.find(b"\n")
            while quote and end >= 0 and line[:end].count(quote) % 2:
                end = line.find(b"\n", end + 1)
            if end >= 0:
                return line[: end + 1]
            if not data:
                break
    return line
