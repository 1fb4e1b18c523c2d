"""A request that is sent twice with one key gets one answer, whichever of the two was faster."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from frazil.catalog.context import Context
from frazil.catalog.embedded import running_catalog
from frazil.catalog.http import Request, Response, json_response
from frazil.catalog.idempotency import answer_once, transact
from frazil.catalog.store.database import Sql
from frazil.catalog.store.sqlite import SqliteDatabase
from frazil.errors import CommitConflict

KEY = b"0192e4f1-7c1b-7000-8000-000000000001"


def test_a_failure_is_not_reported_when_the_same_request_was_carried_out_meanwhile(tmp_path: Path) -> None:
    """The failing copy has looked for a record and waits to write its own, while the other copy commits first."""
    with running_catalog(tmp_path) as catalog:
        ctx, database = catalog.app.ctx, catalog.app.ctx.database
        assert isinstance(database, SqliteDatabase)
        begun, queued, answers = threading.Event(), threading.Event(), {}

        def hold(sql: Sql) -> None:
            begun.set()
            queued.wait(60)

        def succeed(ctx: Context, request: Request) -> Response:
            return transact(ctx, request, lambda sql: json_response({"committed": True}))

        def fail(ctx: Context, request: Request) -> Response:
            raise CommitConflict("nothing was committed")

        def send(name: str) -> None:
            request = Request("POST", "/v1/x", {}, headers={b"idempotency-key": KEY})
            answers[name] = answer_once(ctx, {"succeed": succeed, "fail": fail}[name], request).status

        threads = [threading.Thread(target=database.write, args=(hold,))]
        threads[0].start()
        begun.wait(60)
        for number, name in enumerate(("succeed", "fail"), start=1):
            threads.append(threading.Thread(target=send, args=(name,)))
            threads[-1].start()
            while len(database._waiting) < number:
                pass
        queued.set()
        for thread in threads:
            thread.join(60)
        assert answers == {"succeed": 200, "fail": 200}


@pytest.mark.parametrize("copies", [2, 8])
def test_copies_of_one_request_in_one_transaction_get_the_same_answer(tmp_path: Path, copies: int) -> None:
    with running_catalog(tmp_path) as catalog:
        ctx, answers = catalog.app.ctx, []
        start = threading.Barrier(copies)

        def send() -> None:
            request = Request("POST", "/v1/x", {}, headers={b"idempotency-key": KEY})
            start.wait(60)
            run = lambda ctx, request: transact(ctx, request, lambda sql: json_response({"committed": True}))  # noqa: E731
            answers.append(answer_once(ctx, run, request).body)

        threads = [threading.Thread(target=send) for _ in range(copies)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert answers == [b'{"committed":true}'] * copies
