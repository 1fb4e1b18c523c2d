"""The catalog as an ASGI application. ROUTES is the whole of it: method, path, operation, function.

Operations are plain functions. One that is marked `quick` runs in the event loop when the database is local: an indexed
lookup, a stat and bytes from the cache take less than a hop to a thread. If it finds that it would have to wait, it
raises WouldBlock and is called again in a thread, where everything else runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from frazil.catalog.access.gate import AccessChanged
from frazil.catalog.admitted import AdmittedReads
from frazil.catalog.bodies import COUNT_FROM_BYTES, Share
from frazil.catalog.connections import Connections
from frazil.catalog.context import Context
from frazil.catalog.http import (
    FORM,
    FORM_BYTES,
    GZIP_FROM_BYTES,
    JSON,
    Abandoned,
    Headers,
    Receive,
    Request,
    Response,
    Scope,
    Send,
    accepts_gzip,
    pack,
    read_body,
)
from frazil.catalog.idempotency import HEADER as IDEMPOTENCY_KEY
from frazil.catalog.idempotency import answer_once, replay_empty
from frazil.catalog.logs import SLOW_SECONDS, log, log_request
from frazil.catalog.operations.credentials import finish_created
from frazil.catalog.operations.scans import can_plan
from frazil.catalog.operations.searches import can_search
from frazil.catalog.origins import client_address
from frazil.catalog.problems import problem, problem_response
from frazil.catalog.routes import CREDENTIALS, OWN_ROUTES, ROUTES, SCANS, SEARCHES, SIGNING
from frazil.catalog.routing import Route, Router
from frazil.catalog.warehouse import WouldBlock
from frazil.errors import BadRequest, CatalogError, Forbidden, MethodNotAllowed, NotFound, Unavailable, UnknownRoute
from frazil.logs import hide_tokens

LOGGED_PATH = 500  # characters
KNOWN_SECONDS = 1.0  # that a caller who was looked up is known: then once more before the answer
MOST_RUNS = 5  # of a read during which keys, roles or grants change
UNPACK_AT_ONCE = 2  # long bodies in gzip: each takes a core for as long as it lasts


class Turns:
    """Commits to one table, one at a time: who comes later is judged on what the earlier one wrote. Waiting takes no
    thread.
    """

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, ...], deque[asyncio.Future[None]]] = {}  # by table that has a commit under way

    def enter(self, key: tuple[str, ...]) -> bool:
        """Takes the turn, if it is free."""
        if key in self._waiting:
            return False
        self._waiting[key] = deque()
        return True

    async def wait(self, key: tuple[str, ...]) -> None:
        """Takes the turn when everyone before has left."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting[key].append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(key)  # it was granted just now, and this request is cancelled
            raise

    def leave(self, key: tuple[str, ...]) -> None:
        """Hands the turn to the request that has waited longest."""
        queue = self._waiting[key]
        while queue:
            turn = queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        del self._waiting[key]


def endpoints(*, searches: bool = True) -> list[str]:
    """What /v1/config tells clients that this server can do."""
    hidden = {"getConfig", "getToken", *CREDENTIALS, *SIGNING, *(() if can_plan() else SCANS)}
    own = [route.endpoint for route in OWN_ROUTES if searches and can_search() and route.operation in SEARCHES]
    return [*(route.endpoint for route in ROUTES if route.operation not in hidden), *own]


def vending_endpoints() -> list[str]:
    """What it adds for a warehouse that vends credentials."""
    return [route.endpoint for route in ROUTES if route.operation in CREDENTIALS]


def signing_endpoints() -> list[str]:
    """What it adds for a warehouse that signs requests to its object store."""
    return [route.endpoint for route in ROUTES if route.operation in SIGNING]


