"""What keeps other sites out of the console, and what a page may do that has a fault."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files

import pytest
import requests
from playwright.sync_api import Browser

from frazil.catalog.embedded import EmbeddedCatalog
from frazil.console import ROUTES
from frazil.console.assets import static_files

VENDORED = {
    asset["file"] for asset in json.loads(files("frazil.console").joinpath("static/vendored.json").read_bytes())
}


@contextmanager
def other_site(html: str) -> Iterator[str]:
    """A page of another origin."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = html.encode()
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    site = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=site.serve_forever)
    thread.start()
    try:
        yield f"http://localhost:{site.server_address[1]}"
    finally:
        site.shutdown()
        thread.join()
        site.server_close()


@pytest.mark.parametrize("path", ["/", *(f"/console/static/{name}" for name in ("app.js", "console.css", "icon.svg"))])
def test_every_file_has_a_strict_policy_and_cannot_be_framed(lake: EmbeddedCatalog, path: str) -> None:
    answer = requests.get(f"{lake.uri}{path}", timeout=60)
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
    assert {name: policy[name] for name in ("default-src", "script-src", "style-src", "frame-ancestors")} == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "frame-ancestors": "'none'",
    }
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["x-content-type-options"] == "nosniff"
    again = requests.get(f"{lake.uri}{path}", headers={"if-none-match": answer.headers["etag"]}, timeout=60)
    assert (again.status_code, again.content) == (304, b"")


def test_the_page_has_no_inline_script_and_no_address_of_another_host() -> None:
    for name, (content, _) in static_files().items():
        text = content.decode()
        assert "innerHTML" not in text, name
        assert "insertAdjacentHTML" not in text, name
        assert "document.write" not in text, name
        if name not in VENDORED:  # its comments name sources
            assert "http://www.w3.org" in text or "://" not in text.replace("https://frazil", ""), name
    assert b"<script>" not in static_files()["index.html"][0]


def test_a_frame_of_another_site_stays_empty(lake: EmbeddedCatalog, browser: Browser) -> None:
    with other_site(f'<iframe src="{lake.uri}/"></iframe>') as uri:
        page = browser.new_page()
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.goto(uri)
        page.wait_for_function("document.readyState == 'complete'")
        assert [frame.url for frame in page.frames[1:]] != [f"{lake.uri}/"] or page.frames[1].title() == ""
        assert page.frames[1].query_selector("main") is None
        page.close()
    assert any("frame" in text.lower() for text in said)


def test_another_site_can_neither_read_nor_ask(lake: EmbeddedCatalog, browser: Browser) -> None:
    paths = [route.template.replace("{prefix}", "default") for route in ROUTES if "/api/" in route.template]
    with other_site("<p>other</p>") as uri:
        page = browser.new_page()
        page.goto(uri)
        for path in (path for path in paths if "{" not in path):
            outcome = page.evaluate("url => fetch(url).then(() => 'read', () => 'refused')", f"{lake.uri}{path}")
            assert outcome == "refused", path
        page.close()
    for path in (path for path in paths if "{" not in path):
        assert requests.get(f"{lake.uri}{path}", headers={"origin": uri}, timeout=60).status_code == 403
        assert requests.get(f"{lake.uri}{path}", headers={"host": "evil.example"}, timeout=60).status_code == 403


def test_a_file_that_there_is_not_is_not_found(lake: EmbeddedCatalog) -> None:
    for name in ("nothing.js", "..%2f__init__.py", "%2e%2e", "__init__.py"):
        assert requests.get(f"{lake.uri}/console/static/{name}", timeout=60).status_code == 404
