"""The files of the console's front end: they are in the package as they are served, and in memory from the first
request on.

The pages run no inline script, load nothing from another host and cannot be framed: the headers say so, and a browser
keeps to them even where a page has a fault.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files

from frazil.catalog import Context, Request, Response
from frazil.errors import UnknownRoute

TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-cache"),
]


@cache
def static_files() -> dict[str, tuple[bytes, str]]:
    """The content of each file by its name, and its tag."""
    contents = {file.name: file.read_bytes() for file in files("frazil.console").joinpath("static").iterdir()}
    return {
        name: (content, f'"{hashlib.sha256(content).hexdigest()[:32]}"')
        for name, content in contents.items()
        if name.rpartition(".")[2] in TYPES
    }


def serve_page(_ctx: Context, request: Request) -> Response:
    """The one page of the console; its address after `#` says what it shows."""
    return _serve(request, "index.html")


def serve_file(_ctx: Context, request: Request) -> Response:
    """A style sheet, a module or an image of the page."""
    return _serve(request, request.variables["file"])


def _serve(request: Request, name: str) -> Response:
    if name not in static_files():
        raise UnknownRoute(f"The console has no file {name[:100]!r}")
    content, tag = static_files()[name]
    headers = [*HEADERS, (b"etag", tag.encode())]
    if request.headers.get(b"if-none-match") == tag.encode():
        return Response(304, b"", headers)
    return Response(200, content, [*headers, (b"content-type", TYPES[name.rpartition(".")[2]].encode())])
