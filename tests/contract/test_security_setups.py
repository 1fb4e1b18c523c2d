"""The set-ups of docs/security.md, followed as they stand there: with keys, with OpenID Connect, behind a proxy."""

from __future__ import annotations

import json
import re
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import requests

from frazil.processes import wait_until
from tests.kit.issuer import local_issuer

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/security.md").read_text(encoding="utf-8")
TLS = ROOT / "tests/data/tls"
NAMESPACES = "/v1/default/namespaces"


def block_of(title: str) -> str:
    """The first block of code below a heading."""
    match = re.search(rf"^### {title}\n.*?^```\w+\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert match is not None
    return match[1]


def run(folder: Path, script: str) -> str:
    """A script of commands, each of which must succeed."""
    text = f"frazil() {{ '{sys.executable}' -m frazil \"$@\"; }}\n{script}"
    done = subprocess.run(["bash", "-euc", text], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def serving(folder: Path, line: str) -> Iterator[str]:
    """`frazil serve ...` on a free port: its address."""
    words = line.split()
    assert words[:2] == ["frazil", "serve"]
    log = folder / "server.log"
    command = [sys.executable, "-m", *words, "--port", "0"]
    with log.open("w") as file, subprocess.Popen(command, cwd=folder, stdout=file, stderr=file) as server:
        try:
            assert wait_until(lambda: "catalog on http" in log.read_text() or server.poll() is not None, 60)
            yield re.findall(r"catalog on (http\S+)", log.read_text())[0]
        finally:
            server.terminate()


def logged(folder: Path) -> list[dict[str, Any]]:
    """The lines of the server's log."""
    lines = (folder / "server.log").read_text().splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def ask(uri: str, method: str, path: str, token: str = "", **more: Any) -> requests.Response:
    headers = {**more.pop("headers", {}), **({"Authorization": f"Bearer {token}"} if token else {})}
    return requests.request(method, uri + path, headers=headers, timeout=60, **more)


def test_with_keys(tmp_path: Path) -> None:
    *commands, serve = block_of("With keys").splitlines()
    run(tmp_path, "\n".join(commands))
    alice, bob = ((tmp_path / f"{name}.key").read_text().strip() for name in ("alice", "bob"))
    assert {path.stat().st_mode & 0o077 for path in tmp_path.glob("*.key")} == {0}
    with serving(tmp_path, serve) as uri:
        body = {"namespace": ["lakehouse"]}
        assert [ask(uri, "POST", NAMESPACES, token, json=body).status_code for token in ("", bob, alice)] == [
            401,
            403,
            200,
        ]
        assert ask(uri, "GET", NAMESPACES, bob).json()["namespaces"] == [["lakehouse"]]
        listed = run(tmp_path, "FRAZIL_CATALOG__TOKEN=$(cat bob.key) frazil tables --output json")
    assert '"tables"' in listed
    created = [line for line in logged(tmp_path) if line.get("operation") == "createNamespace"]
    callers = [(line["status"], line.get("principal"), line["address"]) for line in created]
    assert callers == [(401, None, "127.0.0.1"), (403, "bob", "127.0.0.1"), (200, "alice", "127.0.0.1")]


def test_with_openid_connect(tmp_path: Path) -> None:
    with local_issuer() as issuer:
        settings = block_of("With OpenID Connect").replace("https://id.example.org/realms/corp", issuer.uri)
        (tmp_path / "frazil.toml").write_text(settings)
        run(
            tmp_path,
            "frazil token create alice --role admin; frazil role create analyst; frazil grant read --to analyst",
        )
        with serving(tmp_path, "frazil serve") as uri:

            def status(method: str, *groups: str, **claims: Any) -> int:
                claims = {"aud": "lakehouse", "realm_access": {"roles": list(groups)}, **claims}
                body = {"json": {"namespace": ["lakehouse"]}} if method == "POST" else {}
                return ask(uri, method, NAMESPACES, issuer.sign(**claims), **body).status_code

            assert [status("POST", *groups) for groups in ((), ("data-team",), ("platform",))] == [404, 403, 200]
            assert [status("GET", "data-team"), status("GET"), status("GET", "platform", aud="other")] == [
                200,
                404,
                401,
            ]
        reasons = run(tmp_path, "frazil role add analyst corp/ann; frazil why corp/ann --warehouse default")
    assert "corp/ann: read on warehouse default through the role analyst" in reasons


@contextmanager
def tls_proxy(upstream: str) -> Iterator[str]:
    """A proxy that terminates TLS, keeps the Host header, and says where a request comes from."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hops = [*self.headers.get_all("X-Forwarded-For", []), "192.0.2.7"]
            connection = HTTPConnection(upstream.partition("://")[2], timeout=60)
            kept = {name: value for name, value in self.headers.items() if name.lower() != "x-forwarded-for"}
            connection.request("GET", self.path, headers={**kept, "X-Forwarded-For": ", ".join(hops)})
            answer = connection.getresponse()
            body = answer.read()
            self.send_response(answer.status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            connection.close()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "certificate.pem", TLS / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_behind_a_proxy(tmp_path: Path) -> None:
    key = run(tmp_path, "frazil token create alice --role admin").strip()
    line = block_of("Behind a proxy").strip().replace("10.0.0.5", "0.0.0.0")  # every address of this machine
    with serving(tmp_path, line) as address, tls_proxy(address.replace("0.0.0.0", "127.0.0.1")) as uri:

        def through(path: str, host: str, token: str = key) -> requests.Response:
            headers = {"Host": host, "X-Forwarded-For": "203.0.113.9"}  # the client's own word does not count
            with requests.Session() as session:
                session.trust_env = False
                session.headers.update({"Authorization": f"Bearer {token}"})
                return session.get(uri + path, headers=headers, verify=str(TLS / "certificate.pem"), timeout=60)

        config = through("/v1/config", "lake.example.org")
        assert (config.status_code, through("/v1/config", "evil.example.org").status_code) == (200, 403)
        assert config.json()["defaults"]["oauth2-server-uri"] == "https://lake.example.org/oauth/token"
        assert through("/v1/config", "lake.example.org", "x").status_code == 401
    assert {line["address"] for line in logged(tmp_path) if line.get("status") == 401} == {"192.0.2.7"}
    refused = run(tmp_path, "frazil audit-log --refused --output json")
    assert '"address": "192.0.2.7"' in refused
    assert "203.0.113.9" not in refused
