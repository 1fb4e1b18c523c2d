"""`python -m frazil.catalog.upkeep.child`: the worker that `frazil serve --upkeep` starts. With `requested` it is one
for the tables that someone asked for, which then ends.

It has a server of its own on a free port of the loopback interface, for itself alone: what it does passes the same
operations, checks and audit log as a request of any client, wherever and however the other server listens. With
authentication it is the principal `frazil:upkeep`, whose token never leaves the process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from frazil import metrics
from frazil.catalog.context import Context
from frazil.catalog.embedded import serving
from frazil.catalog.logs import log_to_stderr
from frazil.catalog.server import ServerOptions, build_app, return_memory
from frazil.catalog.upkeep.process import be_modest, end_with_parent, run_until_signal
from frazil.catalog.upkeep.worker import UpkeepWorker
from frazil.processes import write_no_core

if TYPE_CHECKING:
    from frazil.client import FrazilCatalog

NAME = "upkeep"  # of the principal


def main(lifeline: int, task: str = "work") -> None:
    """Does its task; works until SIGTERM, or until the parent has ended."""
    options = ServerOptions.from_json(sys.stdin.read())
    log_to_stderr(options.log_level)
    write_no_core()
    return_memory()
    be_modest()
    end_with_parent(lifeline)
    recorded = metrics.Prometheus()
    metrics.use(recorded)
    app = build_app(own_options(options))
    app.ctx.telemetry.watch(recorded.counts)
    with serving(app) as port:
        settings = options.upkeep or options.upkeep_on_request
        worker = UpkeepWorker(app.ctx.database, connector(app.ctx, f"http://127.0.0.1:{port}"), settings)
        worker.requested_only = task == "requested"
        run_until_signal(worker)


def own_options(options: ServerOptions) -> ServerOptions:
    """The options for the server of this process. Other users of the machine can reach its port: no proxy stands in
    front of it, no one else has a name for it, and it has no console.
    """
    kept = replace(options, behind_proxy=False, allowed_hosts=(), host="", public_uri=None, routes_of=())
    return replace(kept, certificate=None, certificate_key=None)


def connector(ctx: Context, uri: str) -> Callable[[str], FrazilCatalog]:
    """Clients of the server at this address, by warehouse, with the server's own access to the object store."""
    from frazil.client import FrazilCatalog

    token = {"token": ctx.gate.admit_internal(NAME, ["maintain"])} if ctx.gate.on else {}

    def connect(warehouse: str) -> FrazilCatalog:
        access = ctx.warehouses.named(warehouse).access.own()
        return FrazilCatalog("lake", uri=uri, warehouse=warehouse, **token, **access)

    return connect


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
