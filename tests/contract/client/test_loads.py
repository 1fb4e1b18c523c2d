"""Few requests: an unchanged table costs a small one, threads that want the same share one, many tables are loaded at a
time.
"""

from __future__ import annotations

import gc
import re
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from pyiceberg.exceptions import NoSuchTableError
from requests import Response

from frazil import Table, column
from frazil.client import FrazilCatalog
from frazil.errors import TableBroken
from frazil.tables.apply import plan_all
from frazil.tables.steps import CreateTable
from tests.contract.client.conftest import ids, rows
from tests.kit.lossy_proxy import LossyProxy
from tests.kit.raising import raises


@pytest.mark.requirement("flow.batching")
def test_an_unchanged_table_is_neither_sent_nor_parsed_again(
    catalog: FrazilCatalog, shaky: FrazilCatalog, proxy: LossyProxy
) -> None:
    first = shaky.load_table("ns.a")
    again = shaky.load_table("ns.a")
    assert b"if-none-match" in proxy.requests[-1].lower()
    assert again.metadata is first.metadata


def test_a_change_by_somebody_else_is_seen_at_the_next_load(catalog: FrazilCatalog, uri: str) -> None:
    catalog.load_table("ns.a")
    FrazilCatalog("lake", uri=uri).load_table("ns.a").append(rows(1))
    assert ids(catalog, "ns.a") == [1]


def test_own_changes_leave_the_remembered_table_as_it_was(catalog: FrazilCatalog) -> None:
    before = catalog.load_table("ns.a")
    catalog.load_table("ns.a").append(rows(1))
    assert (before.current_snapshot(), ids(catalog, "ns.a")) == (None, [1])


def test_a_dropped_and_recreated_table_is_the_new_one(catalog: FrazilCatalog) -> None:
    old = catalog.load_table("ns.a")
    catalog.drop_table("ns.a")
    catalog.create_table("ns.a", old.schema())
    assert catalog.load_table("ns.a").metadata.table_uuid != old.metadata.table_uuid


def loads(proxy: LossyProxy, name: str) -> int:
    return sum(f"/tables/{name} " in request.decode() for request in proxy.requests)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(12) as pool:
        yield pool


def running_functions(pool: ThreadPoolExecutor) -> list[str]:
    """Where each thread is. Python 3.11 waits for ever if it collects garbage with thread-local values meanwhile."""
    gc.disable()
    try:
        frames = sys._current_frames()
    finally:
        gc.enable()
    return [frames[thread.ident].f_code.co_name for thread in pool._threads if thread.ident in frames]


