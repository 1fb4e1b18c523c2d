"""A repository of jars on loopback, as Ivy sees a site's own: it counts what is asked for, and can stall in the middle
of a file.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import ssl
import threading
import time
from pathlib import Path


class Repository:
    """Files in Maven's layout, served over HTTP (HTTPS with a certificate); `settings` is the Ivy settings file that
    names it.
    """

    def __init__(self, folder: Path, *, certificate: Path | None = None) -> None:
        self.folder = folder
        self.requests: list[str] = []
        self.stall = threading.Event()  # while set, a jar is sent half; the rest follows when it is cleared
        self.stalled = threading.Event()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()
        scheme = "https" if certificate else "http"
        folder.mkdir(parents=True, exist_ok=True)
        self.settings = write_settings(folder / "settings.xml", f"{scheme}://127.0.0.1:{self.server.server_port}/")

    def publish(self, coordinate: str, content: bytes = b"a jar", *, needs: str = "", ext: str = "jar") -> None:
        """Puts an artifact with its POM and checksums in place; `needs` is the coordinate that it depends on."""
        group, name, version, *classifier = coordinate.split(":")
        folder = self.folder.joinpath(*group.split("."), name, version)
        folder.mkdir(parents=True, exist_ok=True)
        stem = f"{name}-{version}"
        files = {f"{'-'.join([stem, *classifier])}.{ext}": content, f"{stem}.pom": _pom(group, name, version, needs)}
        for file, body in files.items():
            (folder / file).write_bytes(body)
            (folder / f"{file}.sha1").write_text(hashlib.sha1(body).hexdigest())

    def asked_for(self, suffix: str) -> int:
        """How often a file with this ending was downloaded."""
        return len([path for path in self.requests if path.endswith(suffix)])

    def close(self) -> None:
        self.stall.clear()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def _handler(self) -> type[http.server.SimpleHTTPRequestHandler]:
        repository = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *arguments: object) -> None:
                super().__init__(*arguments, directory=str(repository.folder))

            def do_GET(self) -> None:
                repository.requests.append(self.path)
                file = repository.folder / self.path.lstrip("/")
                if not (self.path.endswith(".jar") and repository.stall.is_set()):
                    return super().do_GET()
                body = file.read_bytes()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: len(body) // 2])
                self.wfile.flush()
                repository.stalled.set()
                while repository.stall.is_set():
                    time.sleep(0.02)
                return self._send(body[len(body) // 2 :])

            def _send(self, body: bytes) -> None:
                with contextlib.suppress(OSError):  # the client may be gone
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


def write_settings(file: Path, root: str) -> Path:
    resolver = f'<ibiblio name="site" m2compatible="true" root="{root}"/>'
    file.write_text(f'<ivysettings><settings defaultResolver="site"/><resolvers>{resolver}</resolvers></ivysettings>')
    return file


def _pom(group: str, name: str, version: str, needs: str) -> bytes:
    needed = ""
    if needs:
        parts = zip(("groupId", "artifactId", "version"), needs.split(":"), strict=True)
        needed = f"<dependencies><dependency>{''.join(f'<{tag}>{text}</{tag}>' for tag, text in parts)}</dependency></dependencies>"  # noqa: E501
    head = f"<modelVersion>4.0.0</modelVersion><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"  # noqa: E501
    return f"<project>{head}{needed}</project>".encode()