class CatalogApp:
    """ASGI: `uvicorn.run(CatalogApp(context))`."""

    def __init__(self, ctx: Context, *, routes: Iterable[Route] = (*ROUTES, *OWN_ROUTES)) -> None:
        self.ctx = ctx
        self._router = Router(routes)
        self._admitted = AdmittedReads(ctx.gate)
        self._threads = ThreadPoolExecutor(ctx.limits.threads, thread_name_prefix="frazil-catalog")
        self._unpackers = ThreadPoolExecutor(UNPACK_AT_ONCE, thread_name_prefix="frazil-unpack")
        self._quick_inline = ctx.database.local
        self._turns = Turns()
        self.connections = Connections(ctx.limits)
        form_bytes = min(ctx.limits.body_bytes, FORM_BYTES)
        self._form_limits = ctx.limits.model_copy(update={"body_bytes": form_bytes})
        self._numbers = itertools.count(1)
        self._run_id = secrets.token_hex(4)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self.connections.start()
                await send({"type": "lifespan.startup.complete"})
            else:
                self.connections.stop()
                await asyncio.to_thread(self.close)
                await send({"type": "lifespan.shutdown.complete"})
                return

    def close(self) -> None:
        """Waits for the work in flight, then closes the database."""
        self._unpackers.shutdown(wait=True)
        self._threads.shutdown(wait=True)
        self.ctx.close()

    def answer_here(self, method: bytes, url: bytes, headers: Headers, address: str = "") -> Response | None:
        """The whole answer to a quick read, made in the event loop; None when it needs a thread, or goes wrong in a way
        to be logged.
        """
        if not self._quick_inline:
            return None
        started = time.perf_counter()
        path, _, query = url.partition(b"?")
        header_map = dict(headers)
        if len(header_map) != len(headers):
            return None  # a header twice: looked at where there is time
        route: Route | None = None
        spent = False
        if self.ctx.behind_proxy:
            address = client_address(address, header_map)
        request = Request(method.decode(), "", {}, query, header_map, inline=True, address=address)
        try:
            self.ctx.hosts.check(header_map)
            gate = self.ctx.gate
            route = self._admitted.admit(request, url) if gate.on else None
            is_new = route is None
            if route is None:
                route, request.variables = self._router.find(request.method, path)
            if not route.quick or b"content-length" in header_map or b"transfer-encoding" in header_map:
                return None
            if gate.on and route.needs.authenticated:
                request.operation = route.operation
                if is_new and not self._allow(route, request, url):
                    gate.authenticate(request)
                self._spend(request)
                spent = True
                gate.authorise(route.needs, request)
            response = route.run(self.ctx, request)
            gate.settle(request)
            gate.check_expiry(request)
        except (UnknownRoute, MethodNotAllowed, WouldBlock, AccessChanged):
            self._come_again(request, spent=spent)
            return None
        except CatalogError as exc:
            if route is None:
                return None
            if request.assumed:  # the caller may not be known any more
                self._come_again(request, spent=spent)
                return None
            response = problem_response(exc)
            if request.refused:
                request.request_id = self._request_id(header_map)
                self.ctx.gate.note_refusal(request, exc)
        except Exception:
            return None
        request_id = request.request_id = request.request_id or self._request_id(header_map)
        self._count(route, request, path.decode("ascii", "replace"), response.status, started)
        return Response(
            response.status, b"" if method == b"HEAD" else response.body, _with_length(response, request_id)
        )

    def _allow(self, route: Route, request: Request, url: bytes) -> bool:
        """Whether a read may be made by what the gate remembers."""
        gate = self.ctx.gate
        if not (route.confirms and gate.recognise(request) and gate.remembers(route.needs, request)):
            return False
        self._admitted.keep(request, route, url)
        return True

    def _come_again(self, request: Request, *, spent: bool) -> None:
        """Gives back what a request has spent that is answered elsewhere."""
        if spent and self.ctx.request_quota is not None and request.caller is not None:
            self.ctx.request_quota.give_back(request.caller.principal, 1)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        self.ctx.telemetry.in_flight += 1
        share = Share(self.ctx.budget)
        try:
            headers = dict(scope["headers"])
            request_id = self._request_id(headers)
            request = Request(scope["method"], scope["path"], {}, scope["query_string"], headers)
            request.request_id, request.address = request_id, (scope["client"] or ("",))[0]
            request.served_at = scope.get("server") or request.served_at
            if self.ctx.behind_proxy:
                request.address = client_address(request.address, headers)
            route, response = await self._answer(scope, request, receive, share)
            request.forget_body()
            await send(
                {
                    "type": "http.response.start",
                    "status": response.status,
                    "headers": _with_length(response, request_id),
                }
            )
            await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else response.body})
        finally:
            self.ctx.telemetry.in_flight -= 1
            share.release()
        self._count(route, request, scope["path"], response.status, started)

    def _count(self, route: Route | None, request: Request, path: str, status: int, started: float) -> None:
        seconds = time.perf_counter() - started
        operation, writes = (route.operation, route.writes) if route else ("unknown", False)
        self.ctx.telemetry.count(operation, status, seconds, commits=route is not None and route.commits)
        if writes or status >= 400 or seconds > SLOW_SECONDS or log.isEnabledFor(logging.DEBUG):
            facts: dict[str, object] = {"method": request.method, "path": path[:LOGGED_PATH], "operation": operation}
            facts |= {"status": status, "address": request.address}
            if request.caller is not None:
                facts["principal"] = request.caller.principal
            log_request(request.request_id.decode(), facts, seconds=seconds, writes=writes)

    def _request_id(self, headers: dict[bytes, bytes]) -> bytes:
        """The client's own id, if it is short, printable and no token; else a new one."""
        request_id = headers.get(b"x-request-id")
        if (
            request_id is not None
            and len(request_id) <= 128
            and request_id.isascii()
            and request_id.decode().isprintable()
            and hide_tokens(request_id.decode()) == request_id.decode()
        ):
            return request_id
        return f"{self._run_id}-{next(self._numbers):x}".encode()

    async def _answer(
        self, scope: Scope, request: Request, receive: Receive, share: Share
    ) -> tuple[Route | None, Response]:
        """The response, whatever happens: errors become HTTP here."""
        route, headers = None, request.headers
        try:
            self._check(scope, headers)
            route, request.variables = self._router.find(request.method, scope["raw_path"])
            request.operation = route.operation
            if self.ctx.gate.on and route.needs.authenticated and not self._recognise(route, request):
                await self._authenticate(request)
            self._spend(request)
            if request.method == "POST":
                request.body = await read_body(
                    headers,
                    receive,
                    limits=self._form_limits if route.form else self.ctx.limits,
                    share=share,
                    threads=self._unpackers,
                    content_type=FORM if route.form else JSON,
                )
                if self.ctx.body_quota is not None and request.caller is not None:
                    self.ctx.body_quota.take(request.caller.principal, len(request.body))
            if request.assumed and not self.ctx.gate.remembers(route.needs, request):
                await self._authenticate(request)
            if request.method == "POST" and request.caller is not None:
                # The client may have kept its body back since then: compared once more, in the transaction of a change
                # or before the answer.
                request.assumed = True
            return route, await self._run(route, request, receive)
        except CatalogError as exc:
            self.ctx.gate.note_refusal(request, exc)
            return route, problem_response(exc)
        except Abandoned:
            return route, problem(499, "ClientClosedRequest", "The client disconnected")
        except TimeoutError:
            return route, _late(route, self.ctx.limits.request_seconds)
        except Exception as exc:
            facts = {"request_id": request.request_id.decode()}
            log.exception("unexpected error while handling the request", extra={"fields": facts})
            kind = "CommitStateUnknownException" if route and route.commits else "InternalServerError"
            return route, problem(
                500, kind, f"The server failed ({type(exc).__name__}); its log has the details under this request's id"
            )

    def _check(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        if len(headers) != len(scope["headers"]):
            for name in (b"host", b"authorization", b"origin", b"content-type", b"content-encoding"):
                if len({value for key, value in scope["headers"] if key == name}) > 1:
                    raise BadRequest(f"The request has two {name.decode()} headers that differ")
        self.ctx.hosts.check(headers, version=scope["http_version"])

    def _spend(self, request: Request) -> None:
        """Counts the request of a principal, before its body is read."""
        if self.ctx.request_quota is not None and request.caller is not None:
            self.ctx.request_quota.take(request.caller.principal, 1)
        if self.ctx.body_quota is not None and request.caller is not None:
            self.ctx.body_quota.check(request.caller.principal)

    def _recognise(self, route: Route, request: Request) -> bool:
        """Whether the caller is known by what is remembered; the operation confirms it. Not for a body of more than a
        few KB: the caller may have been known until now, and what unknown callers send takes no memory.
        """
        if not route.confirms or IDEMPOTENCY_KEY in request.headers:
            return False
        if route.quick and self._quick_inline:
            return False  # only requests come here that could not be answered by what is remembered
        return _is_small(request) and self.ctx.gate.recognise(request)

    async def _authenticate(self, request: Request) -> None:
        """Before the body is read: what an unknown caller sends takes no memory."""
        if self._quick_inline:
            request.inline = True
            try:
                return self.ctx.gate.authenticate(request)
            except WouldBlock:  # the keys of an issuer must be fetched
                pass
            finally:
                request.inline = False
        await asyncio.get_running_loop().run_in_executor(self._threads, self.ctx.gate.authenticate, request)
        return None

    async def _run(self, route: Route, request: Request, receive: Receive) -> Response:
        if route.quick and self._quick_inline:
            try:
                request.inline = True
                self.ctx.gate.authorise(route.needs, request)
                response = route.run(self.ctx, request)
                self.ctx.gate.check_expiry(request)
                return response
            except WouldBlock:
                request.inline = False
        if route.refuse is None or not self._quick_inline or IDEMPOTENCY_KEY in request.headers:
            return await self._in_thread(route, request, receive)
        if self.ctx.appends.expects(tuple(request.variables.values())):  # those that wait are committed together
            return await self._in_thread(route, request, receive)
        small = len(request.body) < COUNT_FROM_BYTES  # a long body is not parsed here
        if small:
            self.ctx.gate.authorise(route.needs, request)
        key = (request.variables["namespace"], request.variables["table"])
        waited = not self._turns.enter(key)
        if waited:
            async with asyncio.timeout(self.ctx.limits.request_seconds):
                await self._turns.wait(key)
        try:
            # The table has just changed: most likely this attempt is stale.
            if waited and small:
                await self._refuse(route.refuse, request)
            return await self._in_thread(route, request, receive)
        finally:
            self._turns.leave(key)

    async def _refuse(self, refuse: Callable[[Context, Request], None], request: Request) -> None:
        self.ctx.gate.check_expiry(request)
        try:
            refuse(self.ctx, request)
        except AccessChanged:
            await self._authenticate(request)

    async def _in_thread(self, route: Route, request: Request, receive: Receive) -> Response:
        """The operation's answer. A future and a timer by hand: `run_in_executor` in `asyncio.timeout` takes twice the
        time.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Response] = loop.create_future()
        timer = loop.call_later(self.ctx.limits.request_seconds, _expire, answer)
        self._threads.submit(self._work_and_tell, route, request, loop, answer)
        watch = loop.create_task(_watch(receive, request)) if route.stops else None
        try:
            return await answer
        finally:
            timer.cancel()
            request.left = True  # nothing waits for the thread any more, whether it has finished or not
            if watch is not None:
                watch.cancel()
            # An exception knows this frame, the frame the future and the future the exception: the request, and a body
            # of megabytes, would wait for the garbage collector.
            del answer

    def _work_and_tell(
        self, route: Route, request: Request, loop: asyncio.AbstractEventLoop, answer: asyncio.Future[Response]
    ) -> None:
        try:
            if route.stops:
                request.check_client()
            response = self._work(route, request)
        except BaseException as exc:
            _tell(loop, answer, answer.set_exception, exc)
        else:
            _tell(loop, answer, answer.set_result, response)

    def _work(self, route: Route, request: Request) -> Response:
        """The operation, in a thread."""
        self.ctx.gate.check_expiry(request)
        response = self._confirmed(route, request)
        if route.vends:  # after the record of the idempotency key, which must not keep credentials
            response = finish_created(self.ctx, request, response)
        return _packed(request, response)

    def _confirmed(self, route: Route, request: Request) -> Response:
        """The operation's answer. If keys, roles or grants have changed meanwhile, the caller is looked up, and the
        operation run, again.
        """
        for _ in range(MOST_RUNS):
            try:
                return self._carry_out(route, request)
            except AccessChanged:
                request.refused = False
                self.ctx.gate.authenticate(request)
        raise Unavailable("Keys, roles or grants have changed each time that the request was answered; retry")

    def _carry_out(self, route: Route, request: Request) -> Response:
        """The operation's answer, confirmed if its caller was assumed to be known, or was looked up a while ago: reads
        may have waited for a thread, or taken long. Changes are checked in their own transaction, so that one that was
        made is not answered with 401, nor made again because it has itself changed access; what a change answers
        without one is confirmed here.
        """
        try:
            response = self._authorised(route, request)
        except CatalogError:
            self._settle(route, request)
            raise
        self._settle(route, request)
        return response

    def _authorised(self, route: Route, request: Request) -> Response:
        try:
            self.ctx.gate.authorise(route.needs, request)
        except (Forbidden, NotFound):
            done = replay_empty(self.ctx, request) if route.writes else None
            if done is None:
                raise
            request.refused = False
            return done
        return answer_once(self.ctx, route.run, request) if route.writes else route.run(self.ctx, request)

    def _settle(self, route: Route, request: Request) -> None:
        is_change = route.writes or request.decided
        if request.caller is not None and not is_change:
            request.assumed |= time.monotonic() - request.authenticated_at > KNOWN_SECONDS
        self.ctx.gate.settle(request)
        if not is_change:
            self.ctx.gate.check_expiry(request)


def _is_small(request: Request) -> bool:
    """Whether the head of a request announces no body, or one that stays small."""
    headers = request.headers
    if b"transfer-encoding" in headers or b"content-encoding" in headers:
        return False
    length = headers.get(b"content-length", b"0")
    return len(length) <= 5 and length.isdigit() and int(length) < COUNT_FROM_BYTES


async def _watch(receive: Receive, request: Request) -> None:
    """Notes in the request when its client goes away."""
    while (await receive())["type"] != "http.disconnect":
        pass
    request.left = True


def _tell(
    loop: asyncio.AbstractEventLoop, answer: asyncio.Future[Response], tell: Callable[[Any], None], what: object
) -> None:
    def tell_if_awaited() -> None:
        if not answer.done():  # the time may be up
            tell(what)

    with contextlib.suppress(RuntimeError):  # the loop is closed: the server was made to end
        loop.call_soon_threadsafe(tell_if_awaited)


def _expire(answer: asyncio.Future[Response]) -> None:
    if not answer.done():
        answer.set_exception(TimeoutError())


def _with_length(response: Response, request_id: bytes) -> Headers:
    headers = [*response.headers, (b"x-request-id", request_id)]
    if response.status not in (204, 304):
        headers.append((b"content-length", b"%d" % len(response.body)))
    return headers


def _packed(request: Request, response: Response) -> Response:
    """The response in gzip where that pays: long listings. What a commit answers changes with each commit: packing it
    would cost more than the commit; loads keep their packed bytes.
    """
    if (
        len(response.body) < GZIP_FROM_BYTES
        or response.metadata_location is not None
        or not accepts_gzip(request.headers)
    ):
        return response
    if any(name == b"content-encoding" for name, _ in response.headers):
        return response
    headers = [*response.headers, (b"content-encoding", b"gzip"), (b"vary", b"accept-encoding")]
    return Response(response.status, pack(response.body), headers)


def _late(route: Route | None, seconds: float) -> Response:
    # The thread goes on; whether it will succeed is not known here. Java clients send a request again by themselves
    # after a 504: a write that succeeded in the end would then be reported as failed.
    kind = "CommitStateUnknownException" if route and route.commits else "GatewayTimeoutException"
    status = 500 if route and route.writes else 504
    return problem(
        status, kind, f"The request was not finished within {seconds:g} seconds; it may still be carried out"
    )