def wait_until_asleep(pool: ThreadPoolExecutor, count: int) -> None:
    """Until this many threads do nothing but wait for an answer."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        names = running_functions(pool)
        if sum(name in ("wait", "result", "readinto") for name in names) == count:
            return
        time.sleep(0.01)
    raise AssertionError("the threads did not come to rest")


@pytest.mark.requirement("flow.batching")
def test_twelve_threads_that_load_one_table_at_once_cost_two_requests(
    shaky: FrazilCatalog, proxy: LossyProxy, threads: ThreadPoolExecutor
) -> None:
    shaky.load_table("ns.b")
    proxy.open.clear()
    waiting = [threads.submit(shaky.load_table, "ns.a") for _ in range(12)]
    wait_until_asleep(threads, 12)
    proxy.open.set()
    tables = [item.result() for item in waiting]
    assert {table.metadata.table_uuid for table in tables} == {shaky.load_table("ns.a").metadata.table_uuid}
    assert len({id(table) for table in tables}) == 12
    assert loads(proxy, "a") == 3  # the first one's, the shared one, and the one after


def test_who_asks_after_a_commit_sees_it_though_an_older_request_is_under_way(
    catalog: FrazilCatalog, shaky: FrazilCatalog, proxy: LossyProxy, threads: ThreadPoolExecutor
) -> None:
    proxy.open.clear()
    early: Future[object] = threads.submit(shaky.load_table, "ns.a")
    wait_until_asleep(threads, 1)
    catalog.load_table("ns.a").append(rows(1))
    late = threads.submit(ids, shaky, "ns.a")
    wait_until_asleep(threads, 2)
    proxy.open.set()
    early.result()
    assert late.result() == [1]
    assert loads(proxy, "a") == 2


def test_an_error_reaches_all_waiting_threads_and_no_later_one(
    catalog: FrazilCatalog, shaky: FrazilCatalog, proxy: LossyProxy, threads: ThreadPoolExecutor
) -> None:
    proxy.open.clear()
    waiting = [threads.submit(shaky.load_table, "ns.later") for _ in range(4)]
    wait_until_asleep(threads, 4)
    proxy.open.set()
    assert [type(item.exception()) for item in waiting] == [NoSuchTableError] * 4
    catalog.create_table("ns.later", catalog.load_table("ns.a").schema())
    assert shaky.load_table("ns.later").name() == ("ns", "later")


@pytest.mark.requirement("flow.batching")
def test_many_tables_are_loaded_at_a_time_in_their_order_and_each_once(
    catalog: FrazilCatalog, shaky: FrazilCatalog, proxy: LossyProxy, threads: ThreadPoolExecutor
) -> None:
    for number in range(6):
        catalog.create_table(f"ns.t{number}", catalog.load_table("ns.a").schema())
    names = [f"ns.t{number}" for number in (3, 1, 2, 3, 0, 5, 4)]
    before = len(proxy.requests)
    proxy.open.clear()
    asked = threads.submit(shaky.load_tables, names)
    until = time.monotonic() + 120
    # all are on their way before the first is answered
    while len(proxy.requests) - before < 6 and time.monotonic() < until:
        time.sleep(0.01)
    proxy.open.set()
    assert [".".join(table.name()) for table in asked.result()] == names
    assert len(proxy.requests) - before == 6


@pytest.mark.requirement("flow.batching")
def test_tables_that_have_not_changed_are_not_parsed_again_when_loaded_together(shaky: FrazilCatalog) -> None:
    first = shaky.load_tables(["ns.a", "ns.b"])
    again = shaky.load_tables(["ns.a", "ns.b"])
    assert [a.metadata is b.metadata for a, b in zip(first, again, strict=True)] == [True, True]


def test_a_table_that_is_missing_among_many_is_named(shaky: FrazilCatalog) -> None:
    with pytest.raises(NoSuchTableError, match=r"ns\.nowhere"):
        shaky.load_tables(["ns.a", "ns.nowhere", "ns.b"])


@pytest.mark.requirement("flow.batching")
def test_a_plan_loads_its_tables_at_a_time_and_asks_once_for_a_namespace(
    shaky: FrazilCatalog, proxy: LossyProxy, threads: ThreadPoolExecutor
) -> None:
    declared = [
        Table(f"{where}.{name}", column("id", "long"), column("name", "string"))
        for where in ("ns", "new")
        for name in "abc"
    ]
    before = len(proxy.requests)
    proxy.open.clear()
    asked = threads.submit(plan_all, declared, shaky)
    until = time.monotonic() + 120
    while len(proxy.requests) - before < 6 and time.monotonic() < until:
        time.sleep(0.01)
    assert sum(b"/tables/" in request for request in proxy.requests[before:]) == 6  # all before the first was answered
    proxy.open.set()
    assert [step.name for step in asked.result() if isinstance(step, CreateTable)] == [
        "ns.c",
        "new.a",
        "new.b",
        "new.c",
    ]
    assert len(proxy.requests) - before == 6 + 2  # and one question for each namespace


def test_an_error_of_one_table_is_in_its_place_among_the_others(shaky: FrazilCatalog) -> None:
    first, missing, last = shaky.load_each(["ns.a", "ns.nowhere", "ns.b"])
    assert isinstance(missing, NoSuchTableError)
    assert [item.name() for item in (first, last) if not isinstance(item, Exception)] == [("ns", "a"), ("ns", "b")]


def test_a_table_whose_metadata_file_is_lost_is_not_taken_for_one_that_is_not_there(catalog: FrazilCatalog) -> None:
    table = catalog.load_table("ns.a")
    Path(table.metadata_location.removeprefix("file://")).unlink()
    location = re.compile(re.escape(table.metadata_location))
    with raises(TableBroken, table="ns.a", reason=location):
        catalog.load_table("ns.a")
    with raises(TableBroken, table="ns.a", reason=location):
        table.append(rows(1))
    assert catalog.table_exists("ns.a")


def test_a_catalog_that_has_one_word_for_both_is_asked_whether_the_table_is_there(catalog: FrazilCatalog) -> None:
    def reword(response: Response, **_: object) -> None:
        response._content = response.content.replace(b"NoSuchTableException", b"NotFoundException")

    catalog._session.hooks["response"].append(reword)
    with pytest.raises(NoSuchTableError, match=r"NotFoundException: .*ns\.nothing"):
        catalog.load_table("ns.nothing")
