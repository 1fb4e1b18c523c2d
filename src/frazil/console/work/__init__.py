"""Work of the console that the server's own process should not do: queries, and changes by the Python API.

It is done by child processes of the server, one job at a time each, with the rights of the caller. Follow a job:

    routes.py          a POST route declares what it needs; its function calls `run_job`
    work/pool.py       takes a free child or starts one, sends the job through a pipe, waits for the answer; kills the
                       child when the time is up or the client leaves
    work/child.py      the child: an application of the catalog on the same database, without a port
    work/inside.py     a `Lake` whose requests reach that application with the caller's own token, address and request
                       id: the gate checks each of them, and the audit log names the caller
    work/kinds.py      the table of what can be done: a function of the lake and the arguments gives JSON

A new kind of job is a line in `KINDS`, and a route:

    def roll_back_here(ctx: Context, request: Request) -> Response:
        return run_job(ctx, request, "rollback", {"table": ..., "to": ...}, seconds=30)

    Route("POST", f"{_TABLE}/rollback", "rollBackTable", roll_back_here, on_relation(Privilege.WRITE), writes=True)

Kinds that change nothing have `stops=True` in their route, so that they end when the client leaves. Kinds that change
something say `writes=True` in both tables: they are not cut off when the client leaves, and a job that does not end in
time is answered as an unknown outcome. Files are reached by the server's access; with authentication only those in the
places of the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.console.work.pool import run_job

__all__ = ["run_job"]

__getattr__ = lazy_names(__name__)
