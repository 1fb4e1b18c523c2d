"""What a person reads when the catalog is not where the settings say, or the server cannot listen where it should."""

from __future__ import annotations

import http.server
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from frazil.catalog.embedded import running_catalog


def frazil(*arguments: str, cwd: Path) -> tuple[int, str]:
    """The exit code and what was said; a traceback is never it."""
    command = [sys.executable, "-m", "frazil", *arguments]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=240)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "lakehouse.py").write_text('from frazil import Table, column\nt = Table("a.t", column("x", "int"))\n')
    return tmp_path


class Page(http.server.BaseHTTPRequestHandler):
    """Something else than a catalog."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"\n<html>hello</html>")


@pytest.fixture(params=[Page, http.server.BaseHTTPRequestHandler, http.server.SimpleHTTPRequestHandler])
def web_server(request: pytest.FixtureRequest) -> Iterator[str]:
    """A server that is no catalog: it answers 200, 501 or 404."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), request.param) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        (
            "http://me:hunter2@127.0.0.1:1",
            "error: no catalog answers at http://me:***@127.0.0.1:1 (flag)\n  try: start one with: frazil serve",
        ),
        ("127.0.0.1:1", "error: catalog.uri is 127.0.0.1:1 (flag), which cannot be called\n  try: "),
        ("http://[bad", "error: catalog.uri is http://[bad (flag), which cannot be called\n  try: "),
    ],
)
def test_a_catalog_that_cannot_be_reached_is_named_with_the_source_of_its_address(
    project: Path, uri: str, message: str
) -> None:
    code, said = frazil("--set", f"catalog.uri={uri}", "plan", cwd=project)
    assert (code != 0, said[: len(message)]) == (True, message)


def test_a_server_that_is_no_catalog_is_an_error_of_one_line(project: Path, web_server: str) -> None:
    code, said = frazil("--set", f"catalog.uri={web_server}", "plan", cwd=project)
    assert (
        code,
        said.startswith(f"error: what answers at {web_server} (flag) refused, or is no Iceberg REST catalog: "),
    ) == (1, True)
    assert "<html" not in said


def test_what_the_catalog_refuses_is_an_error_of_one_line(project: Path) -> None:
    with running_catalog(project / "catalog") as catalog:
        (project / "lakehouse.py").write_text(
            'from frazil import Table, column\nt = Table("a.t", column("x", "int"), location="file:///elsewhere/t")\n'
        )
        code, said = frazil("--set", f"catalog.uri={catalog.uri}", "apply", cwd=project)
    first, *others = said.splitlines()
    assert (code, first.startswith(f"catalog {catalog.uri} (flag)"), [line[:7] for line in others]) == (
        1,
        True,
        ["error: "],
    )


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_an_address_that_is_not_ours_is_not_called_a_port_in_use(tmp_path: Path, host: str) -> None:
    code, said = frazil("serve", "--host", host, "--port", "0", cwd=tmp_path)
    assert (code, said.startswith(f"error: cannot listen on {host}, port 0: ")) == (2, True)


@pytest.mark.parametrize("option", ["--database=sqlite:///{file}/catalog.db", "--warehouse={file}/lake"])
def test_a_server_that_cannot_write_says_so_and_does_not_start(tmp_path: Path, option: str) -> None:
    (tmp_path / "file").touch()
    code, said = frazil("serve", "--port", "0", option.format(file=tmp_path / "file"), cwd=tmp_path)
    assert (code != 0, said.startswith("error: "), f"{tmp_path}/file" in said, "Iceberg REST catalog on" in said) == (
        True,
        True,
        True,
        False,
    )
