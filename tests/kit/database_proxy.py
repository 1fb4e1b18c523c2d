"""A TCP proxy in front of PostgreSQL that cuts a connection at the moment of COMMIT, before it arrives or before its
answer does, and counts round trips.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field


@dataclass
class CuttingProxy:
    """Passes everything on, until it is armed: then the next COMMIT is cut, once."""

    upstream: tuple[str, int]
    port: int = 0
    armed: str = ""  # "before": the database never sees the COMMIT; "after": it does, and its answer is lost
    closed: bool = False  # refuses every connection
    cuts: int = 0
    round_trips: int = 0  # what clients sent after an answer, or first
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    async def serve(self, ready: threading.Event, stop: asyncio.Event) -> None:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await stop.wait()
        server.close()
        for writer in list(self._open):
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.closed:
            writer.transport.abort()
            return
        with suppress(OSError):
            remote_reader, remote_writer = await asyncio.open_connection(*self.upstream)
            self._open |= {writer, remote_writer}
            answered = asyncio.Event()
            answered.set()
            await asyncio.gather(
                self._up(reader, writer, remote_writer, answered), self._down(remote_reader, writer, answered)
            )

    async def _up(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        remote: asyncio.StreamWriter,
        answered: asyncio.Event,
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                self.round_trips += answered.is_set()
                answered.clear()
                if self.armed and b"COMMIT" in data:
                    await self._cut(data, writer, remote, answered)
                    return
                remote.write(data)
                await remote.drain()
        remote.close()

    async def _cut(
        self, data: bytes, writer: asyncio.StreamWriter, remote: asyncio.StreamWriter, answered: asyncio.Event
    ) -> None:
        mode, self.armed = self.armed, ""
        self.cuts += 1
        self.closed = mode.endswith("and-close")
        if mode.startswith("after"):
            writer.transport.abort()  # the way back is gone before the COMMIT goes out
            answered.clear()
            remote.write(data)
            await remote.drain()
            await asyncio.wait_for(answered.wait(), 60)  # a connection that is cut earlier may take the COMMIT with it
        if self.closed:
            for other in list(self._open):
                other.transport.abort()
        writer.transport.abort()
        remote.transport.abort()

    async def _down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answered: asyncio.Event) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                answered.set()
                writer.write(data)
                await writer.drain()
        writer.close()


@contextmanager
def cutting_proxy(host: str, port: int) -> Iterator[CuttingProxy]:
    """A proxy that runs as long as the block, in a thread."""
    proxy, ready = CuttingProxy((host, port)), threading.Event()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(proxy.serve(ready, stop)), daemon=True)
    thread.start()
    ready.wait()
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(60)
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0.05))
        loop.close()
