"""A small S3 server for tests that count requests: objects in memory, listed, read and nothing else."""

from __future__ import annotations

import email.utils
import hashlib
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit


@dataclass
class Objects:
    """The objects of one bucket, by their keys, and the requests that were answered: LIST, HEAD, GET."""

    bucket: str = "bucket"
    content: dict[str, bytes] = field(default_factory=dict)
    requests: Counter[str] = field(default_factory=Counter)
    endpoint: str = ""
    refuses: bool = False  # answers everything with 403


@contextmanager
def serving_objects(objects: Objects) -> Iterator[Objects]:
    """Serves the objects on loopback until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._answer()

        def do_GET(self) -> None:
            self._answer()

        def _answer(self) -> None:
            url = urlsplit(self.path)
            key, query = unquote(url.path).removeprefix(f"/{objects.bucket}").removeprefix("/"), parse_qs(url.query)
            kind = "LIST" if "list-type" in query else self.command
            objects.requests[kind] += 1
            if objects.refuses:
                self._send(403, b"", {})
            elif kind == "LIST":
                self._send(200, _listing(objects, query.get("prefix", [""])[0]), {"Content-Type": "application/xml"})
            elif key not in objects.content:
                self._send(404, b"", {})
            else:
                self._send_object(objects.content[key])

        def _send_object(self, body: bytes) -> None:
            headers = {"ETag": _etag(body), "Last-Modified": email.utils.formatdate(0, usegmt=True)}
            wanted = self.headers.get("Range")
            if wanted is None:
                self._send(200, body, headers)
                return
            first, last = (int(number or len(body) - 1) for number in wanted.removeprefix("bytes=").split("-"))
            last = min(last, len(body) - 1)
            self._send(206, body[first : last + 1], headers | {"Content-Range": f"bytes {first}-{last}/{len(body)}"})

        def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in (headers | {"Content-Length": str(len(body))}).items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    objects.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield objects
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _listing(objects: Objects, prefix: str) -> bytes:
    entries = [
        f"<Contents><Key>{key}</Key><Size>{len(body)}</Size><ETag>{_etag(body)}</ETag>"
        "<LastModified>1970-01-01T00:00:00.000Z</LastModified></Contents>"
        for key, body in sorted(objects.content.items())
        if key.startswith(prefix)
    ]
    head = f"<Name>{objects.bucket}</Name><IsTruncated>false</IsTruncated><KeyCount>{len(entries)}</KeyCount>"
    return f"<ListBucketResult>{head}{''.join(entries)}</ListBucketResult>".encode()


def _etag(body: bytes) -> str:
    return f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'
