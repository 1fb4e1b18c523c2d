"""Queries of the console: with the caller's rights, on nothing but the caller's tables, and within limits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import requests

from frazil.catalog.embedded import EmbeddedCatalog
from frazil.client import FrazilCatalog
from frazil.console import queries, query_jobs
from frazil.errors import QueryError
from frazil.lake import Lake
from frazil.processes import wait_until
from tests.console.lake import MARKUP
from tests.kit.access import Guarded, guarded_catalog, load_as, namespace, table
from tests.kit.catalog_databases import Client

FOREIGN = "SELECT count(*) FROM ns.b"


def ask(server: EmbeddedCatalog, sql: Any, part: str = "", **more: Any) -> requests.Response:
    uri = f"{server.uri}/console/api/default/query{part}"
    return requests.post(uri, json={"sql": sql, **more}, timeout=180)


def problem_of(answer: requests.Response) -> dict[str, Any]:
    error: dict[str, Any] = answer.json()["error"]
    return error


def test_a_query_gives_rows_as_text_and_what_its_scans_have_skipped(lake: EmbeddedCatalog) -> None:
    sql = "SELECT buyer, count(*) AS orders FROM shop.sales WHERE order_id < 'o-000100' GROUP BY ALL ORDER BY buyer"
    answer = ask(lake, sql).json()
    assert [column["name"] for column in answer["columns"]] == ["buyer", "orders"]
    assert answer["rows"][:2] == [[MARKUP, "25"], ["Ada", "25"]]
    (scan,) = answer["scans"]
    assert (scan["table"], scan["columns"], scan["all_columns"]) == ("shop.sales", ["order_id", "buyer"], 6)
    assert scan["kept"]["files"] == 1
    assert {layer["layer"]: layer["skipped"] for layer in scan["layers"]}["data files by column bounds"] == 6


def test_a_result_ends_at_its_limits_and_says_so(lake: EmbeddedCatalog) -> None:
    rows = ask(lake, "SELECT * FROM range(100)", limit=10).json()
    assert (len(rows["rows"]), rows["stopped"], rows["limit"]) == (10, "rows", 10)
    wide = ask(lake, "SELECT repeat('x', 100000) FROM range(1000)").json()
    assert (wide["stopped"], len(wide["rows"]) < 168) == ("bytes", True)
    assert ask(lake, "SELECT 1", limit=10_001).status_code == 400
    assert ask(lake, "SELECT 1", limit=True).status_code == 400
    for sql in ("", 5, "x" * 100_001):
        assert ask(lake, sql).status_code == 400


def inside(server: EmbeddedCatalog) -> Lake:
    return Lake(catalog=FrazilCatalog("lake", **server.properties))


def test_a_query_that_needs_too_much_memory_or_time_is_refused(
    lake: EmbeddedCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(query_jobs.SETTINGS, "memory_limit", "20MB")
    with pytest.raises(QueryError, match="more memory") as refused:
        query_jobs.run_query_job(inside(lake), {"sql": "SELECT list(range) FROM range(20000000)", "limit": 10})
    assert refused.value.problem == "memory"
    monkeypatch.setattr(queries, "MOST_SECONDS", 0.5)
    slow = ask(lake, "SELECT count(*) FROM range(100000000) a, range(1000000) b")
    assert (slow.status_code, "longer than 0.5 seconds" in slow.text) == (422, True)


def test_errors_say_where_and_files_are_not_read(lake: EmbeddedCatalog) -> None:
    error = problem_of(ask(lake, "SELECT * FORM x"))
    assert (error["type"], error["offset"]) == ("QueryError", 14)
    for sql in ("SELECT * FROM read_csv('/etc/passwd')", "SELECT * FROM '/etc/passwd'", "COPY (SELECT 1) TO '/tmp/x'"):
        assert ask(lake, sql).status_code == 400
    assert "root:" not in ask(lake, "SELECT * FROM read_text('/etc/passwd')").text


def test_a_file_of_values_has_whole_values(lake: EmbeddedCatalog) -> None:
    answer = ask(lake, "SELECT order_id, items FROM shop.sales ORDER BY order_id LIMIT 2", "/csv").json()
    assert answer == {"csv": 'order_id,items\r\no-000000,[]\r\no-000001,"[""ice""]"\r\n', "rows": 2, "more": False}
    assert len(ask(lake, "SELECT repeat('x', 5000)", "/csv").json()["csv"]) > 5000


def test_a_file_ends_at_a_size(lake: EmbeddedCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_jobs, "MOST_BYTES", 100)
    answer = query_jobs.write_csv_job(inside(lake), {"sql": "SELECT * FROM range(1000)"})
    assert (answer["more"], 0 < answer["rows"] < 100) == (True, True)


def test_types_have_the_words_of_iceberg() -> None:
    kinds = [pa.timestamp("us", tz="Etc/UTC"), pa.large_string(), pa.struct([("a", pa.int32())]), pa.date32()]
    assert [query_jobs.type_name(kind) for kind in kinds] == ["timestamptz", "string", "struct", "date"]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("queries")
    with guarded_catalog(folder, f"sqlite:///{folder / 'catalog.db'}", routes_of=["frazil.console"]) as guarded:
        for letter in "ab":
            guarded.admin.create(letter, "ns")
        yield guarded


def query(caller: Client, sql: str) -> Any:
    return caller.raw("POST", "/console/api/default/query", {"sql": sql})


def test_a_query_reads_what_its_caller_may_read_and_the_audit_log_names_the_caller(guarded: Guarded) -> None:
    reader = guarded.user("reader", ("read", table("a")), ("discover", table("b")))
    assert query(reader, "SELECT count(*) FROM ns.a").body["rows"] == [["0"]]
    assert query(reader, FOREIGN).status == 403
    assert query(guarded.user("other", ("read", table("a"))), FOREIGN).status == 404
    assert query(guarded.user("stranger"), "SELECT 1").status == 404
    assert wait_until(lambda: any(record.actor == "reader" for record in guarded.refusals()), 60)
    (record, *_) = [record for record in guarded.refusals() if record.actor == "reader"]
    assert (record.operation, record.address) == ("loadTable", "127.0.0.1")


def test_a_table_that_names_files_of_another_one_is_not_read(guarded: Guarded, tmp_path: Path) -> None:
    guarded.admin.create("secret", "ns")
    guarded.admin.create("mine", "ns")
    writer = guarded.user("writer", ("write", table("mine")), ("read", table("mine")))
    secret = load_as(guarded, name="secret")
    secret.append(pa.Table.from_pylist([{"id": 1, "data": "secret"}], schema=secret.schema().as_arrow()))
    (path,) = [task.file.file_path for task in load_as(guarded, name="secret").scan().plan_files()]
    token = str(writer.session.headers["Authorization"]).removeprefix("Bearer ")
    load_as(guarded, token, name="mine").add_files([path])
    answer = query(writer, "SELECT * FROM ns.mine")
    assert (answer.status, answer.body["error"]["type"]) == (403, "ForbiddenException")
    assert query(guarded.user("all", ("read", namespace("ns"))), "SELECT * FROM ns.secret").status == 200


def test_vectors_are_searched_by_that_of_a_row(guarded: Guarded) -> None:
    token = str(guarded.admin.session.headers["Authorization"]).removeprefix("Bearer ")
    words = pa.table({"word": ["ice", "snow", "sand"], "embedding": [[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]})
    FrazilCatalog("lake", uri=guarded.server.uri, token=token).create_table(("ns", "words"), words.schema).append(words)
    reader = guarded.user("searcher", ("read", table("words")))
    vector = "(SELECT embedding FROM ns.words WHERE word = 'ice' LIMIT 1)"
    sql = f"SELECT * EXCLUDE (embedding) FROM nearest('ns.words', 'embedding', {vector}, k := 2)"
    answer = query(reader, sql).body
    assert [row[0] for row in answer["rows"]] == ["ice", "snow"]
    by_text = query(reader, "SELECT word FROM nearest('ns.words', 'embedding', 'cold')")
    assert (by_text.status, by_text.body["error"]["problem"]) == (400, "no-embedder")
