"""The access page: keys, roles and members, and who may do what, for those who manage the server."""

from __future__ import annotations

from collections.abc import Callable

from frazil.catalog import ACCESS_OPERATIONS, Context, Privilege, Request, Response, Route, on_server
from frazil.console.answers import console_answer, refuse_other_sites

_MANAGE = on_server(Privilege.MANAGE)
_PATHS = {
    "listAccess": "GET",
    "explainAccess": "GET /explain",
    "createToken": "POST /tokens",
    "rotateToken": "POST /tokens/rotate",
    "revokeToken": "POST /tokens/revoke",
    "createRole": "POST /roles",
    "dropRole": "POST /roles/drop",
    "changeMember": "POST /members",
}


def access_routes(prefix: str) -> tuple[Route, ...]:
    """A route of each operation. None takes an idempotency key: answers with new keys are kept nowhere."""
    routes = []
    for operation, path in _PATHS.items():
        method, _, rest = path.partition(" ")
        routes.append(Route(method, f"{prefix}{rest}", operation, _answer(ACCESS_OPERATIONS[operation]), _MANAGE))
    return tuple(routes)


def _answer(operation: Callable[[Context, Request], Response]) -> Callable[[Context, Request], Response]:
    def run(ctx: Context, request: Request) -> Response:
        refuse_other_sites(request)
        return console_answer(operation(ctx, request))

    return run
