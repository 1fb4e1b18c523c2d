"""A small real server to try the base class on. As a program it starts one and waits: python -m tests.kit.toy
FOLDER PORT.
"""

from __future__ import annotations

import sys
import time

from frazil.config import load_settings
from frazil.processes import Launch
from frazil.services import ports
from frazil.services.service import Service

SCRIPT = """
import http.server, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("listening on", sys.argv[1], flush=True)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), http.server.SimpleHTTPRequestHandler).serve_forever()
"""


class Toy(Service):
    """An HTTP server in its simplest form; `script` is the Python that runs as the server."""

    name = "kafka"  # any name with a port of its own will do
    extra_ports = ("side",)
    stop_seconds = 1.0
    script = SCRIPT

    def version(self) -> str:
        return "1.0"

    def launch(self) -> Launch:
        return Launch([sys.executable, "-c", self.script, str(self.port)], cwd=self.data)

    def ready(self) -> bool:
        return ports.http_status(self.port, "/") == 200


if __name__ == "__main__":
    Toy(load_settings(flags={"stack.folder": sys.argv[1], "stack.ports.kafka": sys.argv[2]})).start()
    time.sleep(300)
